"""What waits for a person, for the verbs of `sluice escalations` and `sluice quarantine`, read from the
ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from sluice.adapters.kafka.kafka_evidence import KafkaEvidence
from sluice.adapters.kafka.kafka_quarantine import KafkaQuarantine
from sluice.adapters.named_decisions import find_meanings
from sluice.cli.output import WRONG, require_broker, require_record_proofs, require_settings, stop
from sluice.core.foundation.clock import read_milliseconds
from sluice.core.foundation.input_record import escalation_id, memory_id, read_coordinates
from sluice.core.foundation.requests import Answer, take_input
from sluice.core.memory.plan import digest_content
from sluice.core.reports.ledger_values import NotInLedgerError, read_decision
from sluice.core.reports.pending_subject import PendingSubject, collect_subjects, sort_waiting
from sluice.ports import PortUnavailable
from sluice.settings.reader import list_real_names
from sluice_topics.catalog import ACTIONS, ESCALATIONS, MEMORY_WRITES, QUARANTINE, RETRIEVALS
from sluice_topics.record_reading import Unreadable, read, read_ledger_record
from sluice_topics.records import ProposedMemoryWrite

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from sluice.adapters.kafka.kafka_quarantine import Place
    from sluice_topics.records import MemoryDecision

T = TypeVar("T")
GRANT_GIVEN = "sluice/grant_given/v1"
NEVER_HELD = "never held"
OTHER_INPUT = "what lies there is not what was decided on: its digest is another"


@dataclass(frozen=True, slots=True)
class WholeEscalation:
    """All that topics hold of an escalation: the verdict that opened it and the one that resolved it, if any,
    and the bytes of the action or retrieval; None: see `no_action`. `approved`: the parameters of the
    approvals so far where they are others than the action's, and can still be read."""

    subject: PendingSubject
    approved: dict[str, Any] | None = None
    verdict: dict[str, Any] | None = None
    resolved: dict[str, Any] | None = None
    action: bytes | None = None
    no_action: str = ""


@dataclass(frozen=True, slots=True)
class WholeMemory:
    """All that topics hold of a memory; `subject` None: it was never held. `content` None: see
    `no_content`."""

    memory_id: str
    subject: PendingSubject | None
    decision: MemoryDecision | None
    content: str | None = None
    no_content: str = ""

    @property
    def state(self) -> str:
        """A word: how it stands, or how it ended."""
        return NEVER_HELD if self.subject is None else self.subject.status


def connect() -> KafkaQuarantine:
    """Connect to the installation of the settings."""
    settings = require_settings()
    proofs = require_record_proofs(settings)
    return KafkaQuarantine(settings.kafka.connection, list_real_names(settings), proofs)


def run_question(question: Coroutine[Any, Any, T]) -> T:
    """The answer; what cannot be read ends the command."""
    try:
        return require_broker(question)
    except NotInLedgerError as error:
        stop(f"{error}. `sluice ledger verify` says what is wrong with the ledger.")


def require_waiting(base: str, wanted: Mapping[str, str | None]) -> list[PendingSubject]:
    """List what waits now by a topic of the ledger and has these fields (None: any value), the oldest
    first."""
    subjects = run_question(_collect(connect(), base)).values()
    asked = {name: value for name, value in wanted.items() if value is not None}
    return [
        subject
        for subject in sort_waiting(subjects)
        if all(subject.opened.get(name) == value for name, value in asked.items())
    ]


async def _collect(kafka: KafkaQuarantine, base: str, text: str = "") -> dict[str, PendingSubject]:
    return collect_subjects([record async for record in kafka.read_records(base, text)])


async def find_grant(kafka: KafkaQuarantine, grant_id: str) -> dict[str, Any] | None:
    """The record by which a standing grant was given; None for an unknown id."""
    async for record in kafka.read_records(ESCALATIONS, grant_id):
        if record["schema"] == GRANT_GIVEN and record["grant_id"] == grant_id:
            return record
    return None


def write_model(base: str, record: Mapping[str, Any]) -> dict[str, Any]:
    """A record of a topic as JSON has it, with null for what it lacks."""
    model = read_ledger_record(base, record)
    return {} if model is None else model.model_dump(mode="json", by_alias=True)


def require_escalation(kafka: KafkaQuarantine, name: str) -> WholeEscalation:
    """The escalation of an id, or of partition and offset of its action; an unknown one ends the command."""
    an_id = _require_escalation_id(name)
    escalation = run_question(_fetch_escalation(kafka, an_id))
    if escalation is None:
        stop(f"nothing was escalated under {an_id}", WRONG)
    return escalation


def _require_escalation_id(name: str) -> str:
    whole = name if name.count(":") > 1 else f"{ACTIONS}:{name}"
    try:
        topic, partition, offset = read_coordinates(whole)
    except ValueError as error:
        stop(f"{error}. Ids of escalations are like {escalation_id(f'{ACTIONS}:3:17')}")
    if topic not in (ACTIONS, RETRIEVALS):
        stop(f"no escalation of an action or a retrieval: {name} is of {topic}", WRONG)
    return escalation_id(f"{topic}:{partition}:{offset}")


async def _fetch_escalation(kafka: KafkaQuarantine, an_id: str) -> WholeEscalation | None:
    subject = (await _collect(kafka, ESCALATIONS)).get(an_id)
    if subject is None:
        return None
    coordinates, since = read_coordinates(an_id), read_milliseconds(subject.opened_at)

    async def fetch_verdict(verdict_id: str | None) -> dict[str, Any] | None:
        if verdict_id is None:
            return None
        verdict = await kafka.fetch_verdict(verdict_id, coordinates[1], since)
        return None if verdict is None else orjson.loads(verdict)

    verdict = await fetch_verdict(subject.opened.get("verdict_id"))
    resolved = await fetch_verdict(subject.records[-1].get("resolved_verdict_id"))
    action, why = await _fetch_input(kafka, coordinates, subject.digest)
    approved, at = None, subject.fields.get("last_approval")
    if subject.is_narrowed and at is not None:
        review, _ = await _fetch_input(kafka, (at["topic"], at["partition"], at["offset"]), at["digest"])
        approved = None if review is None else orjson.loads(review)["parameters"]
    return WholeEscalation(subject, approved, verdict, resolved, action, why)


async def _fetch_input(kafka: KafkaQuarantine, coordinates: Place, digest: str) -> tuple[bytes | None, str]:
    """The input at a place, or why it cannot be read."""
    try:
        answer = take_input(Answer("answered", await kafka.fetch_content(coordinates)), digest)
    except PortUnavailable as error:
        return None, str(error)
    return answer, "" if answer is not None else OTHER_INPUT


def require_place(name: str) -> Place:
    """Return the coordinates of a memory's input. A person may leave out what is always the same: 3:17."""
    whole = name if name.count(":") > 1 else f"{MEMORY_WRITES}:{name}"
    try:
        coordinates = read_coordinates(whole)
    except ValueError:
        coordinates = _require_write_place(name)
    if coordinates[0] != MEMORY_WRITES:
        stop(f"no id of a memory: {name} is of {coordinates[0]}", WRONG)
    return coordinates


def _require_write_place(name: str) -> Place:
    """Return the coordinates of the write that its caller named so; several of one name end the command."""
    kafka = require_settings().kafka
    (meant,) = run_question(find_meanings(KafkaEvidence(kafka.connection, kafka.topic_prefix), [name]))
    if not meant.decisions:
        like = memory_id(f"{MEMORY_WRITES}:3:17")
        stop(f"{name}: {meant.why}. Ids of memories are like {like}")
    if len(meant.decisions) > 1:
        stop(f"{name} names several decisions: {', '.join(meant.decisions)}")
    return read_coordinates(meant.decisions[0])


async def fetch_memory(kafka: KafkaQuarantine, coordinates: Place) -> WholeMemory:
    """All that topics hold of the memory whose input lies there."""
    name = memory_id(":".join(map(str, coordinates)))
    named = [record async for record in kafka.read_records(QUARANTINE, name)]
    records = [record for record in named if record["memory_id"] == name]
    subject = PendingSubject.of(records) if records else None
    since_ms = 0 if subject is None else read_milliseconds(subject.opened["entered_at"])
    raw = await kafka.fetch_decision(name, coordinates[1], since_ms)
    decision = None if raw is None else read_decision(raw)
    if decision is None and subject is None:
        return WholeMemory(name, None, None, no_content="nothing was decided on it")
    digest = subject.digest if decision is None and subject is not None else None
    digest = decision.content_digest if decision is not None else digest
    return WholeMemory(name, subject, decision, *await _fetch_content(kafka, coordinates, digest))


async def _fetch_content(
    kafka: KafkaQuarantine, coordinates: Place, digest: str | None
) -> tuple[str | None, str]:
    """The content, or None and why. Only what the digest names is the content that was decided on."""
    try:
        write = read(ProposedMemoryWrite, await kafka.fetch_content(coordinates))
    except PortUnavailable as error:
        return None, str(error)
    if isinstance(write, Unreadable):
        return None, f"the input is no memory write: {write.message}"
    if digest is not None and digest_content(write.content) != digest:
        return None, OTHER_INPUT
    return write.content, ""
