"""The shell's side of a request: await the named port within its budget."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from app.core.requests import Answer, Request
from app.ports import Port, PortUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping


class Ports:
    """The ports this worker has, by the name that stages use."""

    def __init__(self, ports: Mapping[str, Port]) -> None:
        self._ports = ports

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
