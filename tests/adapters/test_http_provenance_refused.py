"""Where a reference may not lead, whatever it looks like: nothing is asked, and the record says why."""

from __future__ import annotations

import pytest

from sluice.ports import ProvenanceAnswer
from tests.adapters.web import HOST, answer, page, resolve, rules, web

METADATA = "169.254.169.254"


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("ftp://docs.example.com/a", "the scheme is neither http nor https"),
        ("file:///etc/passwd", "the scheme is neither http nor https"),
        ("gopher://docs.example.com/a", "the scheme is neither http nor https"),
        ("docs.example.com/a", "the scheme is neither http nor https"),
        ("http:///a", "host not allowed"),
        ("http://evil.example.org/a", "host not allowed"),
        ("http://docs.example.com.evil.org/a", "host not allowed"),
        ("http://xdocs.example.com/a", "host not allowed"),
        ("http://a.docs.example.com/a", "host not allowed"),
        ("http://docs.example.com@evil.org/a", "names a user before the host"),
        ("http://user:key@docs.example.com/a", "names a user before the host"),
        ("http://@docs.example.com/a", "names a user before the host"),
        ("http://docs.example.com:22/a", "port 22 is not allowed"),
        ("http://docs.example.com:0/a", "port 0 is not allowed"),
        ("http://docs.example.com:99999/a", "the host or the port cannot be read"),
        ("http://docs.example.com:8o/a", "the host or the port cannot be read"),
        ("http://[::1/a", "the host or the port cannot be read"),
        ("http://docs.example.com\\@evil.org/a", "not a URI of printable ASCII characters"),
        ("http://docs.example.com/a b", "not a URI of printable ASCII characters"),
        ("http://docs.example.com/a\r\nX: y", "not a URI of printable ASCII characters"),
        ("http://docs.exämple.com/a", "not a URI of printable ASCII characters"),
        ("http://docs。example.com/a", "not a URI of printable ASCII characters"),
        ("http://127.0.0.1/a", "host not allowed"),
        ("http://2130706433/a", "host not allowed"),
        ("http://0x7f.1/a", "host not allowed"),
        ("http://[::ffff:127.0.0.1]/a", "host not allowed"),
        ("", "not a URI of printable ASCII characters"),
    ],
)
async def test_a_reference_outside_the_rules_is_refused_unasked(uri: str, why: str) -> None:
    found = await resolve(uri, rules(80, 443), names={HOST: ["127.0.0.1"]})
    assert found == ProvenanceAnswer(None, why, "refused")


async def test_without_an_allowed_host_nothing_is_fetched() -> None:
    async with web(page()) as installation:
        assert await resolve(installation.uri(), rules(installation.port, hosts=())) == ProvenanceAnswer(
            None, "host not allowed", "refused"
        )
        assert installation.requests == []


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("a.example.com", True),
        ("A.Example.COM", True),
        ("a.example.com.", True),
        ("example.com", False),
        ("b.a.example.com", False),
        ("a.example.com.evil.org", False),
        ("aexample.com", False),
    ],
)
async def test_a_wildcard_is_for_one_label_as_in_certificates(host: str, *, allowed: bool) -> None:
    async with web(page()) as installation:
        names = {host.lower().rstrip("."): ["127.0.0.1"]}
        found = await resolve(
            installation.uri(host=host), rules(installation.port, hosts=["*.example.com"]), names=names
        )
        assert (found.resolution is not None, len(installation.requests)) == (allowed, int(allowed))


@pytest.mark.parametrize(
    "addresses",
    [
        [METADATA],
        ["10.0.0.7"],
        ["127.0.0.1"],
        ["::1"],
        ["::ffff:127.0.0.1"],
        ["64:ff9b::7f00:1"],
        ["2002:7f00:1::"],
        ["fe80::1%lo"],
        ["93.184.215.14", METADATA],
        [METADATA, "93.184.215.14"],
        ["not an address"],
    ],
)
async def test_a_name_that_leads_inside_is_refused_whatever_else_it_leads_to(addresses: list[str]) -> None:
    async with web(page()) as installation:
        given = rules(installation.port, loopback=False)
        found = await resolve(installation.uri(), given, names={HOST: addresses})
        assert found.resolution is None
        assert found.detail.startswith("address not allowed: ")
        assert installation.requests == []


@pytest.mark.parametrize("names", [{}, {HOST: []}], ids=["unknown", "empty"])
async def test_a_name_without_an_address_leads_nowhere(names: dict[str, list[str]]) -> None:
    assert await resolve(f"http://{HOST}/", rules(80), names=names) == ProvenanceAnswer(
        None, "the host has no address", "passing"
    )


async def test_loopback_is_allowed_only_where_a_setting_says_so_and_nothing_private_with_it() -> None:
    for address in ("10.0.0.7", METADATA, "::ffff:127.0.0.1", "0.0.0.0", "::"):  # noqa: S104 - an address
        found = await resolve(f"http://{HOST}/", rules(80), names={HOST: [address]})
        assert found.detail.startswith("address not allowed: "), address


async def test_the_address_that_was_checked_is_the_one_connected_to() -> None:
    """A name that says another address at each question is asked once a connection."""
    turns = [["127.0.0.1"], ["10.0.0.7"]]
    asked: list[str] = []

    class Rebinding(dict[str, list[str]]):
        def __contains__(self, host: object) -> bool:
            return True

        def __getitem__(self, host: str) -> list[str]:
            asked.append(host)
            return turns.pop(0)

    async with web(page()) as installation:
        first = await resolve(installation.uri(), rules(installation.port), names=Rebinding())
        assert first.resolution is not None
        assert asked == [HOST]
        second = await resolve(installation.uri(), rules(installation.port), names=Rebinding())
        assert second.detail == "address not allowed: 10.0.0.7 is no public address"


@pytest.mark.parametrize(
    ("location", "why"),
    [
        ("http://169.254.169.254/latest/meta-data/", "redirected, and host not allowed"),
        ("http://inside.example.com/", "redirected, and host not allowed"),
        ("//evil.example.org/", "redirected, and host not allowed"),
        ("http://docs.example.com:22/", "redirected, and port 22 is not allowed"),
        ("http://u:p@docs.example.com/", "redirected, and names a user before the host"),
        ("file:///etc/passwd", "redirected, and the scheme is neither http nor https"),
        ("http://[::1", "redirected to what is no URI"),
        ("/a b", "redirected to what is no URI"),
        ("", "redirected to what is no URI"),
    ],
)
async def test_a_redirect_is_held_to_the_same_rules(location: str, why: str) -> None:
    async with web(answer("302 Found", location=location)) as installation:
        assert await resolve(installation.uri(), rules(installation.port, 80)) == ProvenanceAnswer(None, why)
        assert len(installation.requests) == 1


async def test_a_redirect_to_an_allowed_name_with_a_private_address_is_refused() -> None:
    inside = "inside.example.com"
    async with web(answer("302 Found", location=f"http://{inside}/")) as installation:
        names = {HOST: ["127.0.0.1"], inside: ["10.0.0.7"]}
        found = await resolve(
            installation.uri(), rules(installation.port, 80, hosts=[HOST, inside]), names=names
        )
    assert found == ProvenanceAnswer(None, "address not allowed: 10.0.0.7 is no public address")


async def test_a_loop_of_redirects_ends() -> None:
    async with web(b"") as installation:
        installation.answer = answer("301 Moved", location=installation.uri())
        found = await resolve(installation.uri(), rules(installation.port))
        assert (found, len(installation.requests)) == (
            ProvenanceAnswer(None, "redirected more than 3 times"),
            4,
        )
