"""Connections that are made to checked addresses only, and count what comes over them.

The address that was checked is the one connected to: no name is asked for again in between, so that one which
changes its mind (DNS rebinding) gains nothing. TLS and the Host field keep the name.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

import httpcore2

from app.adapters.http_target import Unresolvable, refusal_of

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Sequence

    from app.adapters.http_target import HttpRules

    Lookup = Callable[[str], Awaitable[Sequence[str]]]
    TenantLookup = Callable[[str, str], Awaitable[Sequence[str]]]

_READ_BYTES = 16_384
"""Taken at once: what is made of it is made before the loop turns again."""
_MOST_TRIED = 4
"""Addresses of one host; the time there is for connecting is shared among them."""


class CheckedNetwork(httpcore2.AsyncNetworkBackend):
    """For one request: `close` ends every connection that was begun. `lookup` gives a host's addresses and
    raises OSError; `budget` is what may come over a connection, in bytes, raised while it is read."""

    def __init__(self, rules: HttpRules, lookup: Lookup, budget: int) -> None:
        self.left = budget
        self._rules = rules
        self._lookup = lookup
        self._network = httpcore2.AnyIOBackend()
        self._open: list[httpcore2.AsyncNetworkStream] = []

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore2's own
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore2.AsyncNetworkStream:
        """To the first of the host's addresses that answers. Raises Unresolvable, httpcore2.NetworkError."""
        addresses = (await self._checked(host))[:_MOST_TRIED]
        share = None if timeout is None else timeout / len(addresses)
        how = (port, share, local_address, socket_options)
        for address in addresses[:-1]:
            try:
                return self._counted(await self._network.connect_tcp(address, *how))
            except (httpcore2.NetworkError, httpcore2.TimeoutException):
                continue
        return self._counted(await self._network.connect_tcp(addresses[-1], *how))

    async def close(self) -> None:
        """End every connection, also one whose handshake was broken off."""
        for stream in self._open:
            await stream.aclose()

    async def _checked(self, host: str) -> Sequence[str]:
        """One address that may not be asked refuses the host: a name with both kinds is up to something."""
        found = await self._addresses(host)
        if not found:
            raise Unresolvable("the host has no address", "passing")
        for address in found:
            refusal = refusal_of(address, allow_loopback=self._rules.allow_loopback)
            if refusal is not None:
                raise Unresolvable(f"address not allowed: {refusal}")
        return found

    async def _addresses(self, host: str) -> Sequence[str]:
        if host in self._rules.pinned:
            return (self._rules.pinned[host],)
        if _is_address(host):
            return (host,)
        try:
            return await self._lookup(host)
        except OSError:
            raise Unresolvable("the host has no address", "passing") from None

    def _counted(self, stream: httpcore2.AsyncNetworkStream) -> httpcore2.AsyncNetworkStream:
        self._open.append(stream)
        return _Counted(stream, self)


class _Counted(httpcore2.AsyncNetworkStream):
    def __init__(self, inner: httpcore2.AsyncNetworkStream, network: CheckedNetwork) -> None:
        self._inner = inner
        self._network = network

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - likewise
        data = await self._inner.read(min(max_bytes, _READ_BYTES), timeout)
        self._network.left -= len(data)
        if self._network.left < 0:
            raise httpcore2.RemoteProtocolError("more than any answer needs")
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - likewise
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - likewise
    ) -> httpcore2.AsyncNetworkStream:
        return _Counted(await self._inner.start_tls(ssl_context, server_hostname, timeout), self._network)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
