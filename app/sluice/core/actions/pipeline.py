"""The action pipeline: the bundle's stages in order, fail-fast, each timed (product.md, "action pipeline").

A generator without I/O: a stage's Request is yielded and the pipeline resumed with the Answer. BLOCK ends it;
ESCALATE goes on to Gate 4, which says who must agree. Where the caller's own word made the action stricter,
or a gate escalates for what the parameters hold, the stages between that need no answer from outside may
still BLOCK: else a caller could claim or write so much that a person is asked for what is denied without it.

Of an action that a person has approved every stage runs: what escalates is what the person agreed to, and a
BLOCK is one all the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sluice.core.actions.stage import Gate, StageResult
from sluice.core.foundation.requests import ask
from sluice.core.policy.bundles import LAST_STAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from sluice.core.actions.stage import ActionContext, Asking, Stage
    from sluice.core.foundation.requests import Answer, Request

_WORST_FIRST = ("block", "escalate", "nudged", "observed", "unanswered", "pass")
_JUDGED = {"reasoning", "rules"}
"""What the detail of a gate that analyses has where a model has judged."""
BUDGET_EXCEEDED = "budget_exceeded"
INCONCLUSIVE = "inconclusive"


@dataclass(slots=True)
class Evaluation:
    """What the stages made of an action.

    `integrity`: the worst that the stages of that checkpoint came to: "block", "escalate", "nudged" or
    "observed" (an objection that the bundle lets pass), "unanswered" or "pass"; None: none of them asked.
    `outcome` is the real one, before shadow mode. `gates` are gateResults without durationMs, `durations_ns`
    beside them: durations are the only part of a decision that a rerun does not repeat.
    """

    outcome: str = "ALLOW"
    reason: str | None = None
    gates: list[dict[str, Any]] = field(default_factory=list)
    durations_ns: list[int] = field(default_factory=list)
    rules: list[dict[str, Any]] = field(default_factory=list)
    evidence: list[str] = field(default_factory=list)
    entries: dict[str, str] = field(default_factory=dict)
    obligations: list[str] = field(default_factory=list)
    advisories: list[dict[str, Any]] = field(default_factory=list)
    model_outputs: list[dict[str, Any]] = field(default_factory=list)
    integrity: str | None = None

    def judge_integrity(self, found: str) -> None:
        """Take what a stage of that checkpoint found."""
        self.integrity = min(self.integrity or "pass", found, key=_WORST_FIRST.index)

    def settle(self, outcome: str, reason: str | None) -> None:
        """Take an outcome and its reason."""
        self.outcome, self.reason = outcome, reason

    def list_gate(self, gate: str, result: StageResult, duration_ns: int) -> None:
        """Enter a stage that ran."""
        outcome, reason, detail, evidence, obligations, rules, entries = result
        passed = outcome == "pass"
        self.gates.append({"gate": gate, "passed": passed, "failureReason": reason, "detail": detail})
        self.durations_ns.append(duration_ns)
        if rules:
            self.rules += rules
        if evidence:
            self.evidence += evidence
        if entries:
            self.entries |= entries
        if obligations:
            self.obligations += obligations


def run(
    stages: tuple[Stage, ...], context: ActionContext, stopwatch: Callable[[], int]
) -> Generator[Request, Answer, Evaluation]:
    """Evaluate the stages on a context. `stopwatch` returns ns."""
    done, waits, blockable = Evaluation(), False, context.tightened
    for stage in stages:
        if context.escalated is not None:
            waits = stage.name != LAST_STAGE
            if waits and not blockable:
                continue
        began = stopwatch()
        step = stage.evaluate(context)
        if not isinstance(step, StageResult):
            found = _unasked(step) if waits else (yield from _answered(step, stage, context, done))
            if found is None:
                continue
            step = found
        done.list_gate(stage.name, step, stopwatch() - began)
        outcome = step.outcome
        if outcome == "block":
            done.settle("BLOCK", step.reason)
            break
        if outcome == "escalate" and not context.approved:
            context.escalated = context.escalated or step.reason or stage.name
            blockable = blockable or getattr(stage, "leaves_denials", False)
            done.settle("ESCALATE", context.escalated)
    return done


def _unasked(asking: Asking) -> StageResult | None:
    """What the stage comes to without asking; None where it needs an answer."""
    try:
        next(asking)
    except StopIteration as ended:
        result: StageResult = ended.value
        return result
    asking.close()
    return None


def _answered(
    asking: Asking, stage: Stage, context: ActionContext, done: Evaluation
) -> Generator[Request, Answer, StageResult]:
    """What the stage comes to; its requests are handed on, and what they were answered is kept."""
    gate, analyses = stage.name, getattr(stage, "analyses", False)
    mode = stage.mode_in(context.bundle) if isinstance(stage, Gate) else "enforce"
    decides = getattr(stage, "decides_unanswered", False)
    try:
        request = next(asking)
        while True:
            answer = yield from ask(gate, request, done.model_outputs)
            if answer.status != "answered" and not decides:
                asking.close()
                if analyses:
                    done.judge_integrity("unanswered")
                missed = unanswered(gate, request, answer, context.mode)
                if missed.outcome == "skip":
                    done.advisories.append(_skipped(gate, request))
                return _under(mode, gate, missed, done)
            request = asking.send(answer)
    except StopIteration as ended:
        result: StageResult = ended.value
        if analyses:
            objects = mode != "enforce" and result.outcome != "pass"
            found = _STATES[mode] if objects else result.outcome
            done.judge_integrity(found if _JUDGED & result.detail.keys() else "unanswered")
        return _under(mode, gate, result, done)


_STATES = {"observe": "observed", "nudge": "nudged"}
_WOULD = {"block": "would deny this action", "escalate": "would ask a person"}


def _under(mode: str, gate: str, found: StageResult, done: Evaluation) -> StageResult:
    """What a result comes to under the mode of the gate's checkpoint: only `enforce` holds an action up. The
    others let it pass, with an advisory; `nudge` also says to the agent what to mind. A missing answer is
    an objection too, of which the detail says all."""
    if mode == "enforce" or found.outcome not in _WOULD:
        return found
    objection = found.reason or gate
    text = f"{gate} {_WOULD[found.outcome]}: {objection}"
    done.advisories.append({"source": f"sluice.{gate}", "text": text, "severity": "warn"})
    if "status" in found.detail:
        return found._replace(outcome="pass", reason=None)
    detail = {**found.detail, "would": found.outcome, "objection": objection}
    if mode == "nudge":
        why = [found.detail.get("reasoning"), *(one["reasoning"] for one in found.detail.get("rules", ()))]
        detail["guidance"] = " ".join([f"{objection}.", *(one for one in why[-1:] if one)])
    return found._replace(outcome="pass", reason=None, detail=detail)


def unanswered(gate: str, request: Request, answer: Answer, mode: str) -> StageResult:
    """What a gate comes to that got no answer: a person decides where there is none to be had; where it is
    late, `standard` goes on and `high_stakes` denies."""
    detail = {"port": request.port, "budget_ms": request.budget_ms, "status": answer.status}
    if answer.status == "unavailable":
        return StageResult("escalate", f"{INCONCLUSIVE}: {gate} got no answer of {request.port}", detail)
    if mode == "high_stakes":
        return StageResult("block", f"{BUDGET_EXCEEDED}: {gate}", detail)
    return StageResult("skip", BUDGET_EXCEEDED, detail)


def _skipped(gate: str, request: Request) -> dict[str, Any]:
    return {
        "source": f"sluice.{gate}",
        "text": f"{gate} was skipped: {request.port} took over {request.budget_ms} ms",
        "severity": "warn",
    }
