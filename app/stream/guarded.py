"""A fault of the pure core, written to the log before it becomes an answer."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

from app.core.guarded import guarded as answered

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

T = TypeVar("T")


def guarded(attempt: Callable[[], T], answer: Callable[[str], T]) -> T:
    """`attempt()`, or `answer(reason)` when the core raises."""
    return answered(attempt, answer, _noticed)


def _noticed(fault: Exception) -> None:
    log.error("the core raised; the input is answered internal_error", exc_info=fault)
