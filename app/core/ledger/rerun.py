"""Executing one decision again (seed 000, "Rerunnability"). Pure: everything is handed in.

The input comes by its coordinates, bundle and registry entries by hash, the session by the values that the
verdict recorded, model outputs as they were. Then the same core decides, and its verdict is held against the
recorded one.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from app.core.decide import DecisionPoint
from app.core.errors import BundleError, RegistryError, UnknownStageError
from app.core.ledger.rerun_result import Difference, Rerun, differences
from app.core.limits import SessionLimits
from app.core.policy import Policy
from app.core.registry import build_registry
from app.core.replay import decide
from app.core.requests import Answer
from app.core.session import UNREGISTERED, Account, RecentAction, SessionState, session_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.core.actions.stage import Stage
    from app.core.arrival import Arrival
    from app.core.decision import Decision
    from app.core.ledger.evidence import PolicyEvidence
    from app.core.requests import Request

REMEMBERED_POINTS = 256
_DIGEST_PREFIX = len("sha256:")
_ACTIONS_IN_ROOM = {True: 2, False: 0}
"""How many actions the rebuilt session may remember: the known one and this one, or none."""


class _Gone(Exception):
    """Names what a rerun lacks."""

    def __init__(self, *missing: str) -> None:
        super().__init__(", ".join(missing))
        self.missing = missing


class Rerunner:
    """Executes verdicts again over one body of evidence. `stage_of` gives a stage by its name, or raises
    UnknownStageError: an installation's own stages are its own to bring."""

    def __init__(self, evidence: PolicyEvidence, stage_of: Callable[[str], Stage]) -> None:
        self._evidence = evidence
        self._stage_of = stage_of
        self._point = lru_cache(maxsize=REMEMBERED_POINTS)(self._built)

    def rerun(self, verdict: dict[str, Any], arrival: Arrival | None) -> Rerun:
        """The verdict (a valid Verdict record's fields) against what comes of its input today.

        `arrival` is what lies at the input's coordinates, None for nothing.
        """
        verdict_id = verdict["verdict_id"]
        try:
            found = self._executed(verdict, _same_input(verdict, arrival))
        except _Gone as gone:
            return Rerun(verdict_id, missing=gone.missing)
        except BundleError as error:
            found = (Difference("bundle_hash", verdict["bundle_hash"], f"does not load: {error}"),)
        except RegistryError as error:
            found = (Difference("registry_hashes", verdict["registry_hashes"], f"do not load: {error}"),)
        return Rerun(verdict_id, found)

    def _executed(self, verdict: dict[str, Any], arrival: Arrival) -> tuple[Difference, ...]:
        entries = tuple(sorted(verdict["registry_hashes"].items()))
        room = verdict["session"]["room"]
        point = self._point(verdict["bundle_hash"], entries, tuple(verdict["stages"]), room)
        answers = _Recorded(verdict["model_outputs"])
        if verdict["action_id"] is None:
            decision = point.unread(arrival)
        else:
            decision = decide(point, arrival, _session(verdict, arrival), answers.next)
        return _compared(verdict, decision, answers)

    def _built(
        self, bundle_hash: str, entries: tuple[tuple[str, str], ...], names: tuple[str, ...], room: bool
    ) -> DecisionPoint:
        missing = []
        bundle = self._evidence.bundle(bundle_hash)
        if bundle is None:
            missing.append(f"bundle {bundle_hash}")
        found = [(key, self._evidence.entry(key, entry_hash)) for key, entry_hash in entries]
        missing += [f"registry entry {key}" for key, entry in found if entry is None]
        stages = [self._stage(name, missing) for name in names]
        if missing or bundle is None:
            raise _Gone(*missing)
        registry = build_registry(entry for _, entry in found if entry is not None)
        policy = Policy({bundle.id: bundle}, registry, bundle.id)
        known = [stage for stage in stages if stage is not None]
        return DecisionPoint(policy, known, _limits(room=room), stopwatch=lambda: 0, environment="rerun")

    def _stage(self, name: str, missing: list[str]) -> Stage | None:
        try:
            return self._stage_of(name)
        except UnknownStageError:
            missing.append(f"stage {name}")
            return None


class _Recorded:
    """The model outputs of a verdict as answers, in order; what was asked beyond them is kept."""

    def __init__(self, outputs: list[dict[str, Any]]) -> None:
        self._left = [Answer(one["status"], one["payload"], one["detail"]) for one in outputs]
        self.beyond: list[str] = []

    def next(self, request: Request) -> Answer:
        if self._left:
            return self._left.pop(0)
        self.beyond.append(request.port)
        return Answer("unavailable", detail="no answer is recorded")


def _same_input(verdict: dict[str, Any], arrival: Arrival | None) -> Arrival:
    place = verdict["input"]
    name = f"input {place['topic']}:{place['partition']}:{place['offset']}"
    if arrival is None:
        raise _Gone(name)
    if arrival.coordinates() != place:
        raise _Gone(f"{name} (another record lies there now)")
    return arrival


def _limits(*, room: bool) -> SessionLimits:
    """No time passes in a rebuilt session; whether it has room was recorded."""
    return SessionLimits(
        action_window_ms=1,
        idle_timeout_ms=1,
        max_recent_actions=_ACTIONS_IN_ROOM[room],
        max_early_outcomes=0,
        max_tenants=1,
    )


def _session(verdict: dict[str, Any], arrival: Arrival) -> SessionState:
    """A session that says of this action what the session said then: its totals, the known action, room.

    Without room an action is counted for its tenant only if the tenant had an account; that it had one shows
    in totals that are not zero or that moved.
    """
    values = verdict["session"]
    state = SessionState(session_key(verdict["session_id"]))
    state.opened_at = state.last_at = arrival.timestamp_ms
    before = values["before"]
    rows, actions = int(before["aggregateRowsAffected"]), before["aggregateActionCount"]
    if values["room"] or rows or actions or values["after"] != before:
        tenant = UNREGISTERED if verdict["tenant_id"] is None else verdict["tenant_id"]
        state.accounts[tenant] = Account(rows, actions, _recent(verdict, arrival))
    return state


def _recent(verdict: dict[str, Any], arrival: Arrival) -> dict[str, Any]:
    known = verdict["session"]["known"]
    if known is None:
        return {}
    remembered = RecentAction(
        known["digest"][_DIGEST_PREFIX:],
        known["offset"],
        arrival.timestamp_ms,
        known["mark"],
        counted=0,
        carried=0,
        settled=False,
        peak=0,
    )
    return {verdict["action_id"]: tuple(remembered)}


def _compared(verdict: dict[str, Any], decision: Decision, answers: _Recorded) -> tuple[Difference, ...]:
    if answers.beyond:
        _stop_if_never_recorded(verdict, answers.beyond)
        asked = [f"asked {port} too, of which no answer is recorded" for port in answers.beyond]
        return (Difference("model_outputs", verdict["model_outputs"], asked),)
    bodies = {record.kind: record.body for record in decision.records}
    if "Verdict" not in bodies:
        letter = bodies["DeadLetter"]
        told = f"unreadable: {letter['code']} at {letter['path']}: {letter['message']}"
        return (Difference("verdict_id", verdict["verdict_id"], told),)
    return differences(verdict, bodies["Verdict"])


def _stop_if_never_recorded(verdict: dict[str, Any], ports: list[str]) -> None:
    """A fault of the core leaves no gate in its verdict, and no answer that a gate had got."""
    if not verdict["gateResults"] and verdict["session"]["known"] is None:
        raise _Gone(*(f"answer of {port}" for port in ports))
