"""A stage's requests and the shell's answers: the core itself does no I/O.

A stage that needs an answer is a generator: it yields a `Request`, gets the `Answer` and returns its
result. The shell that drives it keeps the times: it says which of them ended the wait, because they mean
different things (docs/decisions/0015-over-budget.md). The answer goes into the record (`model_outputs`), so
that a rerun gets the same one.

An evaluation may also pause: it yields PAUSE where others may go first, and LAST_PAUSE before it looks at
what several sessions share (docs/decisions/0020-stage-by-stage.md). Both are answered READY.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import orjson

from sluice.core.foundation.canonical import canonical, wire_safe
from sluice.core.foundation.errors import CanonicalError

if TYPE_CHECKING:
    from collections.abc import Generator


class Asker(NamedTuple):
    """Whose share of a port's room a question takes."""

    tenant: str
    agent: str


NOBODY = Asker("", "")


@dataclass(frozen=True, slots=True)
class Request:
    """A question to a port. `port` names the port that answers; `payload` is JSON-like.

    `budget_ms`: the operator's time for an answer, which begins when the port has room for the question; the
    question waits for room no longer than that. `deadline_ms`: what is left of the caller's own deadline,
    room or not; None: there is none. Either may be over already: then only an answer at hand counts.
    `apart`: its time counts neither for its stage nor for the caller.
    """

    port: str
    payload: object
    budget_ms: int
    deadline_ms: int | None = None
    apart: bool = False
    asker: Asker = field(default=NOBODY, compare=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """A port's answer. `payload` (JSON-like, finite numbers) counts only if the port answered; otherwise
    `status` and `detail` say why it did not: "overrun", the operator's budget was over; "deadline", the
    caller's; "busy", the port had no room for the asker's question in time; "unavailable", it is not there.
    `queued_ms`: how long the question waited for room."""

    status: Literal["answered", "overrun", "deadline", "busy", "unavailable"]
    payload: object = None
    detail: str = ""
    queued_ms: int = field(default=0, compare=False)


PAUSE = Request("", "pause", 0)
"""Before a gate that reads much. All that is read before it is the input's own session and the policy."""
LAST_PAUSE = Request("", "last pause", 0)
"""The last at which others may go first: behind it an evaluation looks at what several sessions share, so
every input that came before must be decided, and until its own decision is applied no other may go."""
MANDATE_WAIT = Request("", "mandate", 200)
"""Before an action that names a mandate which its session does not have: topics have no order among each
other, so the mandate may be on its way. Who has not all inputs in their order waits for it so many ms and
begins the evaluation anew; answered READY, it goes on without the mandate."""
READY = Answer("answered")
"""The answer to a pause, and to that wait."""


def next_request(evaluation: Generator[Request, Answer, Any], answer: Answer | None = None) -> Request:
    """Start an evaluation, or resume it with an answer; its next question to a port. Pauses, and the wait
    for a mandate, are over at once. Raises StopIteration with the evaluation's result."""
    request = evaluation.send(answer)  # type: ignore[arg-type]
    while request is PAUSE or request is LAST_PAUSE or request is MANDATE_WAIT:
        request = evaluation.send(READY)
    return request


HELD_INPUT = "held_input"
"""The port that gives the bytes of an earlier input by its coordinates."""
_HELD_INPUT_MS = 10_000


def ask_for_input(topic: str, partition: int, offset: int) -> Request:
    """For the bytes of an earlier input."""
    return Request(HELD_INPUT, {"topic": topic, "partition": partition, "offset": offset}, _HELD_INPUT_MS)


def take_input(answer: Answer, input_digest: str) -> bytes | None:
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
        return Answer("unavailable", None, "the payload is no JSON value", answer.queued_ms)
    return replace(answer, payload=payload)
