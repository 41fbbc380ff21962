"""Addresses of host names, asked of the operating system, whose answer cannot be hurried or called off."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_AT_ONCE = 64
"""Each is a thread that waits, for as long as the system's resolver is patient: 5 to 40 s as a rule."""


class HostNames:
    """A thread for each name that is being asked for. Whoever asks for the same one waits with the first: a
    server of names that does not answer keeps one thread, however many references name its hosts."""

    def __init__(self) -> None:
        self._asked: dict[str, asyncio.Future[Sequence[str]]] = {}

    async def addresses(self, host: str) -> Sequence[str]:
        """Every address, in the system's order of preference. Raises OSError where there is none."""
        asked = self._asked.get(host)
        if asked is None:
            if len(self._asked) >= _MOST_AT_ONCE:
                raise OSError("too many names are being asked for")
            asked = self._asked[host] = asyncio.get_running_loop().create_future()
            asked.add_done_callback(lambda done: self._forget(host, done))
            threading.Thread(target=_ask, args=(host, asked), name=f"name {host}", daemon=True).start()
        return await asyncio.shield(asked)

    def _forget(self, host: str, done: asyncio.Future[Sequence[str]]) -> None:
        del self._asked[host]
        done.exception()  # looked at, also where nobody waits any more


def _ask(host: str, asked: asyncio.Future[Sequence[str]]) -> None:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
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
