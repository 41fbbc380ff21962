"""What a port answered, as the ledger holds it, so that a rerun is given the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from app.core.errors import CanonicalError
from app.core.ledger.canonical import canonical, wire_safe
from app.core.requests import Answer

if TYPE_CHECKING:
    from app.core.requests import Request


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
