"""A provenance reference leads to something outside, by its form, and never back to the memory itself."""

from __future__ import annotations

from typing import get_args
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.metadata.provenance import find_fault
from sluice.core.metadata.write_quality import Scheme

SCHEMES = get_args(Scheme)
OWN = "mem-7f3a"


def fault(uri: str, *own: str) -> str | None:
    return find_fault(uri, SCHEMES, own or (OWN,))


@pytest.mark.parametrize(
    "uri",
    [
        "https://example.com/source",
        "HTTP://Example.com:8080/a%20b?x=1&y=2#part",
        "https://203.0.113.7/report.pdf",
        "https://[2001:db8::1]/report",
        "gate-source://crm/accounts/42",
        "gate-feed://prices.eu",
        "https://xn--mnchen-3ya.example/",
    ],
)
def test_an_external_reference_is_well(uri: str) -> None:
    assert fault(uri) is None


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "#part",
        "/a/path",
        "//example.com/a",
        "example.com",
        "https:",
        "https:/example.com",
        "https:///path",
        "https://",
        "https://?q=1",
        "https://:443/",
        "https://example.com:port/",
        "https://example.com:99999/",
        "https://[::1",
        "https://exa mple.com/",
        "https://example.com/a\nb",
        "https://example.com/%zz",
        "https://ex\u0430mple.com/",
        "https://-/",
        "https://user:secret@example.com/",
        "data:text/plain,hello",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "file://host/share",
        "memory://mem-1",
        "urn:isbn:0451450523",
        "ftp://example.com/a",
    ],
)
def test_what_cannot_be_resolved_outside_is_a_fault(uri: str) -> None:
    assert fault(uri) is not None


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST.", "store.localhost:80", "127.0.0.1", "[::1]", "[::]", "[::ffff:127.0.0.1]"],
)
def test_the_writers_own_machine_is_not_external(host: str) -> None:
    assert "not external" in str(fault(f"http://{host}/a"))


@pytest.mark.parametrize(
    "uri",
    [
        f"gate-source://{OWN}",
        f"gate-source://{OWN}/",
        f"https://{OWN}./a",
        f"https://store.example.com/{OWN}",
        f"https://store.example.com/memories/{OWN}/raw",
        f"https://store.example.com/memories/{OWN}.json",
        f"https://store.example.com/memories/{OWN}.tar.gz?x=1",
        f"https://store.example.com/{OWN.upper()}",
        f"https://store.example.com/?id={OWN}",
        f"https://store.example.com/?a=1&{OWN}",
        f"https://store.example.com/#{OWN}",
        f"https://store.example.com/items(id='{OWN}')",
        "https://store.example.com/mem%2D7f3a",
        "https://store.example.com/mem%252D7f3a",
        f"https://store.example.com/a%2F{OWN}",
    ],
)
def test_a_reference_to_the_memory_itself_is_a_fault(uri: str) -> None:
    assert fault(uri) == f"refers to itself: {OWN}"


@pytest.mark.parametrize(
    "uri",
    [
        f"https://store.example.com/{OWN}b",
        f"https://store.example.com/x{OWN}",
        f"https://store.example.com/x-{OWN}-y",
        f"https://{OWN}.example.com/a",
    ],
)
def test_another_name_that_holds_the_id_is_another_reference(uri: str) -> None:
    assert fault(uri) is None


def test_an_id_of_several_parts_is_found_whole() -> None:
    assert fault("https://store.example.com/m/writes:0:12", "writes:0:12") is not None
    assert fault("https://store.example.com/m/writes%3A0%3A12", "writes:0:12") is not None
    assert fault("https://store.example.com/m/writes:0:123", "writes:0:12") is None
    assert fault("https://store.example.com/team/notes/3", "team/notes") is not None
    assert fault("https://store.example.com/?q=my+note", "my note") is not None


ids = st.text(
    st.characters(categories=["L", "N"]) | st.sampled_from("-_.:/ +"), min_size=3, max_size=12
).filter(lambda name: name.strip("./ ") == name and any(map(str.isalpha, name)))


@given(ids, st.sampled_from(["a/{}", "a/{}/b", "?id={}", "?x=1&id={}&y=2", "#{}", "a/{}.json"]))
def test_no_id_hides_in_percent_encoding(own: str, place: str) -> None:
    for name in (own, own.swapcase()):
        if name.casefold() == own.casefold():
            assert fault("https://store.example.com/" + place.format(quote(name, safe="")), own) is not None


@pytest.mark.parametrize("host", ["127.1", "0x7f000001", "2130706433", "0177.0.0.1", "0x0", "0"])
def test_a_loopback_address_is_one_in_every_form_that_resolvers_take(host: str) -> None:
    assert fault(f"http://{host}/tickets/7") is not None


def test_an_id_that_is_only_a_number_stands_in_other_peoples_references_too() -> None:
    assert fault("https://store.example.com/page/17", "17") is None


@given(st.text(max_size=60))
def test_no_text_makes_the_check_raise(text: str) -> None:
    for uri in (text, f"https://{text}", f"https://a.example/{text}"):
        told = fault(uri)
        assert told is None or told
