"""Faults of the core, and the one place where an exception of the pure core becomes an answer.

A denial is never one of these: it is a value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType


class CoreError(Exception):
    """Base of all: the core cannot use a value that it got."""


class BundleError(CoreError):
    """A bundle is refused whole; the message starts with the path inside it."""


class RegistryError(CoreError):
    """A registry is refused whole; the message starts with the path inside it."""


class EnvelopeError(CoreError):
    """The text is not an envelope to which a signature can be added; the message starts with the path inside
    it."""


class UnknownStageError(CoreError):
    """A bundle names a stage that does not exist; the message names it and those that do."""


class CanonicalError(CoreError):
    """A value has no canonical JSON form (NaN, an integer beyond 2^53-1, a key that is not a string)."""


T = TypeVar("T")


def run_guarded(
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
