"""Whether a committed record is the gate's answer to an input, and not to another one or a stranger's.

Whoever may write to an answering topic can write any record under any `ce_id`. So an answer must name the
input as this client sent it: the place that the broker gave it, the digest of its bytes, its action, session
and agent; and it cannot be older than the input. What does not fit is passed over, and the wait goes on.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.client.input_kinds import REVIEWS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sluice.client.answers import ActionAnswer, InputLocation
    from sluice.client.input_kinds import InputKind

CLOCKS_APART_MS = 1000
"""How much older than its input an answer may seem: each has the time of its own broker."""
WITHHELD = "withheld:sha256:"
"""What the gate releases in place of an id that holds instructions, before the digest of the id."""
ID_FIELDS = (
    *("verdict_id", "memory_id", "served_id", "outcome_id", "refusal_id"),
    *("approval_id", "grant_id", "escalation_id", "dead_letter_id", "mandate_event_id"),
)
ENDINGS = frozenset(
    f"sluice/{name}/v1"
    for name in (
        "escalation_resolved",
        "escalation_expired",
        "retrieval_escalation_resolved",
        "retrieval_escalation_expired",
    )
)


class CommittedAnswer(NamedTuple):
    """A committed record that answers an input; `topic` is the base name, `timestamp_ms` the broker's."""

    topic: str
    record: dict[str, Any]
    timestamp_ms: int


Objection = str | None
"""Why a record is not the answer that is sought; None: it is."""


class AnswerQuery(NamedTuple):
    """What a caller waits for: the ids that it may have, and what is to be said against a record that has one
    of them."""

    ids: tuple[str, ...]
    objection: Callable[[CommittedAnswer], Objection]


def compute_digest(value: bytes) -> str:
    """Compute the digest by which records name the bytes of an input."""
    return "sha256:" + sha256(value).hexdigest()


def describe_answer(
    kind: InputKind, location: InputLocation, value: bytes, more_ids: Sequence[str] = ()
) -> AnswerQuery:
    """The answer to an input that was sent: `location` is the broker's acknowledgement, `value` the bytes.
    `more_ids` may be the answer's beside those of its kind."""
    ids = (*kind.list_ids(location), *more_ids)
    coordinates = {
        "topic": kind.topic,
        "partition": location.partition,
        "offset": location.offset,
        "timestamp": location.timestamp_ms,
        "digest": compute_digest(value),
    }
    names = _read_names(value, kind.names)

    def find_objection(answer: CommittedAnswer) -> Objection:
        record = answer.record
        return (
            _describe_mismatch("input", record.get("input"), coordinates)
            or _find_other_name(record, names)
            or _find_other_id(record, ids)
            or _find_age_flaw(answer, location.timestamp_ms)
        )

    return AnswerQuery(ids, find_objection)


def describe_end(verdict: ActionAnswer, since_ms: int) -> AnswerQuery:
    """Describe the record that ends the escalation of a verdict. `since_ms`: no earlier; the broker's time of
    the action."""
    names = {
        **{name: verdict.record.get(name) for name in ("action_id", "agent_id", "session_id", "tenant_id")},
        "verdict_id": verdict.duplicate_of or verdict.verdict_id,
        "action_digest": verdict.input["digest"],
    }
    return _describe_ending(str(verdict.escalation_id), names, since_ms)


def describe_input_end(escalation_id: str, value: bytes, since_ms: int) -> AnswerQuery:
    """Describe the record that ends the escalation of an input with these bytes, an action or a retrieval."""
    return describe_digest_end(escalation_id, compute_digest(value), since_ms)


def describe_digest_end(escalation_id: str, digest: str, since_ms: int) -> AnswerQuery:
    """Describe the record that ends the escalation of an input of which only the digest is at hand."""
    return _describe_ending(escalation_id, {"digest": digest}, since_ms)


def _describe_ending(escalation_id: str, names: Mapping[str, Any], since_ms: int) -> AnswerQuery:
    def find_objection(answer: CommittedAnswer) -> Objection:
        record = answer.record
        if record.get("schema") not in ENDINGS:
            return f"it is a {record.get('schema')!r}, which ends nothing"
        observed = {**record, "digest": record.get("action_digest") or record.get("request_hash")}
        named = {name: observed.get(name) for name in names}
        return (
            _describe_mismatch("escalation", named, names)
            or _find_other_id(record, (escalation_id,))
            or _find_age_flaw(answer, since_ms)
        )

    return AnswerQuery((escalation_id,), find_objection)


def describe_resolved_verdict(verdict: ActionAnswer, end: Mapping[str, Any]) -> AnswerQuery:
    """The verdict to which the approval of an action led; `end` is the record that ended its escalation."""
    an_id, review = str(end["resolved_verdict_id"]), end["input"]
    names = {name: verdict.record.get(name) for name in ("action_id", "agent_id", "session_id", "tenant_id")}
    names["resolves"] = verdict.duplicate_of or verdict.verdict_id
    action = {"digest": verdict.input["digest"]} if verdict.duplicate_of else verdict.input

    def find_objection(answer: CommittedAnswer) -> Objection:
        record = answer.record
        if an_id != f"resolved:{REVIEWS}:{review['partition']}:{review['offset']}":
            return f"{an_id} does not follow from the review"
        return (
            _describe_mismatch("action", record.get("action"), action)
            or _describe_mismatch("input", record.get("input"), review)
            or _describe_mismatch("record", {name: record.get(name) for name in names}, names)
            or _find_other_id(record, (an_id,))
            or _find_age_flaw(answer, review["timestamp"])
        )

    return AnswerQuery((an_id,), find_objection)


def describe_same_bytes(name: str, value: bytes) -> AnswerQuery:
    """An input with this `ce_id` that says what `value` says."""
    fields = json.loads(value)
    return AnswerQuery((name,), lambda answer: None if answer.record == fields else "it says something else")


def _read_names(value: bytes, names: Sequence[str]) -> dict[str, str]:
    """Read the ids in an input, as far as it can be read: a dead letter answers an input that cannot."""
    try:
        fields = json.loads(value)
    except ValueError:
        return {}
    if not isinstance(fields, dict):
        return {}
    return {name: fields[name] for name in names if isinstance(fields.get(name), str)}


def _find_other_name(record: Mapping[str, Any], names: Mapping[str, str]) -> Objection:
    """A record that could not read a name leaves it out, and one that must not repeat it has its digest."""
    for name, mine in names.items():
        digest = WITHHELD + sha256(mine.encode("utf-8", "surrogatepass")).hexdigest()
        if record.get(name) not in (None, mine, digest):
            return f"its {name} is {record[name]!r}, not {mine!r}"
    return None


def _describe_mismatch(what: str, observed: object, mine: Mapping[str, Any]) -> Objection:
    if not isinstance(observed, dict):
        return f"it names no {what}"
    for name, value in mine.items():
        if observed.get(name) != value:
            return f"its {what} has {name} {observed.get(name)!r}, not {value!r}"
    return None


def _find_other_id(record: Mapping[str, Any], ids: Sequence[str]) -> Objection:
    """The header `ce_id`, by which it was found, is not covered by the record's hash."""
    ids_of_record = [record.get(name) for name in ID_FIELDS]
    return None if any(an_id in ids for an_id in ids_of_record) else "it has another id than its header says"


def _find_age_flaw(answer: CommittedAnswer, since_ms: int) -> Objection:
    if answer.timestamp_ms >= since_ms - CLOCKS_APART_MS:
        return None
    return f"it is {(since_ms - answer.timestamp_ms) / 1000:g} s older than what it answers"
