"""The one place of the worker where an exception of the pure core becomes an answer."""

from __future__ import annotations

import logging
import traceback
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

T = TypeVar("T")


def guarded(attempt: Callable[[], T], answer: Callable[[str], T]) -> T:
    """`attempt()`, or `answer(reason)` when the core raises: one input's flaw must not stop the others.

    Faults of the broker and of ports never pass through here.
    """
    try:
        return attempt()
    except Exception as fault:
        log.exception("the core raised; the input is answered internal_error")
        where = traceback.extract_tb(fault.__traceback__)[-1]
        return answer(f"{type(fault).__name__} in {where.name}")
