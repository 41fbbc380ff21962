"""Addresses of host names, asked of the operating system, whose answer cannot be hurried or called off."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from app.adapters.http_target import Unresolvable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    System = Callable[..., Sequence[Any]]

_MOST_AT_ONCE = 256
"""Each is a thread that waits, for as long as the system's resolver is patient: 5 to 40 s as a rule."""
_MOST_OF_A_TENANT = 32
"""Twice what is resolved at once: those that were given up still wait for their name."""


class HostNames:
    """A thread for each name that is being asked for. Whoever asks for the same one waits with the first: a
    server of names that does not answer keeps one thread of a host, however many references name it, and of
    all hosts no more than the share of the tenant that asked."""

    def __init__(self, system: System = socket.getaddrinfo) -> None:
        self._system = system
        self._asked: dict[str, asyncio.Future[Sequence[str]]] = {}
        self._of: Counter[str] = Counter()

    async def addresses(self, tenant: str, host: str) -> Sequence[str]:
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
        found = system(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        _answer(asked, (), OSError(str(error)))
    else:
        _answer(asked, tuple(dict.fromkeys(str(one[4][0]) for one in found)), None)


def _answer(asked: asyncio.Future[Sequence[str]], found: Sequence[str], error: OSError | None) -> None:
    def answer() -> None:
        if error is not None:
            asked.set_exception(error)
        else:
            asked.set_result(found)

    with suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits any more
        asked.get_loop().call_soon_threadsafe(answer)
