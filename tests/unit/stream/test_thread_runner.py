"""What runs beside the decisions: in a thread of its own, started again, and ended in bounded time."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from sluice.stream.feeds.shared_feeds import ThreadRunner

if TYPE_CHECKING:
    import pytest


class Work:
    """Counts its starts and ends; told to, it fails the first time."""

    def __init__(self, *, fails: bool = False) -> None:
        self.threads: list[str] = []
        self.ended = 0
        self.there = threading.Event()
        self._fails = fails

    async def run(self) -> None:
        self.threads.append(threading.current_thread().name)
        if self._fails and len(self.threads) == 1:
            raise ZeroDivisionError
        self.there.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended += 1


async def test_it_runs_in_a_thread_of_its_own_once_and_ends_when_it_is_told() -> None:
    work = Work()
    runner = ThreadRunner("resolver", work.run, 0.0, 10.0)
    runner.start()
    runner.start()
    assert await asyncio.to_thread(work.there.wait, 10)
    await runner.close()
    assert (work.threads, work.ended) == (["resolver"], 1)
    await runner.close()


async def test_a_fault_is_told_and_it_starts_again(caplog: pytest.LogCaptureFixture) -> None:
    work = Work(fails=True)
    runner = ThreadRunner("resolver", work.run, 0.0, 10.0)
    runner.start()
    assert await asyncio.to_thread(work.there.wait, 10)
    await runner.close()
    assert len(work.threads) == 2
    assert "resolver ended; it starts again" in caplog.text
    assert "ZeroDivisionError" in caplog.text


async def test_one_that_blocks_its_thread_is_waited_for_no_longer_than_patience_lasts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    there, on, over = threading.Event(), threading.Event(), threading.Event()

    async def block() -> None:
        there.set()
        on.wait()
        over.set()

    runner = ThreadRunner("resolver", block, 0.0, 0.05)
    runner.start()
    assert await asyncio.to_thread(there.wait, 10)
    await runner.close()
    assert not over.is_set()
    assert "resolver has not ended after 0.05 s" in caplog.text
    on.set()


async def test_one_that_was_never_started_is_closed_at_once() -> None:
    """Its patience is longer than the test's time."""
    await ThreadRunner("resolver", Work().run, 0.0, 1e6).close()
