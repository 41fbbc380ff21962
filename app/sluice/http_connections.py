"""HTTP/1.1 as uvicorn speaks it, for whatever listens: slow clients are cut off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio


class PromptProtocol(H11Protocol):
    """A connection whose request lines and headers must come within the keep-alive time-out."""

    _slow: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._unwatch()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Wait until the headers are whole; for the body the application waits."""
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._watch()
        else:
            self._unwatch()

    def _watch(self) -> None:
        if self._slow is None:
            self._slow = self.loop.call_later(self.timeout_keep_alive, self._cut_off)

    def _unwatch(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None

    def _cut_off(self) -> None:
        self._slow = None
        if not self.transport.is_closing():
            self.transport.close()
