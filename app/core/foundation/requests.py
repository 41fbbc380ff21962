"""What a stage may ask of the outside, and what the shell answers: the core itself does no I/O.

A stage that needs an answer returns `Ask`; the pipeline hands its `Request` to whoever drives it and calls
`then` with the answer's payload. The shell keeps the budget: a request over it is answered "overrun".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import orjson

from app.core.foundation.canonical import canonical, wire_safe
from app.core.foundation.errors import CanonicalError


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


# What a port answered, as the ledger holds it, so that a rerun is given the same.


def recordable(answer: Answer) -> Answer:
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


def recorded(gate: str, request: Request, answer: Answer) -> dict[str, Any]:
    """An entry of a decision's `model_outputs`; `answer` is a recordable one."""
    return {
        "gate": gate,
        "port": request.port,
        "status": answer.status,
        "payload": answer.payload,
        "detail": answer.detail,
    }
