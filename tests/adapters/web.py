"""A web server on loopback that does as it is told, for readers of references who must not believe it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from sluice.adapters.http_provenance import HttpProvenance
from sluice.adapters.http_target import HttpRules

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from sluice.ports import Known, ProvenanceAnswer

Page = Callable[[asyncio.StreamWriter], Awaitable[None]]
HOST = "docs.example.com"
_TLS = ssl.create_default_context()


class Web:
    """`requests` are the heads that came, in order."""

    def __init__(self, answer: bytes | Page) -> None:
        self.answer = answer
        self.requests: list[str] = []
        self.port = 0
        self.sent = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, which ends with the answer."""
        try:
            self.requests.append((await reader.readuntil(b"\r\n\r\n")).decode())
            await self._write(writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # whoever asked has heard enough
        finally:
            writer.close()

    async def _write(self, writer: asyncio.StreamWriter) -> None:
        if isinstance(self.answer, bytes):
            writer.write(self.answer)
            await writer.drain()
        else:
            await self.answer(writer)

    def uri(self, path: str = "/page", host: str = HOST) -> str:
        """Of a page that this server has."""
        return f"http://{host}:{self.port}{path}"

    def read_sent_fields(self) -> dict[str, str]:
        """Of the last request, by lower-case name."""
        lines = self.requests[-1].split("\r\n")[1:-2]
        return {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}


@asynccontextmanager
async def web(answer: bytes | Page, tls: ssl.SSLContext | None = None) -> AsyncIterator[Web]:
    """Running; it is gone after the block with every connection."""
    installation = Web(answer)
    server = await asyncio.start_server(installation.serve, "127.0.0.1", 0, ssl=tls)
    installation.port = server.sockets[0].getsockname()[1]
    try:
        yield installation
    finally:
        server.close()


def page(body: bytes = b"hello", /, **fields: str) -> bytes:
    """200 with a body and further fields, "_" for "-"."""
    return answer("200 OK", body, **fields)


def answer(status: str, body: bytes = b"", /, **fields: str) -> bytes:
    """A whole response with its length."""
    given = {"content-length": str(len(body))} | {name.replace("_", "-"): v for name, v in fields.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in given.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body


def make_lookup(names: Mapping[str, Sequence[str]]) -> Callable[[str, str], Awaitable[Sequence[str]]]:
    """A lookup that knows these names and no others."""

    async def lookup(_: str, host: str) -> Sequence[str]:
        if host not in names:
            raise OSError(f"{host} is not known")
        return names[host]

    return lookup


def rules(
    *ports: int, hosts: Sequence[str] = (HOST,), timeout_ms: int = 5000, loopback: bool = True
) -> HttpRules:
    """Small bounds, so that a test reaches them soon."""
    return HttpRules(
        tuple(hosts),
        max_bytes=100_000,
        timeout_ms=timeout_ms,
        max_redirects=3,
        allowed_ports=ports,
        allow_loopback=loopback,
    )


async def resolve(
    uri: str,
    given: HttpRules,
    known: Known | None = None,
    names: Mapping[str, Sequence[str]] | None = None,
    tls: ssl.SSLContext | None = None,
) -> ProvenanceAnswer:
    """What a resolver finds, which must end by itself."""
    lookup = make_lookup({HOST: ["127.0.0.1"]} if names is None else names)
    source = HttpProvenance(given, lookup, tls or _TLS)
    async with asyncio.timeout(20):
        return await source.resolve("acme", uri, known)
