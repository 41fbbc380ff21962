"""Servers that stall, flood and lie: each ends in bounded time and bytes, as a reason and no fault."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from typing import TYPE_CHECKING

import pytest

from sluice.adapters.http_provenance import HttpProvenance
from sluice.ports import Failure, ProvenanceAnswer
from tests.adapters.web import HOST, answer, page, resolve, rules, web

if TYPE_CHECKING:
    from tests.adapters.web import Page

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
BROKEN = "the connection broke, or what came is no HTTP"
LATE = "no whole answer within 200 ms"
MB = b"x" * 1_000_000


def stall_client(after: bytes) -> Page:
    """Sends this and then nothing, with the connection left open."""

    async def stall(writer: asyncio.StreamWriter) -> None:
        writer.write(after)
        await writer.drain()
        await asyncio.Event().wait()

    return stall


def flood_client(head: bytes, part: bytes, times: int) -> tuple[Page, list[int]]:
    """Sends the part again and again; the list grows with each that was taken."""
    sent: list[int] = []

    async def flood(writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        for _ in range(times):
            writer.write(part)
            await writer.drain()
            sent.append(len(part))

    return flood, sent


@pytest.mark.parametrize(
    "after",
    [b"", HEAD + b"X-", HEAD + b"content-length: 10\r\n\r\n", CHUNKED + b"5\r\nhel", CHUNKED + b"0\r\n"],
    ids=["before the head", "in the head", "before the body", "in the body", "in the trailer"],
)
async def test_a_server_that_stalls_is_left_when_its_time_is_over(after: bytes) -> None:
    async with web(stall_client(after)) as installation:
        async with asyncio.timeout(30):
            assert await resolve(
                installation.uri(), rules(installation.port, timeout_ms=200)
            ) == ProvenanceAnswer(None, LATE, "passing")


async def test_a_server_that_drips_gets_no_more_time_for_it() -> None:
    async def drip(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"content-length: 100000\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.01)  # the server's pace

    async with web(drip) as installation:
        assert await resolve(
            installation.uri(), rules(installation.port, timeout_ms=200)
        ) == ProvenanceAnswer(None, LATE, "passing")


async def test_redirects_share_the_time_of_their_reference() -> None:
    async def dawdle(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(1.2)  # the server's pace: the first answer has 0.8 s to come through
        writer.write(answer("302 Found", location="/"))

    async with web(dawdle) as installation:
        found = await resolve(installation.uri(), rules(installation.port, timeout_ms=2000))
        assert found == ProvenanceAnswer(None, "no whole answer within 2000 ms", "passing")
        assert len(installation.requests) == 2


async def test_a_name_that_is_never_answered_for_is_left_likewise() -> None:
    async def lookup(_: str, __: str) -> list[str]:
        await asyncio.Event().wait()
        return []

    source = HttpProvenance(rules(80, timeout_ms=200), lookup, ssl.create_default_context())
    assert await source.resolve("acme", f"http://{HOST}/", None) == ProvenanceAnswer(None, LATE, "passing")


@pytest.mark.parametrize(
    ("head", "part"),
    [
        (HEAD + b"content-length: 1000000000\r\n\r\n", MB),
        (HEAD + b"\r\n", MB),
        (CHUNKED, b"f4240\r\n" + MB + b"\r\n"),
    ],
    ids=["announced", "until the end of the connection", "in chunks"],
)
async def test_a_gigabyte_is_cut_off_at_the_bound(head: bytes, part: bytes) -> None:
    flood, sent = flood_client(head, part, 1000)
    async with web(flood) as installation:
        assert await resolve(installation.uri(), rules(installation.port)) == ProvenanceAnswer(
            None, "longer than 100000 bytes"
        )
    assert sum(sent) < 20_000_000


@pytest.mark.parametrize("size", [100_000, 100_001])
async def test_the_bound_is_exact(size: int) -> None:
    async with web(page(b"x" * size)) as installation:
        found = await resolve(installation.uri(), rules(installation.port))
    assert (found.resolution is not None) == (size == 100_000)


@pytest.mark.parametrize(
    ("head", "part"),
    [
        (HEAD, (b"x-field: " + b"y" * 100 + b"\r\n") * 100),
        (HEAD + b"x: ", b"y" * 1000),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 500),
        (b"", b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" * 500),
        (CHUNKED + b"0\r\n", b"x-trailer: y\r\n" * 500),
        (CHUNKED, b"1;" + b"x" * 1000),
    ],
    ids=["fields", "one field", "continue", "hints", "trailer", "extension"],
)
async def test_an_endless_head_or_trailer_is_cut_off(head: bytes, part: bytes) -> None:
    flood, sent = flood_client(head, part, 100_000)
    async with web(flood) as installation:
        assert await resolve(installation.uri(), rules(installation.port)) == ProvenanceAnswer(
            None, BROKEN, "passing"
        )
    assert sum(sent) < 20_000_000


async def test_a_body_in_crumbs_is_given_up_before_it_costs_its_reader_much() -> None:
    flood, _ = flood_client(CHUNKED, b"1\r\nx\r\n" * 1000, 100)
    async with web(flood) as installation:
        found = await resolve(installation.uri(), rules(installation.port))
    assert found == ProvenanceAnswer(None, "the body comes in parts of a few bytes")


@pytest.mark.parametrize("encoding", ["gzip", "br", "GZIP, identity", "unknown"])
async def test_what_is_packed_is_not_unpacked(encoding: str) -> None:
    async with web(page(gzip.compress(MB), content_encoding=encoding)) as installation:
        found = await resolve(installation.uri(), rules(installation.port))
    assert found == ProvenanceAnswer(None, "compressed though identity was asked for")


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        HEAD + b"content-length: -5\r\n\r\nhello",
        HEAD + b"content-length: 5\r\ncontent-length: 6\r\n\r\nhello",
        HEAD + b"content-length: 10\r\n\r\nhello",
        HEAD + b"content-length: " + b"9" * 5000 + b"\r\n\r\nhello",
        HEAD + b"transfer-encoding: gzip\r\n\r\nhello",
        HEAD + b"x\x00y: z\r\n\r\nhello",
        CHUNKED + b"-1\r\nhello\r\n0\r\n\r\n",
        CHUNKED + b"5\r\nhello",
        CHUNKED + b"fffffffffffffffffffffffff\r\nhello",
        b"\xff" * 1000,
    ],
)
async def test_what_is_no_http_is_no_fault(said: bytes) -> None:
    async with web(said) as installation:
        assert await resolve(installation.uri(), rules(installation.port)) == ProvenanceAnswer(
            None, BROKEN, "passing"
        )


@pytest.mark.parametrize("status", ["201", "204", "206", "300", "401", "404", "407", "500", "503", "999"])
async def test_only_200_says_what_lies_there(status: str) -> None:
    said = answer(f"{status} <script>alert(1)</script>", location="/", www_authenticate="Basic")
    async with web(said) as installation:
        found = await resolve(installation.uri(), rules(installation.port))
        failure: Failure = "passing" if status in {"500", "503"} else "lasting"
        assert (found, len(installation.requests)) == (
            ProvenanceAnswer(None, f"the server answered {status}", failure),
            1,
        )


async def test_nobody_at_home_is_told() -> None:
    async with web(page()) as installation:
        pass
    found = await resolve(installation.uri(), rules(installation.port))
    assert found == ProvenanceAnswer(None, "no connection, or none that TLS vouches for", "passing")


async def test_a_fast_server_is_answered_while_many_stall() -> None:
    async with web(stall_client(HEAD)) as slow, web(page()) as quick:
        given = rules(slow.port, quick.port, timeout_ms=60_000)
        waiting = [asyncio.create_task(resolve(slow.uri(f"/{n}"), given)) for n in range(50)]
        assert (await resolve(quick.uri(), given)).resolution is not None
        assert not any(task.done() for task in waiting)
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
