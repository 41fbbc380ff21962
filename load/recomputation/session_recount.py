"""Every session's order and totals once more, from its inputs alone.

Imports nothing of the core. What an action comes to the rerun says (load/recomputation/reruns.py), from the
state that its record names; that this state was the one before it, and the last one the sum of all inputs, is
worked out here, by the rules of a session's state for the neutral policy of these runs: an action that its
caller carries out (allowed, or any in standard mode) counts its rows and itself, once per id; an outcome that
is not signed may raise what is counted, up to a factor of what was reserved, and never lowers it; a signed
one settles the one action that it was signed for, once, and after it none that is not signed counts. The
ledger says only in which order the topics of a session were taken; within a topic it must be the broker's
order. What memory writes and reviews come to is recounted in load/recomputation/write_recount.py.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from load.installations.neutral_policy import PURGE_LIMIT, PURGE_TOOL, TENANT, UNSIGNED_FACTOR
from load.installations.quality_policy import POINT
from load.recomputation.input_answers import is_answer, place_of
from load.recomputation.stored_sessions import StoredSession, read_stored_sessions
from sluice_topics.catalog import ACTIONS, OUTCOMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from load.recomputation.input_answers import AnswerAccount, Answered
    from sluice.adapters.kafka.kafka_read import StoredRecord

REFUSED, SETTLED = "sluice/input_refused/v1", "sluice/reservation_settled/v1"
VERDICT = "sluice/verdict/v1"
UNREGISTERED = "unregistered"
"""The tenant of agents that nobody registered. In these runs they act nowhere, so it has no account."""


@dataclass(slots=True)
class _KnownAction:
    digest: str
    counted: int
    most: int
    offset: int
    signed: bool = False


@dataclass(slots=True)
class RecountedSession:
    """Totals of one session: of its inputs, or as its records say. `digests`: of the first action under each
    id, along the ledger. `settled`: the outcomes that count, by their offsets. `problems` says what the
    ledger has otherwise."""

    rows: int = 0
    actions: int = 0
    by_id: dict[str, _KnownAction] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    settled: set[int] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)

    def propose(self, action: dict[str, Any], digest: str, offset: int) -> None:
        """Count an action, if nothing else came under its id."""
        if action["action_id"] in self.by_id:
            return
        rows = action["rows_affected"]
        blocked = action["toolName"] == PURGE_TOOL and rows > PURGE_LIMIT
        carried = not blocked or action["mode"] == "standard"
        most = UNSIGNED_FACTOR * max(rows, 1)
        self.by_id[action["action_id"]] = _KnownAction(digest, rows if carried else 0, most, offset)
        self.rows += rows if carried else 0
        self.actions += carried

    def settle(self, outcome: dict[str, Any], offset: int) -> None:
        """Count an outcome, unless no such action is known, or it counts no more."""
        action = self.by_id.get(outcome["action_id"])
        if action is None or action.signed:
            return
        rows = outcome["rows_affected"]
        if outcome["reported_by"] == POINT:
            action.signed = True
            if (outcome["input"]["offset"], outcome["action_digest"]) != (action.offset, action.digest):
                self.problems.append(f"{outcome['action_id']} was settled by an outcome of another action")
        else:
            rows = max(action.counted, min(rows, action.most))
        self.rows += rows - action.counted
        action.counted = rows
        self.settled.add(offset)

    def totals(self) -> dict[str, int]:
        """As records name them."""
        return {"aggregateRowsAffected": self.rows, "aggregateActionCount": self.actions}


def wrong_sessions(account: AnswerAccount, changelog: Iterable[StoredRecord]) -> dict[str, list[str]]:
    """Sessions that are not as recounted, with what is wrong about each."""
    states = read_stored_sessions(changelog)
    by_session: dict[bytes, list[Answered]] = defaultdict(list)
    for answered in account.inputs.values():
        of_session = by_session[answered.record.key or b""]
        if answered.readable and answered.topic in (ACTIONS, OUTCOMES):
            of_session.append(answered)
    reduced = _fold_along_ledger(account)
    for key, inputs in by_session.items():
        _compare(reduced[key], states.get(key, StoredSession()), inputs)
    return {
        key.decode(): recounted_session.problems
        for key, recounted_session in reduced.items()
        if recounted_session.problems
    }


def _fold_along_ledger(account: AnswerAccount) -> dict[bytes, RecountedSession]:
    sessions: dict[bytes, RecountedSession] = defaultdict(RecountedSession)
    last: dict[tuple[bytes, str], int] = {}
    visited: set[tuple[str, int, int]] = set()
    for body in account.ledger:
        coordinates = place_of(body)
        if coordinates is None or coordinates not in account.inputs or not is_answer(body):
            continue
        answered = account.inputs[coordinates]
        key = answered.record.key or b""
        series = (key, coordinates[0])
        waited = body.get("early") or (coordinates[0] == OUTCOMES and body["schema"] == REFUSED)
        if not waited and coordinates not in visited and coordinates[2] < last.get(series, -1):
            sessions[key].problems.append(f"{coordinates} was decided after offset {last[series]}")
        if not waited:
            last[series] = max(coordinates[2], last.get(series, -1))
        if coordinates not in visited and answered.readable:
            _follow(sessions[key], answered, body)
        visited.add(coordinates)
    return sessions


def _follow(session: RecountedSession, answered: Answered, body: dict[str, Any]) -> None:
    """A record goes on from the totals that the one before it left."""
    if body["schema"] == VERDICT:
        before, after = body["session"]["before"], body["session"]["after"]
        if before != session.totals():
            session.problems.append(f"{place_of(body)}: after {session.totals()} the ledger has {before}")
        session.rows, session.actions = after["aggregateRowsAffected"], after["aggregateActionCount"]
        _check_repeat(session, answered, body)
    elif body["schema"] == SETTLED:
        session.rows = body["aggregateRowsAffected"]
        session.settled.add(answered.record.offset)
    elif answered.topic == OUTCOMES and body["schema"] == REFUSED:
        due = "outcome_replayed" if answered.message["reported_by"] == POINT else "already_settled"
        if body["reason"] != due:
            session.problems.append(f"{place_of(body)} was refused as {body['reason']}, due {due}")


def _check_repeat(session: RecountedSession, answered: Answered, body: dict[str, Any]) -> None:
    """The same bytes under an id again have the first answer; other bytes are denied. The rerun would not
    show it: worker and rerun compare by one line, and no total changes."""
    name = answered.message["action_id"]
    first = session.digests.setdefault(name, "")
    session.digests[name] = first or answered.digest
    repeats, conflicts = first == answered.digest, first not in ("", answered.digest)
    if (body["duplicate_of"] is not None) != repeats or (conflicts and body["outcome"] != "BLOCK"):
        of_first = "the same bytes as before" if repeats else "other bytes" if conflicts else "a new id"
        session.problems.append(f"{place_of(body)}: {name}, {of_first}: {body['outcome']}")


def _sum_inputs(inputs: Iterable[Answered]) -> RecountedSession:
    """The totals do not depend on how the two topics interleave."""
    alone = RecountedSession()
    for answered in sorted(inputs, key=lambda each: (each.topic != ACTIONS, each.record.offset)):
        if answered.topic == ACTIONS:
            alone.propose(answered.message, answered.digest, answered.record.offset)
        else:
            alone.settle(answered.message, answered.record.offset)
    return alone


def _compare(session: RecountedSession, state: StoredSession, inputs: Sequence[Answered]) -> None:
    """What the ledger says in the end, what the state holds and what the inputs add up to are one."""
    alone = _sum_inputs(inputs)
    rows, actions = state.totals.get(TENANT, (0, 0))
    totals = {(session.rows, session.actions), (alone.rows, alone.actions), (rows, actions)}
    if len(totals) > 1 or state.totals.keys() - {TENANT, UNREGISTERED} or state.early:
        text = f"the state has {rows} rows, {actions} actions, the ledger {session.totals()}"
        session.problems.append(f"{text}, from the inputs {alone.totals()}")
    may_repeat = alone.settled - _find_repeated(inputs)
    if not may_repeat <= session.settled <= alone.settled:
        wrong = (may_repeat - session.settled) | (session.settled - alone.settled)
        session.problems.append(f"outcomes at {sorted(wrong)} count, or do not, and are not due to")
    session.problems += alone.problems
    if state.stray:
        session.problems.append(f"{state.stray} pages are left that its state does not name")


def _find_repeated(inputs: Iterable[Answered]) -> set[int]:
    """The offsets of outcomes whose bytes lay in their session before: of two that come before their action
    the first one waits for it, and the second is refused."""
    first: dict[str, int] = {}
    outcomes = sorted(answered.record.offset for answered in inputs if answered.topic == OUTCOMES)
    digests = {answered.record.offset: answered.digest for answered in inputs if answered.topic == OUTCOMES}
    return {offset for offset in outcomes if first.setdefault(digests[offset], offset) != offset}
