"""Two servers on loopback for attacks on what Sluice asks: the attacker's, and one that nothing may ask."""

from __future__ import annotations

import asyncio
import gzip
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from load.attacks.attempt import Attempt

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

OK, FLOOD = b"HTTP/1.1 200 OK\r\n", b"x" * 65_536
MOST_TAKEN = 16 * 1024 * 1024
"""Bytes of a flood that sockets and readers may hold."""
BOMB = gzip.compress(bytes(64 * 1024 * 1024))
TIMEOUT_S, ANSWER_S, PATIENCE_S = 0.5, 10.0, 20.0
"""What those that ask have for an answer that has no end, for one that has, and what a busy machine has."""


def time_for(again: bytes) -> float:
    """Seconds that those that ask have for an answer in which `again` comes without end."""
    return TIMEOUT_S if again else ANSWER_S


class Server:
    """On loopback; `heads` are the requests that came. It answers `first`, then `again` without end, one in
    `pause_s`."""

    def __init__(self) -> None:
        self.heads: list[str] = []
        self.first, self.again, self.pause_s = b"", b"", 0.0
        self.sent = self.port = 0

    def will(self, first: bytes, again: bytes = b"", pause_s: float = 0.0) -> None:
        """Answer so from now on."""
        self.first, self.again, self.pause_s, self.sent = first, again, pause_s, 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        try:
            self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
            writer.write(self.first)
            while self.again:
                writer.write(self.again)
                await writer.drain()
                self.sent += len(self.again)
                await asyncio.sleep(self.pause_s)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # whoever asked has heard enough
        finally:
            writer.close()


class ServersScene(NamedTuple):
    """`outside` is the attacker's; nothing may ask `inside`. Both have the same port and other addresses."""

    outside: Server
    inside: Server

    @property
    def port(self) -> int:
        """Of both."""
        return self.outside.port


@asynccontextmanager
async def open_servers() -> AsyncIterator[ServersScene]:
    """Both, until the block ends."""
    scene = ServersScene(Server(), Server())
    async with await asyncio.start_server(scene.outside.serve, "127.0.0.1", 0) as outside:
        scene.outside.port = scene.inside.port = outside.sockets[0].getsockname()[1]
        async with await asyncio.start_server(scene.inside.serve, "127.0.0.2", scene.port) as inside:
            scene.inside.will(body_of(b"credentials of the machine"))
            yield scene
            inside.close()
            outside.close()


def body_of(body: bytes, fields: bytes = b"") -> bytes:
    """A whole answer with this body and further fields."""
    return OK + b"content-length: %d\r\n%s\r\n%s" % (len(body), fields, body)


def count(scene: ServersScene) -> list[Attempt]:
    """How often each server was asked."""
    asked, came = len(scene.inside.heads), len(scene.outside.heads)
    description = "requests to the server that the attacker may name"
    return [
        Attempt("requests that reached the server inside", asked == 0, f"{asked}, must be 0"),
        Attempt(description, came > 0, f"{came}, must be > 0", harmless=True),
    ]


CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"
FLOODS: Sequence[tuple[str, bytes, bytes, float]] = (
    ("a body without an end", OK + b"\r\n", FLOOD, 0.0),
    ("a body of 1 TB", OK + b"content-length: 1000000000000\r\n\r\n", FLOOD, 0.0),
    ("chunks without an end", CHUNKED, b"10000\r\n" + FLOOD + b"\r\n", 0.0),
    ("a body that drips", OK + b"content-length: 1000\r\n\r\n", b"x", 0.01),
    ("a head without an end", OK, b"x-a: b\r\n" * 1000, 0.0),
    ("a head that drips", OK + b"x-a: ", b"b", 0.01),
    ("64 MiB in 64 KiB", body_of(BOMB, b"content-encoding: gzip\r\n"), b"", 0.0),
)
