"""One place has many spellings, and what is known of it is found under each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.text.places import host_of, normal_uri, place_of, places_above

PLACE = "https://evil.example/a/b"


@pytest.mark.parametrize(
    "spelt",
    [
        "HTTPS://EVIL.example/a/b",
        "https://evil.example:443/a/b",
        "https://evil.example:0443/a/b",
        "https://evil.example:/a/b",
        "https://evil.example./a/b",
        "https://evil.example.:443/a/b",
        "https://user:secret@evil.example/a/b",
        "https://%65vil%2eexample/%61/b",
        "https://evil.example/x/../a/./b",
        "https://evil.example//a//b/",
        "https://evil.example/../a/b#part",
        " https://evil.example/a/b ",
    ],
)
def test_a_place_is_the_same_however_it_is_spelt(spelt: str) -> None:
    assert place_of(spelt) == PLACE


@pytest.mark.parametrize(
    "other",
    [
        "http://evil.example/a/b",
        "https://evil.example:8443/a/b",
        "https://evil.example/A/b",
        "https://evil.example/a%2Fb",
        "https://evil.example.org/a/b",
        "https://notevil.example/a/b",
        "https://evil.example/a/bc",
        "https://good.example/?u=https://evil.example/a/b",
    ],
)
def test_another_place_is_another(other: str) -> None:
    assert place_of(other) != PLACE
    assert PLACE not in places_above(other, 2048)


@pytest.mark.parametrize("text", ["", "evil.example", "/a/b", "://x", "https:", "1https://x"])
def test_what_is_no_absolute_uri_is_no_place(text: str) -> None:
    assert place_of(text) is None
    assert places_above(text, 2048) == ()


def test_a_place_lies_below_every_part_of_its_path_and_its_host() -> None:
    assert places_above("https://evil.example/a/b?q=1", 2048) == (
        "https://evil.example/a/b?q=1",
        "https://evil.example/a/b",
        "https://evil.example/a",
        "https://evil.example",
    )
    assert places_above("urn:isbn:1/2", 2048) == ("urn:isbn:1/2", "urn:isbn:1")


HOSTS = st.sampled_from(
    ["evil.example", "EVIL.example.", "evil.example:443", "a@evil.example:80", "[::1]:8443"]
)
SEGMENTS = st.lists(st.sampled_from(["a", "B", "..", ".", "", "%61", "%2f", "c.d", ":"]), max_size=8)
QUERIES = st.sampled_from(["", "?", "?q=%61", "?a/b#c", "#?"])


@given(HOSTS, SEGMENTS, QUERIES)
def test_a_normal_form_is_its_own(host: str, segments: list[str], query: str) -> None:
    uri = f"https://{host}/{'/'.join(segments)}{query}"
    for place in places_above(uri, 2048):
        assert place_of(place) == place
        assert host_of(place) == host_of(uri) == places_above(uri, 2048)[-1]


@pytest.mark.parametrize(
    "spelt",
    [
        "HTTPS://EVIL.example/a/b",
        "https://evil.example:443/a/b",
        "https://evil.example:/a/b",
        "https://evil.example./a/b",
        "https://%65vil%2eexample/%61/%62",
        "https://evil.example/x/%2e%2e/a/./b",
        "https://evil.example/../a/b#part",
        "https://evil.example/a/b?",
    ],
)
def test_a_document_has_one_name_however_its_reference_is_spelt(spelt: str) -> None:
    assert normal_uri(spelt) == PLACE


@pytest.mark.parametrize(
    "other",
    [
        PLACE + "/",
        PLACE + "?q",
        "http://evil.example/a/b",
        "https://evil.example:8443/a/b",
        "https://evil.example//a/b",
        "https://evil.example/A/b",
        "https://evil.example/a%2Fb",
        "https://u@evil.example/a/b",
        "gate-source://Prices/a",
        "gate-source://prices.example.:443/a",
        "urn:isbn:1",
        "not a uri",
        "HTTPS://EVIL.example/%zz",
    ],
)
def test_another_document_keeps_its_own_name(other: str) -> None:
    assert normal_uri(other) == other


@given(HOSTS, SEGMENTS, QUERIES)
def test_a_name_is_its_own_name_and_of_the_same_place(host: str, segments: list[str], query: str) -> None:
    uri = f"https://{host}/{'/'.join(segments)}{query}"
    assert normal_uri(normal_uri(uri)) == normal_uri(uri)
    assert host_of(normal_uri(uri)) == host_of(uri)


@given(st.text(alphabet="aA.:/?#%@[]20", max_size=40))
def test_whatever_the_text_its_name_is_its_own(text: str) -> None:
    assert normal_uri(normal_uri(f"https://{text}")) == normal_uri(f"https://{text}")


@given(st.text(alphabet="aA.:/?#%@[]20", max_size=40), st.integers(0, 60))
def test_whatever_the_text_no_place_is_longer_than_asked_for(text: str, longest: int) -> None:
    assert all(len(place) <= longest for place in places_above(f"https://{text}", longest))
