"""From what the stages found to the Verdict record, field by field as sluice_topics/records/verdicts.py has
it.

Mode and enforcement decide what a finding does (product.md, "Mode is not enforcement"): the caller's mode
says who is held up by a verdict, the operator's enforcement whether the gates may hold up anyone. Shadow
publishes ALLOW and stores the real outcome. Records are plain dicts for speed.
"""

from __future__ import annotations

from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.core.actions.assessment import recorded, remarks, used_entries
from sluice.core.foundation.arrival import verdict_id
from sluice.core.foundation.canonical import digest_alike, hex_of, wire_int
from sluice.core.foundation.chain import OutRecord
from sluice.core.foundation.clock import rfc3339
from sluice.core.state.reservations import Sighting, count_only, reserve, share_id
from sluice_topics.catalog import VERDICTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluice.core.actions.pipeline import Evaluation
    from sluice.core.actions.stage import ActionContext, ActionPlan
    from sluice.core.foundation.arrival import Arrival
    from sluice.core.state.session_view import SessionView
    from sluice_topics.records import ProposedAction

VERDICT_OF = {"ALLOW": "allowed", "BLOCK": "denied", "ESCALATE": "needs_human"}
_MARK_SEPARATOR = "/"


class Ruling(NamedTuple):
    """`outcome` is what is published; `shadow` the real one where enforcement is shadow, else None; `carried`
    whether the caller will carry the action out; `waits` whether someone waits for a person. The others
    follow: `real` is what the gates found, `mark` both outcomes as the session remembers them, `autonomy` the
    state of the autonomy checkpoint (seed 002)."""

    outcome: str
    shadow: str | None
    carried: bool
    waits: bool
    real: str
    mark: str
    autonomy: str

    def stricter(self, real: str, mode: str) -> Ruling:
        """The ruling with another real outcome, under the same enforcement."""
        return ruling_of(real, None, mode) if self.shadow is None else ruling_of(self.outcome, real, mode)


def rule(real: str, plan: ActionPlan) -> Ruling:
    """What a real outcome becomes under the action's mode and its tenant's enforcement."""
    if plan.org.enforcement == "shadow":
        return ruling_of("ALLOW", real, plan.mode)
    return ruling_of(real, None, plan.mode)


def repeated(mark: str, mode: str) -> Ruling:
    """The ruling that a repeat of a remembered action gets again."""
    outcome, _, shadow = mark.partition(_MARK_SEPARATOR)
    return ruling_of(outcome, shadow or None, mode)


@cache
def ruling_of(outcome: str, shadow: str | None, mode: str) -> Ruling:
    """By the published outcome, the one that shadow mode hides, and the caller's mode."""
    held_up = mode == "high_stakes" and outcome != "ALLOW"
    real, mark = (outcome, outcome) if shadow is None else (shadow, f"{outcome}{_MARK_SEPARATOR}{shadow}")
    autonomy = "enforced" if held_up else "observed"
    waits = held_up and outcome == "ESCALATE"
    return Ruling(outcome, shadow, not held_up, waits, real, mark, "pass" if real == "ALLOW" else autonomy)


def sighting_of(context: ActionContext, digest: str, offset: int) -> Sighting:
    """An action as its session counts it; `digest` and `offset` are those of the input that proposed it."""
    plan, action_id = context.plan, context.action.action_id
    most = plan.bundle.outcomes.unsigned_factor
    return Sighting(plan.owner, action_id, hex_of(digest), offset, context.rows, most, plan.reads)


def count(view: SessionView, seen: Sighting, ruling: Ruling, *, known: bool, room: bool) -> None:
    """Count an action that comes for the first time; carried out, it counts whatever else is wrong with it,
    and what its tool returns is read.

    `known`: another action is remembered under its id; `room`: it can be remembered.
    """
    other = view.action(seen.owner, seen.action_id) if known else None
    if other is not None:
        share_id(view, seen, other, carried=ruling.carried)
    elif room:
        reserve(view, seen, ruling.mark, carried=ruling.carried)
    elif ruling.carried:
        count_only(view, seen)
    if seen.reads is not None and ruling.carried:
        view.remember_read(seen.owner, "external", seen.reads)


SCHEMA = "sluice/verdict/v1"
NOT_RUN = {
    "source": "sluice.checkpoints",
    "text": "front, integrity and back are observed only: no check of content or reasoning ran",
    "severity": "info",
}
RERUN_FIELDS = (
    "input",
    "bundle_hash",
    "registry_hashes",
    "stages",
    "session",
    "model_outputs",
    "outcome",
    "shadowOutcome",
    "blockReason",
    "duplicate_of",
    "tier",
    "mode",
    "enforcement",
    "waited_ms",
    "gateResults",
    "rule_results",
    "evidence_refs",
    "obligations",
    "rows_reserved",
    "advisories",
    "signature",
)
"""What a rerun must get again, in the hash's order; the record's other fields follow from these.

`waited_ms` is there where the caller gave a deadline, `signature` where one was verified.
"""
_VALUES = itemgetter(*RERUN_FIELDS[:-1])
_VALUES_WITHOUT_DEADLINE = itemgetter(*(name for name in RERUN_FIELDS[:-1] if name != "waited_ms"))
_CHECKPOINTS = {
    autonomy: {"front": "observed", "autonomy": autonomy, "integrity": "observed", "back": "observed"}
    for autonomy in ("pass", "observed", "enforced")
}
_MICROSECOND_NS = 1000
_MILLISECOND_US = 1000


def ids_of(action: ProposedAction) -> dict[str, Any]:
    """The fields by which a verdict names its action."""
    return {
        "action_id": action.action_id,
        "agent_id": action.agent_id,
        "session_id": action.session_id,
        "traceId": action.trace_id,
        "request_id": action.request_id,
    }


NO_IDS = dict.fromkeys(("action_id", "agent_id", "session_id", "tenant_id", "traceId", "request_id"))
"""The same of an action that was not read."""


class VerdictForm(NamedTuple):
    """A verdict's record: the name of its model, and the fields that its hash covers in addition to
    RERUN_FIELDS."""

    kind: str
    hashed: tuple[str, ...] = ()


FIRST = VerdictForm("Verdict")
GRANTED = VerdictForm(FIRST.kind, ("grant",))
"""Of an action that a standing grant let through."""


def verdict_record(
    arrival: Arrival,
    about: dict[str, Any],
    evaluation: Evaluation,
    ruling: Ruling,
    subject: str,
    form: VerdictForm = FIRST,
) -> OutRecord:
    """The verdict without its place in the chain.

    `form`: another one for a verdict that answers an approval.

    `about`: by wire names what the verdict says in addition to the stages' evaluation and its ruling, which
    are all of the fields that have no value here; its advisories follow those of the stages.

    `rerun_hash` is over the canonical form of the list of the values of RERUN_FIELDS, gateResults without
    durations: all inputs of the decision and the decision. Raises CanonicalError when a stage's detail is no
    JSON value.
    """
    body = {
        "schema": SCHEMA,
        "verdict_id": verdict_id(arrival.decision_id),
        "verdict": VERDICT_OF[ruling.outcome],
        "outcome": ruling.outcome,
        "shadowOutcome": ruling.shadow,
        "tier": None,
        "blockReason": evaluation.reason,
        "escalationId": None,
        "duplicate_of": None,
        "gateResults": evaluation.gates,
        "rule_results": evaluation.rules,
        "evidence_refs": evaluation.evidence,
        "checkpoints": _CHECKPOINTS[ruling.autonomy],
        "obligations": evaluation.obligations,
        "rows_reserved": 0,
        "model_outputs": evaluation.model_outputs,
        "decided_at": rfc3339(arrival.timestamp_ms),
        "input": arrival.coordinates(),
        **about,
        "advisories": [*evaluation.advisories, *about["advisories"], NOT_RUN],
    }
    if evaluation.integrity is not None or not CONTENT.keys().isdisjoint(about.get("stages", ())):
        _add_checkpoints(body, evaluation, ruling)
    body["advisories"] = [
        {"id": f"advisory:{arrival.decision_id}:{number}", **one}
        for number, one in enumerate(body["advisories"])
    ]
    values = (_VALUES if "waited_ms" in body else _VALUES_WITHOUT_DEADLINE)(body)
    if arrival.signature is not None and (signature := arrival.signature.recorded()) is not None:
        body["signature"] = signature
        values += (signature,)
    if form.hashed:
        values += tuple(body[name] for name in form.hashed)
    body["rerun_hash"], alike = digest_alike(values)
    for gate, duration_ns in zip(evaluation.gates, evaluation.durations_ns, strict=True):
        us = duration_ns // _MICROSECOND_NS
        # Whole ones are integers: RFC 8785 writes 1, not 1.0.
        gate["durationMs"] = us / _MILLISECOND_US if us % _MILLISECOND_US else us // _MILLISECOND_US
    return OutRecord(VERDICTS, form.kind, body, subject, alike=alike)


CONTENT = {"inbound": "front", "outbound": "back"}
"""The gates that serve a checkpoint of content, and which."""
_HOLDS = {"inbound": "what this action carries reads like", "outbound": "what this action sends out holds"}


def _add_checkpoints(body: dict[str, Any], evaluation: Evaluation, ruling: Ruling) -> None:
    """The states of the other checkpoints where a gate served them, and what those of content found."""
    found, left = {}, body["advisories"]
    effect = "observed" if ruling.carried else "enforced"
    if evaluation.integrity not in {None, "unanswered"}:
        objects = evaluation.integrity in {"block", "escalate"}
        found["integrity"] = effect if objects else str(evaluation.integrity)
    for one in evaluation.gates:
        checkpoint, told = CONTENT.get(one["gate"]), one["detail"]
        if checkpoint is None or checkpoint not in told:
            continue
        found[checkpoint] = effect if told[checkpoint] == "enforced" else told[checkpoint]
        left[-1:-1] = [_advice(one["gate"], text) for text in _told(one["gate"], told)]
    body["checkpoints"] = body["checkpoints"] | found
    idle = [name for name in ("front", "integrity", "back") if name not in found]
    left[-1:] = [{**NOT_RUN, "text": _not_run(idle)}] if idle else []


def _not_run(idle: list[str]) -> str:
    together = ", ".join(idle[:-1]) + " and " + idle[-1] if len(idle) > 1 else idle[0]
    are = "are" if len(idle) > 1 else "is"
    return f"{together} {are} observed only: no such check ran"


def _told(gate: str, detail: dict[str, Any]) -> Iterator[str]:
    """What a checkpoint of content objects to, and what it could not judge to its end."""
    kinds = [one["kind"] for one in detail.get("findings", ())]
    if judged := detail.get("judged"):
        kinds += judged["categories"]
    if kinds and detail[CONTENT[gate]] != "pass":
        yield f"{_HOLDS[gate]}: {', '.join(dict.fromkeys(kinds))}"
    if unjudged := detail.get("unjudged"):
        yield f"{CONTENT[gate]} was not judged to its end: {unjudged}"


def _advice(gate: str, text: str) -> dict[str, Any]:
    return {"source": f"sluice.{gate}", "text": text, "severity": "warn"}


def _entries_used(arrival: Arrival, context: ActionContext) -> dict[str, str]:
    used = used_entries(context) if context.freezes else context.plan.entries
    return used if arrival.signature is None else arrival.signature.entries(used)


def about_action(arrival: Arrival, context: ActionContext, counted: int | None) -> dict[str, Any]:
    """What the verdict says of the action, its policy and its session; `counted` as in `recorded`."""
    action = context.action
    about: dict[str, Any] = {
        **ids_of(action),
        **context.plan.told,
        "registry_hashes": _entries_used(arrival, context),
        "advisories": remarks(context),
        "session": recorded(context.seen, context.flags, counted),
        "rows_reserved": wire_int(counted or 0),
    }
    if action.deadline_ms is not None:
        about["waited_ms"] = arrival.waited_ms
    return about
