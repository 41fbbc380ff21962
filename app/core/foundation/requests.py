"""What a stage may ask of the outside, and what the shell answers: the core itself does no I/O.

A stage that needs an answer is a generator: it yields a `Request`, is sent the `Answer` and returns its
result. The shell that drives it keeps the budget: a request over it is answered "overrun". What was answered
goes into the record (`model_outputs`), so that a rerun is given the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import orjson

from app.core.foundation.canonical import canonical, wire_safe
from app.core.foundation.errors import CanonicalError

if TYPE_CHECKING:
    from collections.abc import Generator


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


def ask(gate: str, request: Request, outputs: list[dict[str, Any]]) -> Generator[Request, Answer, Answer]:
    """Yield a gate's request and return the answer as it will be read back; its entry is added to `outputs`,
    the decision's `model_outputs`."""
    answer = _recordable((yield request))
    outputs.append(
        {
            "gate": gate,
            "port": request.port,
            "status": answer.status,
            "payload": answer.payload,
            "detail": answer.detail,
        }
    )
    return answer


def _recordable(answer: Answer) -> Answer:
    """The answer with its payload as it will be read back, its keys in order.

    A payload that is no JSON value is no answer.
    """
    if answer.payload is None:
        return answer
    try:
        payload = orjson.loads(canonical(wire_safe(answer.payload)))
    except (CanonicalError, RecursionError):
        return Answer("unavailable", None, "the payload is no JSON value")
    return Answer(answer.status, payload, answer.detail)
