"""Ports for commands without a worker: who decides asks and waits. No deadline runs, nobody else waits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

from app.core.requests import Answer
from app.ports import Lasting, PortUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.core.requests import Request
    from app.ports import Port


class Asking:
    """Asks ports from code that is not asynchronous. A context manager: closes what lasts."""

    def __init__(self, ports: Mapping[str, Port]) -> None:
        """Nothing is started before the first question."""
        self._ports = ports
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        """Ready to ask."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close what was asked."""
        self._runner.run(self._close())
        self._runner.close()

    def answer(self, request: Request) -> Answer:
        """The answer to one request."""
        return self.answers([request])[0]

    def answers(self, requests: Sequence[Request]) -> list[Answer]:
        """The answers to requests that are asked at once, in their order: a port may batch them."""
        return self._runner.run(self._together(requests))

    async def _together(self, requests: Sequence[Request]) -> list[Answer]:
        return list(await asyncio.gather(*map(self._one, requests)))

    async def _one(self, request: Request) -> Answer:
        port = self._ports.get(request.port)
        if port is None:
            return Answer("unavailable", detail=f"no port named {request.port}")
        try:
            return Answer("answered", await port.ask(request.payload))
        except PortUnavailable as reason:
            return Answer("unavailable", detail=str(reason))

    async def _close(self) -> None:
        for port in self._ports.values():
            if isinstance(port, Lasting):
                await port.close()
