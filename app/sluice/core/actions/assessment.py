"""What an action is, before any gate judges it: what its session says, and what the gates do not ask.

It is: who acts, on which tool, of which type, tier and size. The gates do not ask: is the agent known, is the
bundle its own, is it still in time? What the judgement takes from the session is read from it, or from the
verdict that records it: the two are one value, so a rerun judges on exactly what the verdict says.

An agent or a bundle that is not known is denied in high_stakes and needs a person in standard, the thing
named (product.md, "Bad input"). An agent is bound by the bundle that it is registered with, else by the
installation's default: naming another would be a way round the rules. So that it is no way round a denial
either, the agent's own bundle judges in standard mode. An unregistered tool has the same row; it is decided
in Gate 4, where the tier of an action is.

An action whose `deadline_ms` is over when it is decided is never allowed: its caller no longer waits for the
verdict, and acting on it later would be acting on old totals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.core.actions.pipeline import DEADLINE_ELAPSED, Evaluation
from sluice.core.actions.plan import rows_counted
from sluice.core.actions.stage import (
    NOTHING_REMEMBERED,
    ActionContext,
    ActionSeen,
    RememberedAction,
    StageResult,
    inspect,
)
from sluice.core.foundation.canonical import hex_of, wire_int
from sluice.core.registry.registry_entries import collect_hashes
from sluice.core.state.acknowledgement import NOTHING as NO_FLAGS
from sluice.core.state.acknowledgement import acknowledgement, advisory, flags_of
from sluice.core.state.recent_retrieval import ReadSoFar
from sluice.core.state.session import totals_of

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from sluice.core.actions.stage import ActionPlan
    from sluice.core.state.acknowledgement import Acknowledgement
    from sluice.core.state.session import Who
    from sluice.core.state.session_view import SessionView
    from sluice.detection.call_inspection import Inspection
    from sluice_topics.records import ProposedAction


def assess(plan: ActionPlan, action: ProposedAction, seen: ActionSeen, arrived_at_ms: int) -> ActionContext:
    """The context of an action, on what was seen of its session: of what gates remember, only what the
    bundle's own do."""
    if seen.remembered:
        seen = seen_by(seen, plan.bundle.stages)
    inspection, most = None, plan.rows_upper_bound
    rows = rows_counted(plan.tool, action.rows_affected, most)
    if rows == 0:
        rows, inspection = _rows(plan, action)
    return ActionContext(
        plan,
        action,
        seen,
        arrived_at_ms,
        plan.registry.find_freezes(plan.tenant, action.agent_id, action.session_id),
        rows,
        plan.tightened or rows > most,
        acknowledgement(seen.flags, action.acknowledged_flags) if seen.flags else NO_FLAGS,
        inspection,
    )


def _rows(plan: ActionPlan, action: ProposedAction) -> tuple[int, Inspection]:
    """What an action counts for that is trusted to change nothing, and what was read to tell: all the same
    unknown for a call that reads as a change."""
    inspection = inspect(plan, action)
    return plan.rows_upper_bound if inspection.changes else 0, inspection


def used_entries(context: ActionContext) -> dict[str, str]:
    """ "kind/id@revision" to hash of every registry entry that the context rests on."""
    return context.plan.entries | collect_hashes(*context.freezes)


GATE = "registration"
DEADLINE = "deadline"


def unregistered(context: ActionContext) -> Evaluation | None:
    """The evaluation of an action that no gate needs to look at; None for one that the gates judge."""
    missing = _missing(context)
    if missing is None:
        return None
    evaluation = Evaluation()
    _object(evaluation, context.plan.mode, GATE, StageResult("block", missing))
    return evaluation


def _missing(context: ActionContext) -> str | None:
    if context.plan.agent is None:
        return f"unknown_agent: {context.action.agent_id}"
    asked_for = context.plan.bundle_asked_for
    if not context.plan.granted:
        return None if context.plan.mode == "standard" else _not_granted(context)
    return None if asked_for == context.plan.bundle.id else f"unknown_bundle: {asked_for}"


def object_to(context: ActionContext, evaluation: Evaluation, waited_ms: int) -> None:
    """Make of what the gates found what it comes to under a bundle that is not the agent's, and too late."""
    if evaluation.outcome == "BLOCK":
        return
    if context.plan.agent is not None and not context.plan.granted:
        _object(evaluation, context.plan.mode, GATE, StageResult("block", _not_granted(context)))
    object_to_lateness(context, evaluation, waited_ms)


def object_to_lateness(context: ActionContext, evaluation: Evaluation, waited_ms: int) -> None:
    """The same of an action that comes too late, and of nothing else."""
    if context.action.deadline_ms is None or evaluation.outcome == "BLOCK":
        return
    late = lateness(context.action, waited_ms)
    if late is not None:
        _object(evaluation, context.plan.mode, DEADLINE, late)


def lateness(action: ProposedAction, waited_ms: int) -> StageResult | None:
    """What speaks against an action that has lain for so long; None while it is in time."""
    deadline_ms = action.deadline_ms
    if deadline_ms is None or waited_ms < deadline_ms:
        return None
    reason = f"{DEADLINE_ELAPSED}: after {waited_ms} ms, the caller waits {deadline_ms} ms"
    detail = {"deadline_ms": wire_int(deadline_ms), "waited_ms": wire_int(waited_ms)}
    return StageResult("block", reason, detail)


def _not_granted(context: ActionContext) -> str:
    return f"bundle_not_granted: {context.plan.bundle_asked_for}"


def _object(evaluation: Evaluation, mode: str, gate: str, against: StageResult) -> None:
    """In standard an escalation that is there already keeps its reason."""
    evaluation.list_gate(gate, against, 0)
    if mode == "high_stakes":
        evaluation.settle("BLOCK", against.reason)
    elif evaluation.outcome == "ALLOW":
        evaluation.settle("ESCALATE", against.reason)


_MODE_ABSENT = {
    "source": "sluice.mode",
    "text": "no mode was read_declaration: decided as high_stakes",
    "severity": "info",
}


def remarks(context: ActionContext) -> list[dict[str, Any]]:
    """On an absent mode, totals that are not the session's, and flags that were not acknowledged.

    They are advisories about the input itself, for people, and change no decision (seed 002).
    """
    action = context.action
    found = [] if action.mode else [_MODE_ABSENT]
    rows, actions = action.aggregate_rows_affected, action.aggregate_action_count
    if rows is not None and rows != context.seen.rows:
        found.append(_not_ours("aggregateRowsAffected", rows, context.seen.rows))
    if actions is not None and actions != context.seen.actions:
        found.append(_not_ours("aggregateActionCount", actions, context.seen.actions))
    if context.flags.outstanding:
        found.append(advisory(context.flags.outstanding))
    return found


def _not_ours(name: str, claimed: int, ours: int) -> dict[str, Any]:
    text = f"the caller's {name} is {claimed}, the session's is {ours}; the session's counts"
    return {"source": "sluice.session", "text": text, "severity": "warn"}


def read_seen(view: SessionView, owner: Who, action: ProposedAction) -> ActionSeen:
    """From the session, for an action of `owner`."""
    account = view.account(owner.tenant)
    if account is None:
        return ActionSeen(0, 0, None, view.has_room(owner), {}, None)
    known = view.action(owner, action.action_id)
    return ActionSeen(
        account.rows,
        account.actions,
        None if known is None else RememberedAction(known.digest, known.offset, known.mark),
        known is not None or view.has_room(owner),
        view.served_flags(owner, account),
        account.dispute,
        view.remembered_by_gates(owner, account),
        account.read_so_far(),
    )


def seen_by(seen: ActionSeen, gates: Container[str]) -> ActionSeen:
    """The same, of what gates remember only what these do."""
    remembered = {name: one for name, one in seen.remembered.items() if name in gates}
    return seen._replace(remembered=remembered)


def recorded(seen: ActionSeen, flags: Acknowledgement, counted: int | None) -> dict[str, Any]:
    """The verdict's `session`. `flags` are those seen, parted by what the action acknowledges.

    The totals after follow from those before: an action that is carried out adds its `counted` rows and
    itself, whether it can be remembered or not; None is for one that adds nothing. A dispute is named where
    there is one, what gates remember where they do, and what was read where something was.
    """
    known, before = seen.known, totals_of(seen.rows, seen.actions)
    values: dict[str, Any] = {
        "before": before,
        "after": before if counted is None else totals_of(seen.rows + counted, seen.actions + 1),
        "known": None
        if known is None
        else {"digest": f"sha256:{known.digest}", "offset": known.offset, "mark": known.mark},
        "room": seen.room,
        "flags": {"acknowledged": list(flags.acknowledged), "outstanding": list(flags.outstanding)},
    }
    if seen.dispute is not None:
        values["disputed"] = seen.dispute
    if seen.remembered:
        values["remembered"] = seen.remembered
    if seen.read:
        values["read"] = {kind: one._asdict() for kind, one in seen.read.items()}
    return values


def recorded_seen(verdict: Mapping[str, Any]) -> ActionSeen:
    """From a verdict: the way back of `recorded`."""
    session = verdict["session"]
    before, known = session["before"], session["known"]
    return ActionSeen(
        int(before["aggregateRowsAffected"]),
        before["aggregateActionCount"],
        None if known is None else RememberedAction(hex_of(known["digest"]), known["offset"], known["mark"]),
        session["room"],
        flags_of(session["flags"]),
        session.get("disputed"),
        session.get("remembered") or NOTHING_REMEMBERED,
        {kind: ReadSoFar(**one) for kind, one in (session.get("read") or {}).items()},
    )
