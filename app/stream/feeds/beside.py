"""What runs beside the decisions, in a thread with a loop of its own: it may be slow or fail, they go on."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

log = logging.getLogger(__name__)


class Beside:
    """One coroutine, started anew whenever it ends. `again_s`: seconds between its end and the next start;
    `patience_s`: how long `close` waits for it."""

    def __init__(
        self, name: str, run: Callable[[], Coroutine[None, None, None]], again_s: float, patience_s: float
    ) -> None:
        self._name = name
        self._run = run
        self._again_s = again_s
        self._patience_s = patience_s
        self._stopping = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None  # made where it starts, and not before
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """The first call does. The thread ends with the process at the latest."""
        if self._thread is None:
            self._loop = loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._live, args=(loop,), name=self._name, daemon=True)
            self._thread.start()

    async def close(self) -> None:
        """Cancel what runs and wait for its end; one that will not end is left to the process's own."""
        if self._loop is None or self._thread is None or not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self._stopping.set)
        await asyncio.to_thread(self._thread.join, self._patience_s)
        if self._thread.is_alive():
            log.warning("%s has not ended after %g s", self._name, self._patience_s)

    def _live(self, loop: asyncio.AbstractEventLoop) -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(self._turns())

    async def _turns(self) -> None:
        stop = asyncio.create_task(self._stopping.wait())
        while not stop.done():
            running = asyncio.create_task(self._run())
            await asyncio.wait([running, stop], return_when=asyncio.FIRST_COMPLETED)
            if not stop.done():
                log.error("%s ended; it starts again", self._name, exc_info=running.exception())
                await asyncio.wait([stop], timeout=self._again_s)
            running.cancel()
            await asyncio.wait([running])
