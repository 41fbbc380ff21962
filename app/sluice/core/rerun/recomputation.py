"""The sessions of one partition, recounted from its inputs in the order in which the ledger answers them.

A rerun takes the state before a decision from its record. Where every record of a partition is at hand, that
state can be recounted: each input goes once more to the core, on the session that the inputs before it made,
and what the record says of its session must be what the session says then.

What cannot be recounted is told: a session one of whose inputs is no longer there, from then until it folds;
of memories the quarantine, the parents' trust and the sources' histories, which cross sessions. An outcome
that came before its action counts where the ledger settles it, and nothing is learnt of what it says beside.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.core.actions.resolution import SCHEMA as RESOLVED
from sluice.core.actions.task_mandates import HAS_BEEN_LATER
from sluice.core.actions.verdict import SCHEMA as VERDICT
from sluice.core.decide.kinds import ANSWERS, BY_TOPIC, DECISIONS
from sluice.core.decide.replay import decide
from sluice.core.foundation.clock import read_milliseconds
from sluice.core.foundation.refusals import INPUT_REFUSED as REFUSED
from sluice.core.foundation.sealed_input import lacks_keys
from sluice.core.memory.memory_record import SCHEMA as MEMORY
from sluice.core.memory.write import is_held
from sluice.core.registry.agent_keys import UNSIGNED_AGENT
from sluice.core.registry.registry_entries import UNREGISTERED
from sluice.core.rerun.evidence import RecordedAnswers, restore_shared
from sluice.core.rerun.rerun_result import HASH_FIELD, Difference
from sluice.core.state.expiry import SCHEMA_FOLDED
from sluice.core.state.mandates import find_end_of_mandates
from sluice.core.state.recent_retrieval import add_read
from sluice.core.state.remembered import shorten_id
from sluice.core.state.session import (
    KEY_PREFIX,
    EntryDropped,
    EntryKept,
    Restarted,
    SessionState,
    session_key,
    totals,
    who,
)
from sluice.core.state.session_view import SessionView

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.foundation.limits import SessionLimits
    from sluice.core.policy.kind import Path
    from sluice.core.rerun.policy_then import PointsUnder, PolicyThen
    from sluice.core.state.decision import Decision
    from sluice.core.state.session import Remembered, SessionChange

NO_INPUTS: Mapping[tuple[str, int, int], InputRecord] = {}
CLOCKS_APART_MS = 60_000
"""A worker's clock, by which timers go, and the brokers' differ by less than this."""
GONE = "the session's state before: an input of the session is no longer there"
NO_POLICY = "the session's state before: the policy of an input cannot be told"
FOLDS = "the session's state before: it was idle long enough to fold, and the ledger has no such record"
ERASED_OF_SESSION = "the session's state: a person's key was destroyed, or is not known here"
NO_KEY = "the session's values: the master key of values is not set here"
UNTOUCHED = frozenset({"unknown_subject", UNSIGNED_AGENT})
"""Refusals that leave the session as it was."""
_IDS = tuple(answer_kind.id_field for answer_kind in ANSWERS.values())


class EnteredRecord(NamedTuple):
    """A record of the ledger: its fields, and the broker's time of it."""

    fields: dict[str, Any]
    written_ms: int


class _Group(NamedTuple):
    """Records that answer one input, the input, and earlier inputs that they rest on."""

    records: Sequence[EnteredRecord]
    input_record: InputRecord
    inputs: Mapping[tuple[str, int, int], InputRecord]


class Recomputed(NamedTuple):
    """What a record says otherwise than the recount, and what could not be recounted."""

    differences: tuple[Difference, ...] = ()
    not_checked: tuple[str, ...] = ()


@dataclass
class Recomputation:
    """Hand it the records of a partition in their order, those of one input together. `limits`: of sessions,
    as the settings say now."""

    then: PolicyThen
    limits: SessionLimits
    _sessions: dict[bytes, SessionState] = field(default_factory=dict)
    _lost: dict[bytes, str] = field(default_factory=dict)

    def take(
        self,
        group: Sequence[EnteredRecord],
        input_record: InputRecord | None,
        inputs: Mapping[tuple[str, int, int], InputRecord] = NO_INPUTS,
    ) -> list[Recomputed]:
        """For each of the records that answer one input (or, without one, for one record) what is wrong with
        it.

        `input_record` lies at the coordinates that they name; `inputs`: earlier ones, by their places.
        """
        first = group[0].fields
        if first["input"] is None:
            return [self._check_expiry(record.fields) for record in group]
        if input_record is None or input_record.coordinates() != first["input"]:
            self._lose(_make_key(first), GONE)
            return [Recomputed() for _ in group]
        key = KEY_PREFIX + (input_record.key or b"")
        if not self._does_change_session(group, input_record, key):
            return [Recomputed() for _ in group]
        return self._compare(_Group(group, input_record, inputs), key)

    def _does_change_session(
        self, group: Sequence[EnteredRecord], input_record: InputRecord, key: bytes
    ) -> bool:
        schemas = {record.fields["schema"]: record.fields for record in group}
        decided = [schemas[schema] for schema in ANSWERS if schema in schemas]
        if not decided:
            refused = schemas.get(REFUSED, {}).get("reason")
            if BY_TOPIC[input_record.topic].touches or (refused and refused not in UNTOUCHED):
                self._touch(key, input_record.timestamp_ms)
            return False
        decision = DECISIONS.get(decided[0]["schema"])
        return decision is None or decided[0][decision.read_field] is not None

    def _compare(self, answered: _Group, key: bytes) -> list[Recomputed]:
        state, group = self._sessions.setdefault(key, SessionState(key)), answered.records
        if self._lacks_keys(answered):
            self._lose(key, ERASED_OF_SESSION)
            return [Recomputed((), (ERASED_OF_SESSION,)) for _ in group]
        believe_time(state, [record.fields for record in group], answered.input_record.timestamp_ms)
        decision = self._decide_as_recorded(answered, state)
        if decision is not None and _believe_ended(state, group, decision):
            decision = self._decide_as_recorded(answered, state)
        if decision is None:
            self._lose(key, NO_POLICY)
            return [Recomputed() for _ in group]
        if decision.session[:1] == (Restarted(),):
            self._lose(key, FOLDS)
        if self.then.decision_settings.values_key is None and any(
            _has_values(record.fields) for record in group
        ):
            self._lose(key, NO_KEY)
        compared = [self._check_record(record.fields, decision, key) for record in group]
        states_before = [_get_held_before(state, record.fields) for record in group]
        early = any(record.fields.get("early") for record in group)
        state.apply(omit_learnt(decision.session) if early else decision.session)
        for entered_record, before in zip(group, states_before, strict=True):
            _believe(state, entered_record.fields, before)
        return compared

    def _lacks_keys(self, answered: _Group) -> bool:
        """Whether a value that the records rest on is sealed under a key that is not there any more."""
        keyring = self.then.decision_settings.keyring
        actions = (record.fields.get("action") for record in answered.records)
        places = [(of["topic"], of["partition"], of["offset"]) for of in actions if isinstance(of, dict)]
        approved = (
            answered.inputs[coordinates].value for coordinates in places if coordinates in answered.inputs
        )
        return lacks_keys(keyring, answered.input_record.value, *approved)

    def _decide_as_recorded(self, answered: _Group, state: SessionState) -> Decision | None:
        """Under the policy that gives what was recorded, of those that are possible; else the latest."""
        group, input_record = answered.records, answered.input_record
        recorded = group[0].fields
        named = {"registry_hashes": {}, "bundle_hash": None, **recorded}
        possible = self.then.find_possible(named, input_record.timestamp_ms, group[0].written_ms)
        if not possible.points:
            return None
        *earlier, last = possible.points
        best = self._decide(answered, state, last)
        if not earlier:
            return best
        agreeing = _count_agreeing(group, best)
        for points in earlier if agreeing != (len(group), len(group)) else ():
            decision = self._decide(answered, state, points)
            if _count_agreeing(group, decision) > agreeing:
                best, agreeing = decision, _count_agreeing(group, decision)
        if agreeing[1] == len(group):
            return best
        for points in self.then.find_between(named, input_record.timestamp_ms, group[0].written_ms):
            between = self._decide(answered, state, points)
            if _count_agreeing(group, between)[1] == len(group):
                return between
        return best

    def _decide(self, answered: _Group, state: SessionState, points: PointsUnder) -> Decision:
        group, input_record = answered.records, answered.input_record
        recorded = next(
            (record.fields for record in group if record.fields["schema"] in DECISIONS), group[0].fields
        )
        point = points.get_point(recorded)
        keyring = self.then.decision_settings.keyring
        answers = RecordedAnswers(recorded.get("model_outputs", []), answered.inputs, keyring)
        beside = restore_shared([record.fields for record in group], input_record)
        return decide(point, input_record, state, answers.next, beside)

    def _check_record(self, recorded: dict[str, Any], decision: Decision, key: bytes) -> Recomputed:
        if not _list_session_paths(recorded):
            return Recomputed()
        if key in self._lost:
            return Recomputed((), (self._lost[key],))
        return Recomputed(tuple(_find_differences(recorded, decision)))

    def _check_expiry(self, recorded: dict[str, Any]) -> Recomputed:
        """A session folds at its time, with the totals that it has."""
        if recorded["schema"] != SCHEMA_FOLDED:
            return Recomputed()
        key = session_key(recorded["session_id"])
        state, lost = self._sessions.pop(key, SessionState(key)), self._lost.pop(key, None)
        if lost is not None:
            return Recomputed((), (lost,))
        due = {tenant: totals(account) for tenant, account in state.accounts.items()}
        same = _omit_empty(due) == _omit_empty(recorded["tenants"])
        differences = [] if same else [Difference("tenants", recorded["tenants"], due)]
        folded_ms = read_milliseconds(recorded["decided_at"])
        idle_ms = state.last_at + self.limits.idle_timeout_ms
        if state.accounts and folded_ms + CLOCKS_APART_MS < idle_ms:
            differences.append(
                Difference("decided_at", recorded["decided_at"], f"not idle before {idle_ms} ms")
            )
        return Recomputed(tuple(differences))

    def _touch(self, key: bytes, at_ms: int) -> None:
        state = self._sessions.get(key)
        if state is not None and not state.gone:
            state.apply(SessionView(state, self.limits, at_ms).changes())

    def _lose(self, key: bytes | None, why: str) -> None:
        if key is not None:
            self._lost.setdefault(key, why)


def omit_learnt(events: Iterable[SessionChange]) -> Iterator[SessionChange]:
    """Without what an outcome says of values, and what its action teaches."""
    for event in events:
        if not (isinstance(event, EntryKept | EntryDropped) and event.table in ("values", "lessons")):
            yield event


def _omit_empty(tenants: Mapping[str, Any]) -> dict[str, Any]:
    """Without those of which nothing was counted: what opened their accounts may have left no record."""
    return {tenant: value for tenant, value in tenants.items() if any(value.values())}


def _list_session_paths(recorded: dict[str, Any]) -> tuple[Path, ...]:
    """Where a record says what it took from its session."""
    answer = ANSWERS.get(recorded["schema"])
    return () if answer is None else answer.of_session


def _has_values(recorded: dict[str, Any]) -> bool:
    """Whether a verdict says what its session knew of values: only a worker with their key knows any."""
    if recorded["schema"] not in (VERDICT, RESOLVED):
        return False
    values = recorded["session"].get("values")
    return values is not None and (values["complete"] or values["values"] or "uses" in values)


def _make_key(recorded: dict[str, Any]) -> bytes | None:
    session = recorded.get("session_id")
    return session_key(session) if isinstance(session, str) else None


def _count_agreeing(group: Sequence[EnteredRecord], decision: Decision) -> tuple[int, int]:
    """How many of the records a decision gives once more: whole, and in what they say of their session."""
    fields = [record.fields for record in group]
    whole = sum(_has_same_hash(record, _find_same_record(record, decision)) for record in fields)
    return whole, sum(not any(_find_differences(record, decision)) for record in fields)


def _has_same_hash(recorded: dict[str, Any], again: dict[str, Any] | None) -> bool:
    return again is not None and recorded.get(HASH_FIELD) == again.get(HASH_FIELD)


def _find_differences(recorded: dict[str, Any], decision: Decision) -> Iterator[Difference]:
    paths = _list_session_paths(recorded)
    if not paths:
        return
    again = _find_same_record(recorded, decision)
    if again is None:
        yield Difference("input", recorded["input"], "nothing of the kind follows from the inputs so far")
        return
    for path in paths:
        before, due = _omit_after(_get_at(recorded, path)), _omit_after(_get_at(again, path))
        if before != due:
            yield Difference(".".join(path), before, due)


def _find_same_record(recorded: dict[str, Any], decision: Decision) -> dict[str, Any] | None:
    for record in decision.records:
        body = record.body
        if body["schema"] == recorded["schema"] and all(
            body.get(name) == recorded.get(name) for name in _IDS
        ):
            return body
    return None


def _omit_after(value: Any) -> Any:
    """Without what the decision left: that follows from the decision."""
    return (
        {name: member for name, member in value.items() if name != "after"}
        if isinstance(value, dict)
        else value
    )


def _get_at(record: dict[str, Any], path: Path) -> Any:
    value: Any = record
    for name in path:
        value = value[name]
    return value


def _get_held_before(state: SessionState, recorded: dict[str, Any]) -> Any:
    """What the agent of a memory decision had read of memories that the gate held; None for none."""
    if recorded["schema"] != MEMORY:
        return None
    memory = _find_memory(state, recorded)
    return None if memory is None else memory.read.get("held")


def _find_memory(state: SessionState, recorded: dict[str, Any]) -> Remembered | None:
    account = state.accounts.get(recorded["tenant_id"])
    if account is None:
        return None
    return account.agents.get(who(recorded["tenant_id"], recorded["agent_id"]).agent)


def believe_time(state: SessionState, records: Sequence[dict[str, Any]], at_ms: int) -> None:
    """Let the session be as late as a record says, and later than the input: an outcome may have come that
    still waits for its action, and only makes mandates end earlier."""
    for record in records:
        mandate = record["session"].get("mandate") if record["schema"] in (VERDICT, RESOLVED) else None
        if mandate is not None and mandate.get("void", "").endswith(HAS_BEEN_LATER):
            state.last_at = max(state.last_at, mandate["until_ms"], at_ms + 1)


def _believe_ended(state: SessionState, records: Sequence[EnteredRecord], decision: Decision) -> bool:
    """Whether a record counts fewer of its agent's mandates than the decision does. The session is then as
    late as the end of those that it does not count, if that was before the record was written: as in
    `believe_time`, of an action that names no mandate."""
    for record in records:
        again = (
            _find_same_record(record.fields, decision)
            if record.fields["schema"] in (VERDICT, RESOLVED)
            else None
        )
        if again is None:
            continue
        ended = again["session"].get("mandates", 0) - record.fields["session"].get("mandates", 0)
        memory = _find_memory(state, record.fields) if ended > 0 else None
        if memory is None:
            continue
        now_ms = max(state.last_at, read_milliseconds(again["decided_at"]))
        end_ms = find_end_of_mandates(memory.gates, now_ms, ended)
        if end_ms is not None and end_ms <= record.written_ms + CLOCKS_APART_MS:
            state.last_at = end_ms
            return True
    return False


def _believe(state: SessionState, recorded: dict[str, Any], before: Any) -> None:
    """Go on from what a record left, so that a false one is told once and not with all after it.

    What became of a memory rests on more than its session (a parent's approval, a source's history), so that
    the record says it and not the recount; whether it is true, the rerun of that record tells.
    """
    if recorded["schema"] == MEMORY:
        _believe_write(state, recorded, before)
    if (
        recorded["schema"] not in (VERDICT, RESOLVED)
        or recorded["session"]["after"] == recorded["session"]["before"]
    ):
        return
    account = state.accounts.get(UNREGISTERED if recorded["tenant_id"] is None else recorded["tenant_id"])
    if account is not None:
        after = recorded["session"]["after"]
        account.rows, account.actions = int(after["aggregateRowsAffected"]), after["aggregateActionCount"]


def _believe_write(state: SessionState, recorded: dict[str, Any], before: Any) -> None:
    remembered = _find_memory(state, recorded)
    write = None if remembered is None else remembered.write(recorded["write_id"])
    if remembered is None or write is None or write.offset != recorded["input"]["offset"]:
        return
    score = recorded["trustScore"]
    left = write._replace(
        action=recorded["action"],
        shadow=recorded["shadowAction"],
        trust=None if score is None else score["total"],
    )
    name = shorten_id(recorded["write_id"])
    owner = who(recorded["tenant_id"], recorded["agent_id"])
    state.apply([EntryKept(*owner, "writes", name, tuple(left))])
    if is_held(recorded["shadowAction"] or recorded["action"], was_scored=score is not None):
        before = add_read(before, 1, name, recorded["input"]["timestamp"])
    if before is not None:
        state.apply([EntryKept(*owner, "read", "held", before)])
    elif "held" in remembered.read:
        state.apply([EntryDropped(*owner, "read", "held")])
