"""References of the web, resolved on real connections: what is recorded of a server that behaves."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from sluice.ports import Known, ProvenanceAnswer
from tests.adapters.web import HOST, answer, page, resolve, rules, web

if TYPE_CHECKING:
    import asyncio

OTHER = "mirror.example.com"
HOME = {HOST: ["127.0.0.1"], OTHER: ["127.0.0.1"]}
TAG = '"v1"'
LONG_AGO = "Tue, 04 Nov 2025 10:00:00 GMT"
JUST_THEN = "Fri, 21 Nov 2025 13:00:00 GMT"


def digest(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def select(body: bytes, etag: str | None = None, last_modified: str | None = None) -> ProvenanceAnswer:
    return ProvenanceAnswer(Known(digest(body), len(body), etag, last_modified), "")


@pytest.mark.parametrize("body", [b"", b"hello", bytes(range(256)) * 390], ids=["empty", "short", "long"])
async def test_the_hash_is_over_the_bytes_that_the_server_sends(body: bytes) -> None:
    async with web(page(body)) as site:
        assert await resolve(site.uri(), rules(site.port)) == select(body)


async def test_a_page_that_changes_has_another_hash() -> None:
    async with web(page(b"as written")) as site:
        before = await resolve(site.uri(), rules(site.port))
        site.answer = page(b"as changed")
        after = await resolve(site.uri(), rules(site.port), before.resolution)
    assert (before, after) == (select(b"as written"), select(b"as changed"))


async def test_a_body_in_chunks_and_one_that_ends_with_the_connection_are_read_whole() -> None:
    chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"
    async with web(chunked) as site:
        assert await resolve(site.uri(), rules(site.port)) == select(b"hello")
        site.answer = b"HTTP/1.0 200 OK\r\n\r\nhello"
        assert await resolve(site.uri(), rules(site.port)) == select(b"hello")


async def test_the_request_names_the_host_and_says_nothing_of_whoever_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No cookie that an earlier answer set, no credential, no proxy out of the environment."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with web(page(set_cookie="a=b; path=/")) as site:
        for _ in range(2):
            await resolve(site.uri("/a%20b?q=1&r=%2F#part"), rules(site.port))
        assert [one.split("\r\n")[0] for one in site.requests] == ["GET /a%20b?q=1&r=%2F HTTP/1.1"] * 2
        assert site.read_sent_fields() == {
            "host": f"{HOST}:{site.port}",
            "accept": "*/*",
            "accept-encoding": "identity",
            "connection": "close",
        }


@pytest.mark.parametrize(
    ("fields", "known", "asked"),
    [
        ({"etag": TAG}, (TAG, None), ("if-none-match", TAG)),
        ({"etag": TAG, "last_modified": LONG_AGO, "date": JUST_THEN}, (TAG, None), ("if-none-match", TAG)),
        (
            {"last_modified": LONG_AGO, "date": JUST_THEN},
            (None, LONG_AGO),
            ("if-modified-since", LONG_AGO),
        ),
    ],
    ids=["tag", "tag and date", "date"],
)
async def test_an_unchanged_page_keeps_its_hash_and_is_not_sent_again(
    fields: dict[str, str], known: tuple[str | None, str | None], asked: tuple[str, str]
) -> None:
    async with web(page(**fields)) as site:
        first = await resolve(site.uri(), rules(site.port))
        assert first == select(b"hello", *known)
        site.answer = answer("304 Not Modified")
        assert await resolve(site.uri(), rules(site.port), first.resolution) == first
        assert site.read_sent_fields().items() >= {asked}


@pytest.mark.parametrize(
    "fields",
    [
        {"etag": 'W/"v1"'},
        {"etag": "v1"},
        {"etag": '"v1", "v2"'},
        {"etag": f'"{"x" * 600}"'},
        {"last_modified": JUST_THEN, "date": JUST_THEN},
        {"last_modified": LONG_AGO},
        {"last_modified": "yesterday", "date": JUST_THEN},
        {"last_modified": "Tue, 99 Nov 99999999 10:00:00 GMT", "date": JUST_THEN},
        {"last_modified": "Tuesday, 04-Nov-25 10:00:00 GMT", "date": JUST_THEN},
    ],
    ids=["weak", "unquoted", "two", "long", "same second", "no date", "no time", "no year", "obsolete"],
)
async def test_what_does_not_vouch_for_the_same_bytes_is_not_asked_by(fields: dict[str, str]) -> None:
    async with web(page(**fields)) as site:
        first = await resolve(site.uri(), rules(site.port))
        assert first == select(b"hello")
        await resolve(site.uri(), rules(site.port), first.resolution)
        assert not {"if-none-match", "if-modified-since"} & site.read_sent_fields().keys()


@pytest.mark.parametrize("known", [None, Known(digest(b"hello"), 5, None, None)], ids=["nothing", "no tag"])
async def test_unchanged_is_no_answer_where_nothing_was_asked(known: Known | None) -> None:
    async with web(answer("304 Not Modified", etag=TAG)) as site:
        found = await resolve(site.uri(), rules(site.port), known)
    assert found == ProvenanceAnswer(None, "the server answered 304")


@pytest.mark.parametrize("status", ["301", "302", "303", "307", "308"])
async def test_a_redirect_is_followed_within_the_allowed_hosts(status: str) -> None:
    async with web(page(etag=TAG)) as there, web(b"") as here:
        here.answer = answer(f"{status} Moved", location=there.uri("/new", OTHER))
        given = rules(here.port, there.port, hosts=(HOST, OTHER))
        assert await resolve(here.uri(), given, names=HOME) == select(b"hello")
        assert there.read_sent_fields()["host"] == f"{OTHER}:{there.port}"


async def test_a_relative_redirect_stays_on_its_host() -> None:
    async def first(writer: asyncio.StreamWriter) -> None:
        moved = answer("302 Found", location="../new?x=1")
        writer.write(moved if len(site.requests) == 1 else page())

    async with web(first) as site:
        assert await resolve(site.uri("/a/b/c"), rules(site.port)) == select(b"hello")
        assert site.requests[-1].startswith("GET /a/new?x=1 HTTP/1.1\r\n")


async def test_unchanged_counts_from_the_server_that_was_asked_and_from_none_behind_a_redirect() -> None:
    known = Known(digest(b"hello"), 5, TAG, None)
    async with web(answer("304 Not Modified")) as there, web(b"") as here:
        here.answer = answer("302 Found", location=there.uri(host=OTHER))
        given = rules(here.port, there.port, hosts=(HOST, OTHER))
        found = await resolve(here.uri(), given, known, HOME)
        assert found == ProvenanceAnswer(None, "the server answered 304")
        assert here.read_sent_fields()["if-none-match"] == TAG
        assert "if-none-match" not in there.read_sent_fields()


async def test_the_first_of_the_hosts_addresses_that_answers_is_read() -> None:
    async with web(page()) as site:
        names = {HOST: ["127.0.0.2", "127.0.0.1"]}
        assert await resolve(site.uri(), rules(site.port), names=names) == select(b"hello")


async def test_a_pinned_host_is_not_looked_up() -> None:
    async with web(page()) as site:
        given = rules(site.port)
        pinned = type(given)((HOST,), 1000, 5000, 3, (site.port,), True, {HOST: "127.0.0.1"})
        assert await resolve(site.uri(), pinned, names={}) == select(b"hello")
