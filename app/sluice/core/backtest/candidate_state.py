"""A partition's state as it follows from the candidate's own decisions, and from what people, models and the
world did then."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sluice.core.actions.resolution import SCHEMA as RESOLVED
from sluice.core.actions.resolution import read_recorded_escalation
from sluice.core.actions.standing_grants import read_recorded_grant
from sluice.core.actions.verdict import SCHEMA as VERDICT
from sluice.core.decide.kinds import DECISIONS, read_input_message
from sluice.core.foundation.input_record import escalation_id
from sluice.core.memory.memory_record import SCHEMA as MEMORY
from sluice.core.memory.memory_record import read_parent_trust
from sluice.core.registry.registry_entries import UNREGISTERED
from sluice.core.rerun.evidence import restore_shared
from sluice.core.rerun.recomputation import omit_learnt
from sluice.core.state.book import Book, EscalationKept, GrantKept
from sluice.core.state.decision import Shared
from sluice.core.state.expiry import SCHEMA_FOLDED
from sluice.core.state.session import Counted, SessionState, session_key
from sluice_topics.catalog import MEMORY_WRITES, RETRIEVALS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sluice.core.decide.decision_point import DecisionPoint
    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.rerun.walk import Place
    from sluice.core.state.decision import Decision

    Records = Sequence[Mapping[str, Any]]

GRANT_GIVEN = "sluice/grant_given/v1"
SETTLED = "sluice/reservation_settled/v1"
LEAST_DROPPED = 64
"""Inputs of ended escalations that are dropped together, at least."""


class CandidateBook(Book):
    """A partition's book under the candidate. The trust in parents that it does not hold is as recorded."""

    def __init__(self) -> None:
        super().__init__({})
        self.recorded_trust: Mapping[str, float | None] = {}

    def trust_of(self, tenant: str, memory_id: str) -> float | None:
        """The trust in a memory in quarantine, or what the record says of it."""
        trust = super().trust_of(tenant, memory_id)
        return self.recorded_trust.get(memory_id) if trust is None else trust


@dataclass
class _Carried:
    """Whether an action was carried out then, and whether it is under the candidate."""

    then: bool = False
    now: bool = False


@dataclass
class CandidateState:
    """`read_ms`: the broker's time from which records were read, 0 for all. `asking`: the inputs of open
    escalations, by place. `begun_before`: sessions that began before what was read."""

    read_ms: int
    begun_before: int = 0
    asking: dict[Place, InputRecord] = field(default_factory=dict)
    book: CandidateBook = field(default_factory=CandidateBook)
    _sessions: dict[bytes, SessionState] = field(default_factory=dict)
    _carried: defaultdict[bytes, dict[str, _Carried]] = field(default_factory=lambda: defaultdict(dict))
    _granted: set[str] = field(default_factory=set)

    def note(self, record: Mapping[str, Any]) -> None:
        """A record of any kind: a timer ends sessions, and grants were given in what is read."""
        if record["schema"] == GRANT_GIVEN:
            self._granted.add(record["grant_id"])
        elif record["schema"] == SCHEMA_FOLDED:
            key = session_key(record["session_id"])
            self._sessions.pop(key, None)
            self._carried.pop(key, None)

    def open_session(self, key: bytes, deciding: Mapping[str, Any], at_ms: int) -> SessionState:
        """The session; one that began before what was read has the totals that its first record says."""
        state = self._sessions.get(key)
        if state is not None:
            return state
        state = self._sessions[key] = SessionState(key)
        before = deciding["session"]["before"] if deciding["schema"] in (VERDICT, RESOLVED) else None
        if before is not None and before["aggregateActionCount"]:
            state.opened_at = state.last_at = at_ms
            tenant = UNREGISTERED if deciding["tenant_id"] is None else deciding["tenant_id"]
            rows, actions = int(before["aggregateRowsAffected"]), before["aggregateActionCount"]
            state.apply([Counted(tenant, rows, actions)])
            self.begun_before += 1
        return state

    def expire(self, point: DecisionPoint, now_ms: int) -> None:
        """End what time ended before an input, as a timer did."""
        most = len(self.book) + len(self.book.open)
        gone = point.expire_held(self.book, now_ms, most) if most else None
        if gone is not None:
            self.book.apply(gone.book)

    def share(self, recorded: Sequence[dict[str, Any]], input_record: InputRecord) -> Shared:
        """The candidate's book, and beside it what was shared then, by the records of an input."""
        deciding = find_deciding(recorded)
        self.book.recorded_trust = {}
        if input_record.topic in (MEMORY_WRITES, RETRIEVALS):
            if deciding["schema"] not in DECISIONS:
                return Shared(self.book)
            if deciding["schema"] == MEMORY:
                self.book.recorded_trust = read_parent_trust(deciding)
            return replace(restore_shared(recorded, input_record), book=self.book)
        if deciding["schema"] == RESOLVED:
            self._believe_escalation(deciding)
        elif deciding["schema"] == VERDICT and "grant" in deciding:
            self._believe_grant(deciding, input_record)
        session = deciding.get("session")
        if isinstance(session, dict) and session.get("values") is not None:
            return Shared(self.book, uses=restore_shared(recorded, input_record).uses)
        return Shared(self.book)

    def apply(
        self, state: SessionState, recorded: Records, input_record: InputRecord, decision: Decision
    ) -> None:
        """Take over a decision. Of an outcome that came before its action nothing is learnt."""
        early = any(record.get("early") for record in recorded)
        state.apply(omit_learnt(decision.session) if early else decision.session)
        self.book.apply(decision.book)
        for record in recorded:
            if record["schema"] in (VERDICT, RESOLVED) and _is_carried(record):
                self._carried[state.key].setdefault(record["action_id"], _Carried()).then = True
        for out_record in decision.records:
            body = out_record.body
            if body["schema"] in (VERDICT, RESOLVED) and _is_carried(body):
                self._carried[state.key].setdefault(body["action_id"], _Carried()).now = True
            if out_record.kind.endswith("EscalationOpened"):
                self._remember_asking(input_record)

    def is_left_out(self, key: bytes, recorded: Records) -> bool:
        """Whether these are outcomes of an action that the candidate does not let be carried out."""
        of_session = self._carried.get(key, {})
        carried = [of_session.get(record["action_id"]) for record in recorded if record["schema"] == SETTLED]
        return any(each is not None and each.then and not each.now for each in carried)

    def _remember_asking(self, input_record: InputRecord) -> None:
        """Keep the input of an escalation until it ends; those that ended are dropped now and then."""
        location = input_record.topic, input_record.partition, input_record.offset
        self.asking[location] = input_record
        if len(self.asking) > LEAST_DROPPED + 2 * len(self.book.open):
            self.asking = {
                location: asking
                for location, asking in self.asking.items()
                if asking is input_record or self.book.open.get(escalation_id(asking.decision_id))
            }

    def _believe_escalation(self, resolved: Mapping[str, Any]) -> None:
        """An escalation that was opened before what was read."""
        escalation = read_recorded_escalation(resolved)
        if escalation.opened_ms < self.read_ms and not self.book.escalation(escalation.escalation_id):
            self.book.apply([EscalationKept(escalation)])

    def _believe_grant(self, verdict: Mapping[str, Any], input_record: InputRecord) -> None:
        """A standing grant that was given before what was read."""
        message = read_input_message(input_record)
        grant = read_recorded_grant(verdict, getattr(message, "tool_name", ""))
        is_earlier = grant is not None and not grant.of_agent and grant.grant_id not in self._granted
        if grant is not None and is_earlier and self.book.grant(grant.grant_id) is None:
            self._granted.add(grant.grant_id)
            self.book.apply([GrantKept(grant)])


def find_deciding(recorded: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The record that decides on an input, or else the first of its records."""
    return next((record for record in recorded if record["schema"] in DECISIONS), recorded[0])


def _is_carried(verdict: Mapping[str, Any]) -> bool:
    return bool(verdict["outcome"] == "ALLOW" or verdict["mode"] != "high_stakes")
