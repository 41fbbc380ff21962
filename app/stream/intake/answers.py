"""The shell's side of a request: await the named port within its budget."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from app.core.foundation.requests import Answer, Request
from app.ports import Lasting, Port, PortUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

log = logging.getLogger(__name__)


class Ports:
    """The ports this worker has, by the name that stages use."""

    def __init__(self, ports: Mapping[str, Port]) -> None:
        self._ports = ports
        self._begun = False

    async def start(self, patience_s: float) -> None:
        """Make every port ready that can be within this time; what cannot answers as unavailable.

        The first call does; later ones return at once, however much is asked of the ports by then.
        """
        if self._begun:
            return
        self._begun = True
        await asyncio.gather(*(_started(name, port, patience_s) for name, port in self._ports.items()))

    async def close(self) -> None:
        """Give up what the ports hold."""
        for port in self._ports.values():
            if isinstance(port, Lasting):
                await port.close()

    async def answer(self, request: Request) -> Answer:
        """What the core is resumed with. Another exception than PortUnavailable is an I/O fault: raised."""
        port = self._ports.get(request.port)
        if port is None:
            return Answer("unavailable", detail=f"no port named {request.port}")
        try:
            async with asyncio.timeout(request.budget_ms / 1000):
                return Answer("answered", await port.ask(request.payload))
        except TimeoutError:
            return Answer("overrun", detail=f"over {request.budget_ms} ms")
        except PortUnavailable as reason:
            return Answer("unavailable", detail=str(reason))


async def _started(name: str, port: Port, patience_s: float) -> None:
    if not isinstance(port, Lasting):
        return
    try:
        async with asyncio.timeout(patience_s):
            await port.start()
    except TimeoutError:
        log.error("the port %s is not ready after %g s: on without it", name, patience_s)  # noqa: TRY400
    except PortUnavailable as reason:
        log.error("the port %s is not ready: %s", name, reason)  # noqa: TRY400 - what it says is enough
