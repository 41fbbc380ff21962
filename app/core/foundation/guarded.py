"""The one place where an exception of the pure core becomes an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

T = TypeVar("T")


def guarded(
    attempt: Callable[[], T], answer: Callable[[str], T], notice: Callable[[Exception], None] | None = None
) -> T:
    """Return `attempt()`, or `answer(reason)` if the core raises: a fault in one input must not stop the
    others.

    `notice` gets the exception first. Faults of the broker and of ports never come here.
    """
    try:
        return attempt()
    except Exception as fault:  # noqa: BLE001 - whatever an input makes the core raise is answered
        if notice is not None:
            notice(fault)
        return answer(f"{type(fault).__name__} in {_innermost(fault.__traceback__)}")


def _innermost(trace: TracebackType | None) -> str:
    name = "?"
    while trace is not None:
        name, trace = trace.tb_frame.f_code.co_name, trace.tb_next
    return name
