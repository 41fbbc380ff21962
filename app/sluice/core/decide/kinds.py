"""The table of the kinds of input, with one row for each kind; and reading inputs and answers by it.

An input record is read as a record of its topic. Its key must be the one from which its partition follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.core.actions.action_kinds import ACTION, OUTCOME, USE
from sluice.core.actions.task_mandates import MANDATE
from sluice.core.decide.review import REVIEW
from sluice.core.memory.memory_kinds import FEEDBACK, WRITE
from sluice.core.retrieval.retrieval_kinds import REPORT, RETRIEVAL
from sluice_topics.record_reading import Unreadable, read, read_document
from sluice_topics.records import (
    ActionOutcome,
    DestinationUsed,
    ProposedAction,
    ProposedMemoryWrite,
    ProposedRetrieval,
    RetrievalReport,
    ReviewDecision,
    SourceFeedback,
    TaskMandate,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.policy.kind import AnswerKind, AnyKind, DecisionKind
    from sluice.core.state.decision import Decision
    from sluice_topics.records.base import Record

Message = (
    ProposedAction
    | ActionOutcome
    | ProposedMemoryWrite
    | ProposedRetrieval
    | RetrievalReport
    | ReviewDecision
    | TaskMandate
    | SourceFeedback
    | DestinationUsed
)
KINDS: tuple[AnyKind, ...] = (ACTION, OUTCOME, WRITE, RETRIEVAL, REPORT, REVIEW, MANDATE, FEEDBACK, USE)
"""In the order of sluice_topics/catalog.py."""
BY_TOPIC: Mapping[str, AnyKind] = {kind.topic: kind for kind in KINDS}
"""By the base name of the input's topic."""
BY_MODEL: Mapping[type[Record], AnyKind] = {kind.model: kind for kind in KINDS}
"""By the class of the input's record."""
ANSWERS: Mapping[str, AnswerKind[Any]] = {kind.answer.schema: kind.answer for kind in KINDS if kind.answer}
"""By the `schema` of the record that answers an input."""
JUDGED: tuple[AnyKind, ...] = tuple(
    kind for kind in KINDS if kind.answer and kind.answer.decision and kind.unread
)
"""The kinds whose every input is answered by a decision that can be executed again, or by a dead letter."""
DECIDING: Mapping[str, AnswerKind[Any]] = {
    kind.topic: kind.answer for kind in KINDS if kind.answer and kind.answer.decision
}
"""The records that decide, by the base topic of their inputs."""
DECISIONS: Mapping[str, DecisionKind[Any]] = {
    schema: answer_kind.decision
    for schema, answer_kind in ANSWERS.items()
    if answer_kind.decision is not None
}
"""By the `schema` of a decision."""


def name_decision(coordinates: tuple[str, int, int]) -> str:
    """The id of the decision on the input at a place (base topic, partition, offset), of a retrieval that on
    its first item."""
    answer = DECIDING.get(coordinates[0], DECIDING[ACTION.topic])
    return DECISIONS[answer.schema].id_of(":".join(map(str, coordinates)))


BY_ROW: Mapping[str, AnyKind] = {kind.case.row: kind for kind in KINDS if kind.case}
"""The kinds of which `sluice evaluate` reads labelled rows, by the `kind` of a row."""

_MARKED = {kind.marked_by: kind for kind in reversed(KINDS) if kind.marked_by}
"""By a field; the first that an input has counts, because a report also has `items` and `reported_by`."""

KEY_MISMATCH = Unreadable("key_mismatch", "$.session_id", "the message key must be the session_id, UTF-8")


def read_input_message(input_record: InputRecord) -> Message | Unreadable:
    """The record in an input record, or why there is none.

    Seed 000's form has no ids: those that it lacks come from the message's key, its coordinates and its
    header X-Mnemom-Agent, the same for every delivery and rerun.
    """
    kind = BY_TOPIC[input_record.topic]
    opened = input_record.opened
    message: Message | Unreadable = (
        read(kind.model, input_record.value) if opened is None else read_document(kind.model, opened.plain)
    )
    if kind is ACTION and isinstance(message, Unreadable) and message.code == "missing_field":
        ids = _ids_around(input_record)
        message = (
            read(kind.model, input_record.value, ids)
            if opened is None
            else read_document(kind.model, opened.plain, ids)
        )
    if not isinstance(message, Unreadable) and kind.key(message).encode() != input_record.key:
        return KEY_MISMATCH
    return message


def _ids_around(input_record: InputRecord) -> dict[str, str]:
    input_ids = {
        "action_id": input_record.decision_id,
        "session_id": (input_record.key or b"").decode("utf-8", "replace"),
    }
    return (
        input_ids
        if input_record.agent_header is None
        else {**input_ids, "agent_id": input_record.agent_header}
    )


def goes_by_stages(message: object) -> bool:
    """Whether an input with this message may be decided stage by stage with those of other sessions."""
    kind = BY_MODEL.get(type(message))  # type: ignore[arg-type]
    return kind is not None and kind.by_stages


def kind_of(fields: Mapping[str, Any]) -> AnyKind:
    """The kind of an input of which only the fields are known. An input that no field marks is an action."""
    return next((kind for field, kind in _MARKED.items() if field in fields), ACTION)


def find_answer(decision: Decision, kind: AnyKind) -> dict[str, Any] | Unreadable:
    """The fields of the record that answers an input of this kind, or why there is only a dead letter."""
    bodies = {record.kind: record.body for record in decision.records}
    dead_letter = bodies.get("DeadLetter")
    if dead_letter is not None:
        return Unreadable(dead_letter["code"], dead_letter["path"], dead_letter["message"])
    if kind.answer is None:
        raise ValueError(f"no record answers an input of the kind {kind.name}")
    return bodies[kind.answer.model.__name__]
