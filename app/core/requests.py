"""What a stage may ask of the outside, and what the shell answers: the core itself does no I/O.

A stage that needs an answer returns `Ask`; the pipeline hands its `Request` to whoever drives it and calls
`then` with the answer's payload. The shell keeps the budget: a request over it is answered "overrun".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.core.actions.stage import StageResult


@dataclass(frozen=True, slots=True)
class Request:
    """`port` names who answers; `payload` is JSON-like; `budget_ms` is a deadline, not a hint."""

    port: str
    payload: object
    budget_ms: int


@dataclass(frozen=True, slots=True)
class Answer:
    """`payload` (JSON-like, finite numbers) counts only when answered; `detail` says why it was not."""

    status: Literal["answered", "overrun", "unavailable"]
    payload: object = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """A stage's question and how the stage goes on once its payload is there."""

    request: Request
    then: Callable[[object], StageResult | Ask]
