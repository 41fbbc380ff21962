"""From what the stages found to the Verdict record, field by field as sluice_topics/records/verdicts.py has
it.

Mode and enforcement decide what a finding does (product.md, "Mode is not enforcement"): the caller's mode
says who is held up by a verdict, the operator's enforcement whether the gates may hold up anyone. Shadow
publishes ALLOW and stores the real outcome. Records are plain dicts for speed.
"""

from __future__ import annotations

import re
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.core.actions.stage import ContentGate
from sluice.core.foundation.canonical import MAX_SAFE_INTEGER, digest_alike, extract_hex, wire_int
from sluice.core.foundation.chain import OutRecord
from sluice.core.foundation.clock import rfc3339
from sluice.core.foundation.input_record import verdict_id
from sluice.core.foundation.sealed_input import seal_outputs
from sluice.core.registry.registry_entries import ToolReturns, collect_hashes
from sluice.core.state.acknowledgement import advisory, read_flags
from sluice.core.state.limit_usage import LimitSeen
from sluice.core.state.recent_retrieval import ReadTally
from sluice.core.state.remembered import make_known_action
from sluice.core.state.reservations import ActionUsage
from sluice.core.state.seen_values import read_recorded_values
from sluice.core.state.session_view import NOTHING_REMEMBERED, ActionSeen
from sluice_topics.catalog import VERDICTS
from sluice_topics.values import collect_values, fingerprint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.core.actions.pipeline import Evaluation
    from sluice.core.actions.stage import ActionContext, ActionPlan
    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.foundation.sealed_input import OpenedInput
    from sluice.core.state.acknowledgement import Acknowledgement
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
        return find_ruling(real, None, mode) if self.shadow is None else find_ruling(self.outcome, real, mode)


def rule(real: str, plan: ActionPlan) -> Ruling:
    """What a real outcome becomes under the action's mode and its tenant's enforcement."""
    if plan.org.enforcement == "shadow":
        return find_ruling("ALLOW", real, plan.mode)
    return find_ruling(real, None, plan.mode)


def rule_again(mark: str, mode: str) -> Ruling:
    """The ruling that a repeat of a remembered action gets again."""
    outcome, _, shadow = mark.partition(_MARK_SEPARATOR)
    return find_ruling(outcome, shadow or None, mode)


@cache
def find_ruling(outcome: str, shadow: str | None, mode: str) -> Ruling:
    """By the published outcome, the one that shadow mode hides, and the caller's mode."""
    held_up = mode == "high_stakes" and outcome != "ALLOW"
    real, mark = (outcome, outcome) if shadow is None else (shadow, f"{outcome}{_MARK_SEPARATOR}{shadow}")
    autonomy = "enforced" if held_up else "observed"
    waits = held_up and outcome == "ESCALATE"
    return Ruling(outcome, shadow, not held_up, waits, real, mark, "pass" if real == "ALLOW" else autonomy)


def make_usage(context: ActionContext, digest: str, offset: int) -> ActionUsage:
    """An action as its session counts it; `digest` and `offset` are those of the input that proposed it."""
    plan, action = context.plan, context.action
    own: tuple[bytes, ...] = ()
    returns = plan.returns
    if returns is None and plan.values_key is not None and _is_query(context):
        returns = ToolReturns(plan.tool_name, trusted=False, stated=False)
    if plan.values_key is not None and plan.returns is not None and plan.returns.trusted:
        own = tuple(fingerprint(plan.values_key, value) for value in collect_values(action.parameters).values)
    return ActionUsage(
        plan.owner,
        action.action_id,
        digest.removeprefix("sha256:"),
        offset,
        context.rows,
        plan.bundle.outcomes.unsigned_factor,
        plan.reads,
        returns,
        own,
    )


def _is_query(context: ActionContext) -> bool:
    """Whether a call that changes a database may answer with what stands there."""
    writes = "DATABASE_WRITE" in context.plan.types
    return writes and any(map(_ANSWERS.search, context.inspect().texts))


_ANSWERS = re.compile(
    r"(?i)\b(?:select|returning|output)\b"
    r"|^\W*(?:with|explain|show|describe|call|exec|execute|pragma|fetch|values|table|copy)\b"
)
"""What an SQL statement has that returns rows."""


SCHEMA = "sluice/verdict/v1"
NOT_RUN = {
    "source": "sluice.checkpoints",
    "text": "front, integrity and back are observed only: no check of content or reasoning ran",
    "severity": "info",
}
_ALWAYS = (
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
)
_FOUND = (
    "gateResults",
    "rule_results",
    "evidence_refs",
    "obligations",
    "rows_reserved",
    "advisories",
)
RERUN_FIELDS = (*_ALWAYS, "waited_ms", *_FOUND, "signature")
"""What a rerun must get again, in the hash's order; the record's other fields follow from these.

`waited_ms` is there where the caller gave a deadline, `signature` where one was verified.
"""
_VALUES = itemgetter(*_ALWAYS, "waited_ms", *_FOUND)
_VALUES_WITHOUT_DEADLINE = itemgetter(*_ALWAYS, *_FOUND)
_CHECKPOINTS = {
    autonomy: {"front": "observed", "autonomy": autonomy, "integrity": "observed", "back": "observed"}
    for autonomy in ("pass", "observed", "enforced")
}
_MICROSECOND_NS = 1000
_MILLISECOND_US = 1000


def collect_ids(action: ProposedAction) -> dict[str, Any]:
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


def make_verdict_record(
    input_record: InputRecord,
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
    decision_id = input_record.decision_id
    body = {
        "schema": SCHEMA,
        "verdict_id": verdict_id(decision_id),
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
        "decided_at": rfc3339(input_record.timestamp_ms),
        "input": input_record.coordinates(),
        **about,
        "advisories": [*evaluation.advisories, *about["advisories"], NOT_RUN],
    }
    if evaluation.integrity is not None or not ContentGate.by_name.keys().isdisjoint(about.get("stages", ())):
        _add_checkpoints(body, evaluation, ruling)
    advisories = body["advisories"]
    for number, item in enumerate(advisories):
        advisories[number] = {"id": f"advisory:{decision_id}:{number}", **item}
    if input_record.opened is not None:
        seal_verdict(body, evaluation, input_record.opened)
    values = (_VALUES if "waited_ms" in body else _VALUES_WITHOUT_DEADLINE)(body)
    if input_record.signature is not None and (signature := input_record.signature.make_fields()) is not None:
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


PLAIN_SOURCES = frozenset({NOT_RUN["source"], "sluice.core", "sluice.mode", "sluice.session"})
"""Of advisories that quote nothing of an action's parameters."""


def seal_verdict(body: dict[str, Any], evaluation: Evaluation, opened: OpenedInput) -> None:
    """Seal what the gates made of an action with opened values, in the evaluation too: whoever goes on with
    it writes it somewhere else."""
    body["blockReason"] = evaluation.reason = opened.seal_reason(evaluation.reason, "blockReason")
    for number, gate in enumerate(evaluation.gates):
        if gate["failureReason"]:
            location = "gateResults", number, "failureReason"
            gate["failureReason"] = opened.seal_reason(gate["failureReason"], *location)
        if gate["detail"]:
            gate["detail"] = opened.seal_object(gate["detail"], "gateResults", number, "detail")
    for number, rule in enumerate(evaluation.rules):
        if rule["passed"] is None:
            reason = opened.seal_reason(rule.get("reason"), "rule_results", number, "reason")
            evaluation.rules[number] = {**rule, "reason": reason}
    seal_outputs(evaluation.model_outputs, opened)
    for number, item in enumerate(body["advisories"]):
        if item["source"] not in PLAIN_SOURCES:
            item["text"] = opened.seal(item["text"], "advisories", number, "text")
    values = body["session"].get("values")
    if values is not None:
        for table in {"values", "uses"} & values.keys():
            values[table] = {
                opened.seal(path, "session", "values", table): of for path, of in values[table].items()
            }


def _add_checkpoints(body: dict[str, Any], evaluation: Evaluation, ruling: Ruling) -> None:
    """The states of the other checkpoints where a gate served them, and what those of content found."""
    by_code, left = {}, body["advisories"]
    effect = "observed" if ruling.carried else "enforced"
    if evaluation.integrity not in {None, "unanswered"}:
        objects = evaluation.integrity in {"block", "escalate"}
        by_code["integrity"] = effect if objects else str(evaluation.integrity)
    for result in evaluation.gates:
        gate, detail = ContentGate.by_name.get(result["gate"]), result["detail"]
        state = None if gate is None else detail.get(gate.checkpoint)
        if gate is None or state is None:
            continue
        by_code[gate.checkpoint] = effect if state == "enforced" else state
        if state != "pass" or "unjudged" in detail:
            left[-1:-1] = [_advice(gate.name, text) for text in gate.remark(detail)]
    body["checkpoints"] = body["checkpoints"] | by_code
    left[-1:] = _idle(frozenset(by_code))


@cache
def _idle(served: frozenset[str]) -> list[dict[str, Any]]:
    """The advisory on the checkpoints of content and reasoning that no gate served, if there are any."""
    idle = [name for name in ("front", "integrity", "back") if name not in served]
    if not idle:
        return []
    together = ", ".join(idle[:-1]) + " and " + idle[-1] if len(idle) > 1 else idle[0]
    are = "are" if len(idle) > 1 else "is"
    return [{**NOT_RUN, "text": f"{together} {are} observed only: no such check ran"}]


def _advice(gate: str, text: str) -> dict[str, Any]:
    return {"source": f"sluice.{gate}", "text": text, "severity": "warn"}


def _entries_used(input_record: InputRecord, context: ActionContext) -> dict[str, str]:
    used = collect_entries(context) if context.freezes else context.plan.entries
    if context.observed.mandate is not None:
        used = used | context.observed.mandate["entries"]
    return used if input_record.signature is None else input_record.signature.entries(used)


_NO_REMARKS: tuple[dict[str, Any], ...] = ()


def describe_action(input_record: InputRecord, context: ActionContext, counted: int | None) -> dict[str, Any]:
    """What the verdict says of the action, its policy and its session; `counted` as in `recorded`."""
    action, plan = context.action, context.plan
    reserved = counted or 0
    more = context.freezes or input_record.signature is not None or context.observed.mandate is not None
    is_stated = action.aggregate_rows_affected is not None or action.aggregate_action_count is not None
    plain = action.mode is not None and not is_stated and not context.flags.outstanding
    about: dict[str, Any] = {
        "action_id": action.action_id,
        "agent_id": action.agent_id,
        "session_id": action.session_id,
        "traceId": action.trace_id,
        "request_id": action.request_id,
        **plan.verdict_fields,
        "registry_hashes": _entries_used(input_record, context) if more else plan.entries,
        "advisories": _NO_REMARKS if plain else remarks(context),
        "session": record_session(context.observed, context.flags, counted),
        "rows_reserved": reserved if reserved <= MAX_SAFE_INTEGER else str(reserved),
    }
    if action.deadline_ms is not None:
        about["waited_ms"] = input_record.waited_ms
    return about


def collect_entries(context: ActionContext) -> dict[str, str]:
    """ "kind/id@revision" to hash of every registry entry that the context rests on."""
    return context.plan.entries | collect_hashes(*context.freezes)


_MODE_ABSENT = {
    "source": "sluice.mode",
    "text": "no mode was declared: decided as high_stakes",
    "severity": "info",
}


def remarks(context: ActionContext) -> list[dict[str, Any]]:
    """On an absent mode, totals that are not the session's, and flags that were not acknowledged.

    They are advisories about the input itself, for people, and change no decision (seed 002).
    """
    action = context.action
    advisories = [] if action.mode else [_MODE_ABSENT]
    rows, actions = action.aggregate_rows_affected, action.aggregate_action_count
    if rows is not None and rows != context.observed.rows:
        advisories.append(_not_ours("aggregateRowsAffected", rows, context.observed.rows))
    if actions is not None and actions != context.observed.actions:
        advisories.append(_not_ours("aggregateActionCount", actions, context.observed.actions))
    if context.flags.outstanding:
        advisories.append(advisory(context.flags.outstanding))
    return advisories


def _not_ours(name: str, claimed: int, ours: int) -> dict[str, Any]:
    text = f"the caller's {name} is {claimed}, the session's is {ours}; the session's counts"
    return {"source": "sluice.session", "text": text, "severity": "warn"}


def record_session(observed: ActionSeen, flags: Acknowledgement, counted: int | None) -> dict[str, Any]:
    """The verdict's `session`. `flags` are those seen, parted by what the action acknowledges.

    The totals after follow from those before: an action that is carried out adds its `counted` rows and
    itself, whether it can be remembered or not; None is for one that adds nothing. A dispute is named where
    there is one, what gates remember where they do, what was read where something was, and the mandate that
    counts where there is one.
    """
    action, rows, actions = observed.previous, observed.rows, observed.actions
    before: dict[str, Any] = {"aggregateRowsAffected": rows, "aggregateActionCount": actions}
    after = before
    if counted is not None:
        after = {"aggregateRowsAffected": rows + counted, "aggregateActionCount": actions + 1}
    if rows + (counted or 0) > MAX_SAFE_INTEGER:
        before["aggregateRowsAffected"] = wire_int(rows)
        after["aggregateRowsAffected"] = wire_int(rows + (counted or 0))
    values: dict[str, Any] = {
        "before": before,
        "after": after,
        "known": None
        if action is None
        else {"digest": f"sha256:{action.digest}", "offset": action.offset, "mark": action.mark},
        "room": observed.has_capacity,
        "flags": {"acknowledged": list(flags.acknowledged), "outstanding": list(flags.outstanding)},
    }
    if observed.dispute is not None:
        values["disputed"] = observed.dispute
    if observed.remembered:
        values["remembered"] = observed.remembered
    if observed.mandate is not None:
        values["mandate"] = observed.mandate
    elif observed.mandates:
        values["mandates"] = observed.mandates
    if observed.read:
        values["read"] = {kind: tally._asdict() for kind, tally in observed.read.items()}
    if observed.values is not None:
        values["values"] = observed.values.make_fields()
    if observed.limits is not None:
        values["limits"] = {limit: value.make_fields() for limit, value in observed.limits.items()}
    return values


def read_recorded_seen(verdict: Mapping[str, Any]) -> ActionSeen:
    """From a verdict: the way back of `recorded`."""
    session = verdict["session"]
    before, previous = session["before"], session["known"]
    return ActionSeen(
        int(before["aggregateRowsAffected"]),
        before["aggregateActionCount"],
        None
        if previous is None
        else make_known_action(extract_hex(previous["digest"]), previous["offset"], previous["mark"]),
        session["room"],
        read_flags(session["flags"]),
        session.get("disputed"),
        session.get("remembered") or NOTHING_REMEMBERED,
        {kind: ReadTally(**tally) for kind, tally in (session.get("read") or {}).items()},
        session.get("mandate"),
        session.get("mandates") or 0,
        None if session.get("values") is None else read_recorded_values(session["values"]),
        read_recorded_limits(session),
    )


def read_recorded_limits(session: Mapping[str, Any]) -> dict[str, LimitSeen] | None:
    """What a verdict's `session` says of limits; None for nothing."""
    recorded = session.get("limits")
    return (
        None if recorded is None else {limit: LimitSeen(**observed) for limit, observed in recorded.items()}
    )
