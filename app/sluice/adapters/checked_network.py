"""Connections that are made to checked addresses only, and count what comes over them.

The address that was checked is the one connected to: no name is asked for again in between, so that one which
changes its mind (DNS rebinding) gains nothing. TLS and the Host field keep the name.

The operating system resolves host names, and its answer can be neither hurried nor called off.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import httpcore2

from sluice.adapters.http_target import Unresolvable, find_refusal

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Sequence

    from sluice.adapters.http_target import HttpRules

    Lookup = Callable[[str], Awaitable[Sequence[str]]]
    TenantLookup = Callable[[str, str], Awaitable[Sequence[str]]]
    from collections.abc import Callable, Sequence

    System = Callable[..., Sequence[Any]]


_READ_BYTES = 16_384
"""Taken at once: what is made of it is made before the loop turns again."""
_MOST_TRIED = 4
"""Addresses of one host; the time there is for connecting is shared among them."""


class CheckedNetwork(httpcore2.AsyncNetworkBackend):
    """The network of one request: `close` ends every connection that was begun. `lookup` gives a host's
    addresses and raises OSError; `budget` is what may come over a connection, in bytes, raised while it is
    read."""

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
        """Connect to the first of the host's addresses that answers. Raises Unresolvable,
        httpcore2.NetworkError."""
        addresses = (await self._check_addresses(host))[:_MOST_TRIED]
        share = None if timeout is None else timeout / len(addresses)
        how = (port, share, local_address, socket_options)
        for address in addresses[:-1]:
            try:
                return self._count_stream(await self._network.connect_tcp(address, *how))
            except (httpcore2.NetworkError, httpcore2.TimeoutException):
                continue
        return self._count_stream(await self._network.connect_tcp(addresses[-1], *how))

    async def close(self) -> None:
        """End every connection, also one whose handshake was broken off."""
        for stream in self._open:
            await stream.aclose()

    async def _check_addresses(self, host: str) -> Sequence[str]:
        """One address that may not be asked refuses the host: a name with both kinds is up to something."""
        addresses = await self._resolve(host)
        if not addresses:
            raise Unresolvable("the host has no address", "passing")
        for address in addresses:
            refusal = find_refusal(address, allow_loopback=self._rules.allow_loopback)
            if refusal is not None:
                raise Unresolvable(f"address not allowed: {refusal}")
        return addresses

    async def _resolve(self, host: str) -> Sequence[str]:
        if host in self._rules.pinned:
            return (self._rules.pinned[host],)
        if _is_address(host):
            return (host,)
        try:
            return await self._lookup(host)
        except OSError:
            raise Unresolvable("the host has no address", "passing") from None

    def _count_stream(self, stream: httpcore2.AsyncNetworkStream) -> httpcore2.AsyncNetworkStream:
        self._open.append(stream)
        return _CountedConnection(stream, self)


class _CountedConnection(httpcore2.AsyncNetworkStream):
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
        return _CountedConnection(
            await self._inner.start_tls(ssl_context, server_hostname, timeout), self._network
        )

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


_MOST_AT_ONCE = 256
"""Each is a thread that waits, for as long as the system's resolver is patient: 5 to 40 s as a rule."""
_MOST_OF_A_TENANT = 32
"""Twice what is resolved at once: those that were given up still wait for their name."""


class HostNames:
    """A thread for each name that is being asked for. A caller that asks for the same name waits with the
    first: a server of names that does not answer keeps one thread of a host, however many references name it,
    and of all hosts no more than the share of the tenant that asked."""

    def __init__(self, system: System = socket.getaddrinfo) -> None:
        self._system = system
        self._asked: dict[str, asyncio.Future[Sequence[str]]] = {}
        self._of: Counter[str] = Counter()

    async def look_up(self, tenant: str, host: str) -> Sequence[str]:
        """Every address, in the system's order of preference. Raises OSError where there is none, and
        Unresolvable where too many names are being asked for."""
        asked = self._asked.get(host)
        if asked is None:
            if len(self._asked) >= _MOST_AT_ONCE or self._of[tenant] >= _MOST_OF_A_TENANT:
                raise Unresolvable("too many names are being asked for", "unasked")
            asked = self._asked[host] = asyncio.get_running_loop().create_future()
            self._of[tenant] += 1
            asked.add_done_callback(lambda done: self._forget(tenant, host, done))
            threading.Thread(
                target=_ask, args=(self._system, host, asked), name=f"name {host}", daemon=True
            ).start()
        return await asyncio.shield(asked)

    def _forget(self, tenant: str, host: str, done: asyncio.Future[Sequence[str]]) -> None:
        del self._asked[host]
        self._of[tenant] -= 1
        self._of += Counter()  # forgets tenants at zero
        done.exception()  # looked at, also where nobody waits any more


def _ask(system: System, host: str, asked: asyncio.Future[Sequence[str]]) -> None:
    try:
        infos = system(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        _answer(asked, (), OSError(str(error)))
    else:
        _answer(asked, tuple(dict.fromkeys(str(info[4][0]) for info in infos)), None)


def _answer(asked: asyncio.Future[Sequence[str]], addresses: Sequence[str], error: OSError | None) -> None:
    def deliver() -> None:
        if error is not None:
            asked.set_exception(error)
        else:
            asked.set_result(addresses)

    with suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits any more
        asked.get_loop().call_soon_threadsafe(deliver)
