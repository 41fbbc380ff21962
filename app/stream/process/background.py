"""Tasks that nobody awaits: one that fails stops the worker instead of vanishing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


def background(
    running: Coroutine[None, None, None], fail: Callable[[BaseException], None]
) -> asyncio.Task[None]:
    """Start it; what it raises goes to `fail`. Being cancelled is no failure."""

    def ended(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (fault := task.exception()) is not None:
            fail(fault)

    task = asyncio.create_task(running)
    task.add_done_callback(ended)
    return task
