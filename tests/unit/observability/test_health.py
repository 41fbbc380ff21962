"""A worker's loop leaves a sign in a file while it turns, with or without metrics."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from sluice.bootstrap.observing import observe_worker
from sluice.settings.reader import Settings

if TYPE_CHECKING:
    from pathlib import Path


def test_a_worker_s_beat_goes_on_while_its_loop_turns_and_not_while_it_is_held(tmp_path: Path) -> None:
    file = tmp_path / "0.beat"
    settings = Settings()
    assert not settings.worker.metrics_address
    observed = observe_worker(settings, file)
    assert observed is not None
    assert observed.listener is None

    async def work() -> tuple[int, int, int]:
        observed.observer.note_fenced(1)
        first = file.stat().st_mtime_ns
        await asyncio.sleep(1.2)
        turned = file.stat().st_mtime_ns
        time.sleep(1.2)  # noqa: ASYNC251 - the loop is to be held
        return first, turned, file.stat().st_mtime_ns

    first, turned, held = asyncio.run(work())
    assert first < turned == held


def test_without_a_supervisor_and_metrics_nothing_is_observed() -> None:
    assert observe_worker(Settings()) is None
