"""A stage's requests and the shell's answers: the core itself does no I/O.

A stage that needs an answer is a generator: it yields a `Request`, gets the `Answer` and returns its
result. The shell that drives it keeps the budget: it answers a request over budget with "overrun". The
answer goes into the record (`model_outputs`), so that a rerun gets the same one.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal

import orjson

from sluice.core.foundation.canonical import canonical, wire_safe
from sluice.core.foundation.errors import CanonicalError

if TYPE_CHECKING:
    from collections.abc import Generator


@dataclass(frozen=True, slots=True)
class Request:
    """A question to a port. `port` names the port that answers; `payload` is JSON-like; `budget_ms` is a
    deadline."""

    port: str
    payload: object
    budget_ms: int


@dataclass(frozen=True, slots=True)
class Answer:
    """A port's answer. `payload` (JSON-like, finite numbers) counts only if the port answered; otherwise
    `detail` says why it did not."""

    status: Literal["answered", "overrun", "unavailable"]
    payload: object = None
    detail: str = ""


HELD_INPUT = "held_input"
"""The port that gives the bytes of an earlier input by its coordinates."""
_HELD_INPUT_MS = 10_000


def ask_for_input(topic: str, partition: int, offset: int) -> Request:
    """For the bytes of an earlier input."""
    return Request(HELD_INPUT, {"topic": topic, "partition": partition, "offset": offset}, _HELD_INPUT_MS)


def input_in(answer: Answer, input_digest: str) -> bytes | None:
    """The bytes that were asked for; None where there are none, or they are not those of the digest."""
    value = answer.payload if answer.status == "answered" else None
    if not isinstance(value, bytes) or f"sha256:{sha256(value).hexdigest()}" != input_digest:
        return None
    return value


def ask(gate: str, request: Request, outputs: list[dict[str, Any]]) -> Generator[Request, Answer, Answer]:
    """Yield a gate's request and return the answer in the form in which the record is read back; add its
    entry to `outputs`, the decision's `model_outputs`."""
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
    """The answer with its payload in the form in which the record is read back, its keys in order.

    A payload that is not a JSON value makes the answer invalid.
    """
    if answer.payload is None:
        return answer
    try:
        payload = orjson.loads(canonical(wire_safe(answer.payload)))
    except (CanonicalError, RecursionError):
        return Answer("unavailable", None, "the payload is no JSON value")
    return Answer(answer.status, payload, answer.detail)
