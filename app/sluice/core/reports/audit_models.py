"""Decisions that a model shaped: what each was asked for, what it answered, and whether that decided."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sluice.core.foundation.requests import HELD_INPUT
from sluice.core.memory.lineage import PORT as LINEAGE
from sluice.core.policy.bundle_frame import LAST_STAGE
from sluice.core.reports.audit_rows import (
    WHO,
    AuditQuestion,
    AuditRecord,
    AuditRow,
    find_subject,
    read_decision,
)
from sluice.core.reports.gate_marks import mark_gate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

NO_MODELS = frozenset({HELD_INPUT, LINEAGE})
"""Ports that give what the gate itself has stored; no model answers there."""
YES, WITH_OTHERS, NO = "yes", "with others", "no"


class ModelAnswers(AuditQuestion):
    """Every answer of a model that a decision rests on. `decisive`: "yes" where the decision would have been
    milder without the gate that asked, "with others" where other gates objected too, "no" where it had no
    objection, or one that its mode lets pass."""

    name = "models"
    title = "Which decisions did a model shape?"
    own = (*WHO, "subject", "decision", "gate", "port", "status", "said", "decisive", "effect")

    def take(self, record: AuditRecord) -> Iterator[AuditRow]:
        """See AuditQuestion: a row for each answer."""
        outputs = record.fields.get("model_outputs")
        if not outputs or not self.scope.has(record.fields):
            return
        for output in outputs:
            if output.get("port") in NO_MODELS:
                continue
            decisive, effect = judge_effect(record, output)
            yield self.make_row(
                record,
                subject=find_subject(record.fields),
                decision=read_decision(record),
                gate=output.get("gate"),
                port=output.get("port"),
                status=output.get("status"),
                said=_write_answer(output),
                decisive=decisive,
                effect=effect,
            )


def judge_effect(record: AuditRecord, output: Mapping[str, Any]) -> tuple[str, str]:
    """Whether an answer decided, and how, in words."""
    if record.kind == "memory_decision":
        return _judge_memory(record.fields, str(output.get("port")))
    if record.kind == "quality_decision":
        return _judge_item(record.fields)
    return _judge_action(record.fields, str(output.get("gate")))


def _judge_action(fields: Mapping[str, Any], gate: str) -> tuple[str, str]:
    """A denial is the last gate's; that an action waits for a person is the word of every gate that did not
    pass."""
    results = fields.get("gateResults") or ()
    own = [result for result in results if result.get("gate") == gate]
    if not own:
        return NO, "the gate came to no result"
    mark = mark_gate(own[-1])
    effect = str(mark)
    if mark.state != "failed":
        return NO, effect
    failed = list(_list_objecting(results))
    real = fields.get("shadowOutcome") or fields.get("outcome")
    alone = failed[-1] == gate if real == "BLOCK" else set(failed) == {gate}
    if real == "ALLOW":
        return NO, f"{effect}, and a person's approval took precedence"
    return (YES if alone else WITH_OTHERS), f"{effect}: {own[-1].get('failureReason')}"


def _list_objecting(results: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The gates with an objection of their own: the last gate also says those of the gates before it."""
    failed = [result for result in results if result.get("passed") is not True]
    for result in failed:
        repeats = len((result.get("detail") or {}).get("reasons") or ()) == 1 and len(failed) > 1
        if result.get("gate") != LAST_STAGE or not repeats:
            yield str(result.get("gate"))


def _judge_memory(fields: Mapping[str, Any], port: str) -> tuple[str, str]:
    """By the decision's reason, and by the cap that the trust came to."""
    word = "llm_analysis" if port == "analysis" else "similarity"
    reason, action = str(fields.get("reason")), fields.get("shadowAction") or fields.get("action")
    score = fields.get("trustScore") or {}
    bound = [cap for cap in score.get("caps") or () if cap.get("by") == word]
    if word in reason and action != "allow":
        return YES, f"it is the reason: {reason}"
    if bound and score.get("total") == bound[0].get("value"):
        return WITH_OTHERS, f"the trust is its ceiling of {bound[0].get('value')}"
    matches = [item for item in fields.get("findings") or () if str(item.get("id")).startswith(f"{word}.")]
    if matches:
        return WITH_OTHERS, f"its finding counted: {matches[0].get('reason')}"
    return NO, "no objection"


def _judge_item(fields: Mapping[str, Any]) -> tuple[str, str]:
    stages = [stage for stage in fields.get("stages") or () if stage.get("stage") == "content"]
    objection = next((stage for stage in reversed(stages) if stage.get("outcome") != "pass"), None)
    if objection is None:
        return NO, "no objection"
    is_own = str(objection.get("reason")).startswith(("judged", "inconclusive"))
    decides = objection.get("reason") == fields.get("reason")
    return (YES if is_own and decides else WITH_OTHERS if is_own else NO), f"content: {objection['reason']}"


def _write_answer(output: Mapping[str, Any]) -> str:
    """The answer as JSON, and behind it what the port said of it."""
    payload = output.get("payload")
    text = "" if payload is None else json.dumps(payload, ensure_ascii=False, sort_keys=True)
    return "; ".join(part for part in (text, str(output.get("detail") or "")) if part)
