"""Where a worker stands: what each of its tasks waits for, told to its log when it is asked by a signal."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

ASK = signal.SIGQUIT
"""Faust has taken the signals for users."""


def tell_when_asked() -> None:
    """In the main thread, before the loop runs."""
    signal.signal(ASK, _tell)


def _tell(number: int, frame: FrameType | None) -> None:
    del number
    lines = ["asked where it stands:\n", *traceback.format_stack(frame)[-3:]]
    for task in [one for one in gc.get_objects() if isinstance(one, asyncio.Task)]:
        if not task.done():
            lines += [f"{task.get_name()}:\n", *_awaited(task.get_coro())]
    sys.stderr.write("".join(lines))
    sys.stderr.flush()


def _awaited(running: object) -> Iterator[str]:
    """The places of a coroutine and of those that it awaits, outermost first."""
    while running is not None:
        place = getattr(running, "cr_frame", None) or getattr(running, "gi_frame", None)
        if place is not None:
            yield f"  {place.f_code.co_filename}:{place.f_lineno} {place.f_code.co_qualname}\n"
        inner = getattr(running, "cr_await", None) or getattr(running, "gi_yieldfrom", None)
        if place is None and inner is None:
            yield f"  {running!r}\n"
        running = inner
