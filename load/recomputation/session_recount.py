"""Every session's totals and order once more, from the inputs, by rules written down here a second time.

Imports nothing of the core. The rules are those of a session's state, for the neutral policy of these runs:
an action that its caller carries out (allowed, or any in standard mode) counts its rows and itself, once per
id; an outcome that is not signed may raise what is counted, up to a factor of what was reserved, and never
lowers it; a signed one settles the one action that it was signed for, once, and after it none that is not
signed counts. The ledger says only in which order
the topics of a session were taken; within a topic it must be the broker's order. What memory writes and
reviews come to is recounted in load/recomputation/write_recount.py.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from load.installations.neutral_policy import PURGE_LIMIT, PURGE_TOOL, TENANT, UNSIGNED_FACTOR
from load.installations.quality_policy import POINT
from load.recomputation.input_answers import is_answer, place_of
from load.recomputation.stored_sessions import StoredSession, read_stored_sessions
from sluice_topics.catalog import ACTIONS, OUTCOMES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from load.recomputation.input_answers import AnswerAccount, Answered
    from sluice.adapters.kafka.kafka_read import StoredRecord

REFUSED = "sluice/input_refused/v1"
UNREGISTERED = "unregistered"
"""The tenant of agents that nobody registered. In these runs they act nowhere, so it has no account."""


@dataclass(slots=True)
class _KnownSession:
    digest: str
    outcome: str
    counted: int
    most: int
    offset: int
    signed: bool = False
    shared: bool = False


@dataclass(slots=True)
class RecountedSession:
    """One session, folded input by input. `problems` says what the ledger has otherwise."""

    rows: int = 0
    actions: int = 0
    by_id: dict[str, _KnownSession] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def propose(self, action: dict[str, Any], digest: str, offset: int) -> tuple[str, bool]:
        """The outcome that is due, and whether it repeats an earlier verdict. Counts the action."""
        previous = self.by_id.get(action["action_id"])
        if previous is not None:
            previous.shared = previous.shared or previous.digest != digest
            return (previous.outcome, True) if previous.digest == digest else ("BLOCK", False)
        rows = action["rows_affected"]
        blocked = action["toolName"] == PURGE_TOOL and rows > PURGE_LIMIT
        carried = not blocked or action["mode"] == "standard"
        outcome = "BLOCK" if blocked else "ALLOW"
        most = UNSIGNED_FACTOR * max(rows, 1)
        self.by_id[action["action_id"]] = _KnownSession(digest, outcome, rows if carried else 0, most, offset)
        self.rows += rows if carried else 0
        self.actions += carried
        return outcome, False

    def settle(self, outcome: dict[str, Any]) -> bool:
        """Count an outcome; False when no such action is known, or when it counts no more."""
        action = self.by_id.get(outcome["action_id"])
        if action is None or action.signed:
            return False
        rows = outcome["rows_affected"]
        if outcome["reported_by"] == POINT:
            action.signed = True
            if (outcome["input"]["offset"], outcome["action_digest"]) != (action.offset, action.digest):
                self.problems.append(f"{outcome['action_id']} was settled by an outcome of another action")
        else:
            rows = max(action.counted, min(rows, action.most))
        self.rows += rows - action.counted
        action.counted = rows
        return True

    def totals(self) -> dict[str, int]:
        """As records name them."""
        return {"aggregateRowsAffected": self.rows, "aggregateActionCount": self.actions}


def wrong_sessions(account: AnswerAccount, changelog: Iterable[StoredRecord]) -> dict[str, list[str]]:
    """Sessions that are not as recounted, with what is wrong about each."""
    states = read_stored_sessions(changelog)
    by_session: dict[bytes, list[Answered]] = defaultdict(list)
    for answered in account.inputs.values():
        by_session[answered.record.key or b""].append(answered)
    reduced = _fold_along_ledger(account)
    for key, inputs in by_session.items():
        session = reduced[key]
        _compare_state(session, states.get(key, StoredSession()))
        _compare_sum(session, inputs)
    return {
        key.decode(): recounted_session.problems
        for key, recounted_session in reduced.items()
        if recounted_session.problems
    }


def _fold_along_ledger(account: AnswerAccount) -> dict[bytes, RecountedSession]:
    sessions: dict[bytes, RecountedSession] = defaultdict(RecountedSession)
    last: dict[tuple[bytes, str], int] = {}
    visited: set[tuple[str, int, int]] = set()
    repeated = _find_repeated_outcomes(account)
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
        if coordinates not in visited:
            _fold(sessions[key], answered, body, is_repeated=coordinates in repeated)
        visited.add(coordinates)
    return sessions


def _find_repeated_outcomes(account: AnswerAccount) -> set[tuple[str, int, int]]:
    """The places of outcomes whose bytes lay in their session before: of two that come before their action
    the first one waits for it, and the second is refused."""
    first: dict[tuple[bytes, str], int] = {}
    outcomes = sorted(
        (coordinates for coordinates, answered in account.inputs.items() if answered.topic == OUTCOMES),
        key=itemgetter(2),
    )
    repeated = set()
    for outcome in outcomes:
        counted = account.inputs[outcome]
        if first.setdefault((counted.record.key or b"", counted.digest), outcome[2]) != outcome[2]:
            repeated.add(outcome)
    return repeated


def _fold(session: RecountedSession, answered: Answered, body: dict[str, Any], *, is_repeated: bool) -> None:
    if not answered.readable or answered.topic not in {ACTIONS, OUTCOMES}:
        return
    message = answered.message
    if answered.topic == ACTIONS:
        due = _due_verdict(session, answered, message)
    else:
        due = _due_settlement(session, message, is_repeated=is_repeated)
    observed = {name: body.get(name) for name in due}
    if "session" in due:
        observed["session"] = {when: body["session"][when] for when in ("before", "after")}
    if "duplicate_of" in due:
        observed["duplicate_of"] = observed["duplicate_of"] is not None
    if observed != due:
        session.problems.append(f"{place_of(body)}: the ledger has {observed}, recounted {due}")


def _due_verdict(session: RecountedSession, answered: Answered, action: dict[str, Any]) -> dict[str, Any]:
    before = session.totals()
    outcome, repeats = session.propose(action, answered.digest, answered.record.offset)
    return {
        "action_id": action["action_id"],
        "outcome": outcome,
        "duplicate_of": repeats,
        "session": {"before": before, "after": session.totals()},
    }


def _due_settlement(
    session: RecountedSession, outcome: dict[str, Any], *, is_repeated: bool
) -> dict[str, Any]:
    action = session.by_id.get(outcome["action_id"])
    reserved, spent = (None, False) if action is None else (action.counted, action.signed)
    if not session.settle(outcome):
        if not spent and not is_repeated:
            return {"schema": "an outcome that waits for its action"}
        again = outcome["reported_by"] == POINT
        return {"schema": REFUSED, "reason": "outcome_replayed" if again else "already_settled"}
    return {
        "action_id": outcome["action_id"],
        "reserved": reserved,
        "actual": outcome["rows_affected"],
        "aggregateRowsAffected": session.rows,
    }


def _compare_state(session: RecountedSession, state: StoredSession) -> None:
    rows, actions = state.totals.get(TENANT, (0, 0))
    others = state.totals.keys() - {TENANT, UNREGISTERED}
    if (rows, actions) != (session.rows, session.actions) or others or state.early:
        session.problems.append(f"the state has {rows} rows, {actions} actions, recounted {session.totals()}")
    if state.stray:
        session.problems.append(f"{state.stray} pages are left that its state does not name")


def _compare_sum(session: RecountedSession, inputs: list[Answered]) -> None:
    """The totals from the inputs alone: they do not depend on how the two topics interleave."""
    alone = RecountedSession()
    readable = [
        answered for answered in inputs if answered.readable and answered.topic in {ACTIONS, OUTCOMES}
    ]
    for answered_input in sorted(readable, key=lambda each: (each.topic != ACTIONS, each.record.offset)):
        if answered_input.topic == ACTIONS:
            alone.propose(answered_input.message, answered_input.digest, answered_input.record.offset)
        else:
            alone.settle(answered_input.message)
    if alone.totals() != session.totals():
        session.problems.append(f"along the ledger {session.totals()}, from the inputs {alone.totals()}")
