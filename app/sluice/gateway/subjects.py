"""What is said of one thing, on a page or as JSON: what waits with its content, a decision with its story."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sluice.client.answers import InputLocation
from sluice.client.binding import compute_digest
from sluice.client.input_kinds import (
    ACTION,
    ESCALATIONS,
    MEMORY_DECISIONS,
    QUARANTINE,
    SESSION_EVENTS,
    VERDICTS,
)
from sluice.client.sealing import NoSealing, may_open_narrowed, open_narrowed, seal_narrowed
from sluice.core.foundation.input_record import read_coordinates
from sluice.core.foundation.refusals import NOT_SEALED
from sluice.core.reports.pending_subject import ENDS, SUBJECT_IDS, PendingSubject, sort_waiting
from sluice.gateway.decisions import translate_faults
from sluice.gateway.http.http_errors import HttpError, make_not_found
from sluice.gateway.waiting_subjects import EndedSubject, is_of_caller
from sluice_topics.json_text import Unreadable, parse, write_json_path
from sluice_topics.record_reading import replace_parameters
from sluice_topics.sealing import find_foreign

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.client.exchange import Exchange
    from sluice.client.sealing import SealingView
    from sluice.gateway.decisions import Decisions
    from sluice.gateway.http.api_keys import Caller
    from sluice.gateway.recent_records import RecentRecords
    from sluice.gateway.waiting_subjects import WaitingSubjects
    from sluice_topics.json_text import Step

Record = dict[str, Any]
NEWEST = 200
"""Decisions of each partition that lists and posture pages look at."""
FOLLOWING = (ESCALATIONS, VERDICTS, QUARANTINE, SESSION_EVENTS)
_NAMES = ("verdict_id", "memory_id", "escalationId", "action_id", "write_id", "resolves")
_REFERRING = ("subject", "resolves", "duplicate_of", "escalation_id", "memory_id", "verdict_id")


@dataclass(frozen=True, slots=True)
class Subjects:
    """Reads them, each for a caller alone."""

    decisions: Decisions
    exchange: Exchange
    waiting: WaitingSubjects
    recent: RecentRecords
    sealing: SealingView = field(default_factory=NoSealing)

    def list_waiting(self, base: str, caller: Caller) -> list[PendingSubject]:
        """List what waits in a topic, the oldest first."""
        return sort_waiting(self.waiting.list_waiting(base, caller))

    def find_waiting(self, base: str, an_id: str, caller: Caller) -> PendingSubject | None:
        """Find what waits under an id; None where nothing of the caller's does."""
        subject = self.waiting.get(base, an_id)
        return subject if subject is not None and is_of_caller(subject.fields, caller) else None

    async def fetch_content(self, record: Mapping[str, Any]) -> Any:
        """The input that a record answers, parsed; None where it is no longer there, or not what it was."""
        coordinates = record.get("input")
        if not isinstance(coordinates, dict):
            return None
        async with translate_faults():
            at = InputLocation(coordinates["partition"], coordinates["offset"], coordinates["timestamp"])
            value = await self.exchange.reader.fetch_value(coordinates["topic"], at)
        if value is None or compute_digest(value) != coordinates["digest"]:
            return None
        content = parse(value)
        return None if isinstance(content, Unreadable) else content

    async def fetch_approved(self, subject: PendingSubject) -> Any:
        """The parameters by which the approvals so far replace those of the action; None: they stay."""
        return await self.fetch_parameters(subject.fields["last_approval"]) if subject.is_narrowed else None

    async def fetch_parameters(self, coordinates: Record) -> Any:
        """The parameters in the review at a place; None where it is no longer there."""
        review = await self.fetch_content({"input": coordinates})
        return None if review is None else review["parameters"]

    async def seal_narrowed(self, opened: Mapping[str, Any], parameters: Record) -> Record:
        """What a person puts in the place of an escalated action's parameters, as it may be signed: sealed
        where the bundle marks it as personal. Raises HttpError."""
        if isinstance(self.sealing, NoSealing):
            return parameters
        action = await self._fetch_action(opened)
        for steps, _ in find_foreign(parameters, action, await self._fetch_counted(opened)):
            raise _make_foreign(steps)
        async with translate_faults(ACTION):
            return await seal_narrowed(self.sealing, opened, action, parameters)

    async def open_narrowed(self, first: Mapping[str, Any], parameters: Record) -> Record:
        """The same as the agent's tool takes it. Raises HttpError."""
        if isinstance(self.sealing, NoSealing):
            return parameters
        action = await self._fetch_action(first)
        async with translate_faults(ACTION):
            if not await may_open_narrowed(self.sealing, first, action, parameters):
                raise _make_foreign(())
            return await open_narrowed(self.sealing, str(first["agent_id"]), action, parameters)

    async def require_sealed(self, opened: Mapping[str, Any], parameters: Record) -> None:
        """Refuse what an approver signed with a plain value at a marked place: it would lie in the review for
        ever. And with a token of another action. Raises HttpError."""
        if isinstance(self.sealing, NoSealing):
            return
        action = await self._fetch_action(opened)
        narrowed = replace_parameters(action, parameters)
        async with translate_faults(ACTION):
            steps = self.sealing.find_unsealed("action", str(opened["agent_id"]), narrowed)
        if steps is not None:
            message = "it is marked as personal: seal it before you sign, as `sluice escalations` does"
            raise HttpError(400, NOT_SEALED, message, path=write_json_path(steps))
        approved = await self._fetch_counted(opened)
        async with translate_faults(ACTION):
            if not await may_open_narrowed(self.sealing, opened, action, parameters, approved):
                raise _make_foreign(())

    async def _fetch_counted(self, opened: Mapping[str, Any]) -> Any:
        """The parameters for which the approvals so far are, if other ones than the action's."""
        subject = self.waiting.get(ESCALATIONS, str(opened.get("escalation_id")))
        return None if subject is None else await self.fetch_approved(subject)

    async def _fetch_action(self, record: Mapping[str, Any]) -> Record:
        content = await self.fetch_content(record)
        if not isinstance(content, dict):
            raise HttpError(409, "content_unavailable", "the action can no longer be read")
        return content

    async def fetch_decision(self, an_id: str, caller: Caller) -> Record:
        """The decision of an id. Raises HttpError: 404, 409 where it is not decided yet."""
        decision = await self.decisions.fetch_decision(an_id, caller)
        if decision is None:
            raise HttpError(409, "not_decided", f"{an_id} is not decided yet")
        return decision

    async def fetch_newest(self, base: str, caller: Caller) -> list[Record]:
        """The newest decisions of a topic: VERDICTS or MEMORY_DECISIONS."""
        async with translate_faults():
            return await self.recent.fetch_newest(base, self.exchange.partitions, NEWEST, caller)

    async def fetch_followed(self, decision: Record, caller: Caller) -> list[Record]:
        """Fetch the records that followed from a decision, in the chain's order."""
        own = [str(decision[name]) for name in _NAMES if decision.get(name)]
        coordinates = decision["input"]
        async with translate_faults():
            following = await self.recent.fetch_following(
                FOLLOWING, coordinates["partition"], coordinates["timestamp"], own
            )
        return [record for record in following if record != decision and _is_about(record, decision, caller)]

    async def fetch_session(self, session_id: str, caller: Caller) -> Record:
        """A session's totals. Raises HttpError: 404 where the ledger says nothing of it so far back."""
        async with translate_faults():
            totals = await self.recent.fetch_totals(
                session_id, self.exchange.find_partition(session_id), caller
            )
        if totals is None:
            raise make_not_found("session")
        return totals


def _make_foreign(steps: tuple[Step, ...]) -> HttpError:
    message = "a sealed value that the action does not have is not taken: write it plain, and it is sealed"
    return HttpError(400, "sealed_invalid", message, path=write_json_path(("parameters", *steps)))


def read_decision_id(subject_id: str) -> str | None:
    """The id of the decision that opened what waits, or waited, under an id; None for a retrieval's."""
    try:
        topic, partition, offset = read_coordinates(subject_id)
    except ValueError:
        raise make_not_found(subject_id) from None
    if subject_id.startswith("memory:"):
        return subject_id
    return f"verdict:{topic}:{partition}:{offset}" if topic.startswith("gate.actions") else None


def find_ending(followed: list[Record]) -> EndedSubject | None:
    """Find the end of an escalated decision or a held memory among the records that followed it; None where
    it waits, or no person was asked."""
    ends = [
        record for record in followed if record.get("schema") in ENDS and record.keys() & set(SUBJECT_IDS)
    ]
    return EndedSubject(PendingSubject.of(ends[-1:]), None) if ends else None


def list_changes(record: Record) -> dict[str, Any]:
    """A record without what its page says elsewhere."""
    hidden = ("schema", "partition", "sequence", "prev_hash", "event_hash", "decider_version", "input")
    return {name: value for name, value in record.items() if name not in hidden and value is not None}


def parse_narrowed(text: str) -> dict[str, Any] | None:
    """The parameters that a person wrote in place of the action's; None: nothing was written. Raises
    HttpError."""
    if not text.strip():
        return None
    try:
        parameters = json.loads(text)
    except ValueError as error:
        raise HttpError(400, "invalid_value", f"the parameters are not JSON: {error}") from None
    if not isinstance(parameters, dict):
        raise HttpError(400, "invalid_value", "the parameters are not a JSON object")
    return parameters


def _is_about(record: Record, decision: Record, caller: Caller) -> bool:
    """Whether a record is about a decision; its raw bytes only have one of the names somewhere."""
    if record.get("tenant_id") not in (None, caller.tenant):
        return False
    own = {decision.get(name) for name in ("verdict_id", "memory_id", "escalationId", "resolves")} - {None}
    if own & {record.get(name) for name in _REFERRING}:
        return True
    settles = "outcome_id" in record and record.get("action_id") == decision.get("action_id")
    return settles and record.get("session_id") == decision.get("session_id")


LISTED = {"actions": VERDICTS, "memories": MEMORY_DECISIONS}
"""The lists of decisions, by what they are about."""
