"""The action pipeline: the bundle's stages in order, fail-fast, each timed (product.md, "action pipeline").

A generator without I/O: a stage's Request is yielded and the pipeline resumed with the Answer. BLOCK ends it;
ESCALATE goes on to Gate 4, which says who must agree. Where the caller's own word made the action stricter,
or a gate escalates for what the parameters hold, the stages between that need no answer from outside may
still BLOCK: else a caller could claim or write so much that a person is asked for what is denied without it.

Of an action that a person has approved every stage runs: what escalates is what the person agreed to, and a
BLOCK is one all the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sluice.core.actions.stage import PASSED, StageResult
from sluice.core.foundation.requests import PAUSE, Asker, ask
from sluice.core.policy.bundle_frame import LAST_STAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from sluice.core.actions.stage import ActionContext, Asking, PlannedGate, Stage, StageOutcome
    from sluice.core.foundation.requests import Answer, Request

_WORST_FIRST = ("block", "escalate", "nudged", "observed", "unanswered", "pass")
_JUDGED = {"reasoning", "rules"}
"""What the detail of a gate that analyses has where a model has judged."""
MILDEST_FIRST: tuple[StageOutcome, ...] = ("pass", "skip", "escalate", "block")
BUDGET_EXCEEDED = "budget_exceeded"
DEADLINE_ELAPSED = "deadline_elapsed"
PORT_BUSY = "port_busy"
INCONCLUSIVE = "inconclusive"
_MILLISECOND_NS = 1_000_000
_NOTHING_MORE = PASSED[3:]


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

    def note_dispute(self, dispute: str) -> str:
        """Why an action to which no gate objects needs a person all the same: an outcome of its session is
        disputed. It is listed like a gate."""
        reason = f"outcome_disputed: an outcome of {dispute} that is not signed claims more than it may count"
        self.list_gate("outcomes", StageResult("escalate", reason, {"action_id": dispute}), 0)
        return reason

    def judge_integrity(self, integrity: str) -> None:
        """Take what a stage of that checkpoint found."""
        self.integrity = min(self.integrity or "pass", integrity, key=_WORST_FIRST.index)

    def settle(self, outcome: str, reason: str | None) -> None:
        """Take an outcome and its reason."""
        self.outcome, self.reason = outcome, reason

    def list_gate(self, gate: str, result: StageResult, duration_ns: int) -> None:
        """Enter a stage that ran."""
        outcome, reason, detail = result[:3]
        passed = outcome == "pass"
        self.gates.append({"gate": gate, "passed": passed, "failureReason": reason, "detail": detail})
        self.durations_ns.append(duration_ns)
        self.add(result)

    def add(self, *results: StageResult) -> None:
        """Take what the results of stages have in addition to their outcomes."""
        for result in results:
            if result[3:] != _NOTHING_MORE:
                self.rules += result.rules
                self.evidence += result.evidence
                self.obligations += result.obligations
                self.entries |= result.entries


def run(context: ActionContext, stopwatch: Callable[[], int]) -> Generator[Request, Answer, Evaluation]:
    """Evaluate the gates of the plan on a context. `stopwatch` returns ns."""
    done, blockable = Evaluation(), context.tightened
    more: list[StageResult] = []
    for gate in context.plan.gates:
        name, evaluate, stage, mode, settled, leaves_denials, pauses = gate
        waits = context.escalated is not None and name != LAST_STAGE
        if waits and not (blockable or _speaks(stage)):
            continue
        began = 0
        step: StageResult | Asking | None = settled
        if step is None:
            if pauses and context.pauses:
                yield PAUSE
            began = stopwatch()
            step = evaluate(context)
        if not isinstance(step, StageResult):
            result = (
                _decide_unasked(step)
                if waits
                else (yield from _ask(step, gate, context, done, _Clock(context, stopwatch)))
            )
            if result is None:
                continue
            step = result
        if step.outcome in _WOULD:
            step = _apply_mode(mode, name, step, done)
        outcome, reason, detail = step[:3]
        done.gates.append(
            {"gate": name, "passed": outcome == "pass", "failureReason": reason, "detail": detail}
        )
        done.durations_ns.append(0 if settled else stopwatch() - began)
        more.append(step)
        if outcome == "block":
            done.settle("BLOCK", reason)
            break
        if outcome == "escalate" and not context.approved:
            context.escalated = _join_reasons(context.escalated, stage, reason or name)
            blockable = blockable or leaves_denials
            done.settle("ESCALATE", context.escalated)
    done.add(*more)
    return done


def _speaks(stage: Stage) -> bool:
    """Whether it judges also what waits for a person already."""
    return getattr(stage, "always_speaks", False)


def _join_reasons(earlier: str | None, stage: Stage, reason: str) -> str:
    """Why an action waits: the first reason, and behind it that of a gate that always speaks."""
    if earlier is None:
        return reason
    return f"{earlier}; {reason}" if _speaks(stage) else earlier


def _decide_unasked(asking: Asking) -> StageResult | None:
    """What the stage comes to without asking; None where it needs an answer."""
    try:
        next(asking)
    except StopIteration as ended:
        result: StageResult = ended.value
        return result
    asking.close()
    return None


class _Clock:
    """What is left of a stage's budget over all its questions, and of the caller's deadline. The time that a
    question waited for its turn is not the stage's: else an agent's own load would use the budget up."""

    def __init__(self, context: ActionContext, stopwatch: Callable[[], int]) -> None:
        self._asker = Asker(context.plan.tenant, context.action.agent_id)
        self._due_ns = context.due_ns
        self._now_ns = stopwatch
        self._began_ns = stopwatch()

    def limit_request(self, request: Request) -> Request:
        """The question with the time that is left for it."""
        if request.apart:
            return replace(request, asker=self._asker)
        now_ns, due_ns = self._now_ns(), self._due_ns
        left_ms = max(0, request.budget_ms - (now_ns - self._began_ns) // _MILLISECOND_NS)
        deadline_ms = None if due_ns is None else max(0, (due_ns - now_ns) // _MILLISECOND_NS)
        return replace(request, budget_ms=left_ms, deadline_ms=deadline_ms, asker=self._asker)

    def ask(
        self, gate: str, request: Request, outputs: list[dict[str, Any]]
    ) -> Generator[Request, Answer, Answer]:
        """Ask as `requests.ask` does, within the time that is left."""
        began_ns = self._now_ns()
        answer = yield from ask(gate, self.limit_request(request), outputs)
        spent_ns = self._now_ns() - began_ns
        self._began_ns += spent_ns if request.apart else min(spent_ns, answer.queued_ms * _MILLISECOND_NS)
        return answer


def _ask(
    asking: Asking, planned: PlannedGate, context: ActionContext, done: Evaluation, clock: _Clock
) -> Generator[Request, Answer, StageResult]:
    """What the stage comes to; its requests are handed on, and what they were answered is kept."""
    gate, _, stage, mode, *_ = planned
    analyses = getattr(stage, "analyses", False)
    decides = getattr(stage, "decides_unanswered", False)
    try:
        request = next(asking)
        while True:
            answer = yield from clock.ask(gate, request, done.model_outputs)
            if answer.status != "answered" and not decides:
                asking.close()
                result = judge_unanswered(gate, request, answer, context.plan.mode)
                break
            request = asking.send(answer)
    except StopIteration as ended:
        result = ended.value
    if result.outcome == "skip" and "port" in result.detail:
        done.advisories.append(_record_skipped(gate, result))
    if analyses:
        objects = mode != "enforce" and result.outcome != "pass"
        judged = "status" not in result.detail and _JUDGED & result.detail.keys()
        done.judge_integrity((_STATES[mode] if objects else result.outcome) if judged else "unanswered")
    return result


_STATES = {"observe": "observed", "nudge": "nudged"}
_WOULD = {"block": "would deny this action", "escalate": "would ask a person"}


def _apply_mode(mode: str, gate: str, result: StageResult, done: Evaluation) -> StageResult:
    """What an objection comes to under the gate's mode in the bundle: only `enforce` holds an action up. The
    others let it pass, with an advisory; `nudge` also says to the agent what to mind. A missing answer is
    an objection too, of which the detail says all."""
    if mode == "enforce":
        return result
    objection = result.reason or gate
    text = f"{gate} {_WOULD[result.outcome]}: {objection}"
    done.advisories.append({"source": f"sluice.{gate}", "text": text, "severity": "warn"})
    if "status" in result.detail:
        return result._replace(outcome="pass", reason=None)
    detail = {**result.detail, "would": result.outcome, "objection": objection}
    if mode == "nudge":
        why = [
            result.detail.get("reasoning"),
            *(rule["reasoning"] for rule in result.detail.get("rules", ())),
        ]
        detail["guidance"] = " ".join([f"{objection}.", *(reasoning for reasoning in why[-1:] if reasoning)])
    return result._replace(outcome="pass", reason=None, detail=detail)


def judge_unanswered(gate: str, request: Request, answer: Answer, mode: str) -> StageResult:
    """What a gate comes to that got no answer (docs/decisions/0015-over-budget.md).

    A person decides where there is none to be had. Where the operator's budget is over, `standard` goes on
    and `high_stakes` denies. Where the caller's own deadline is over, or there was no room for the question
    because so many are asked, the action is denied: neither gives a laxer answer than waiting would.
    """
    detail = {"port": request.port, "budget_ms": request.budget_ms, "status": answer.status}
    if answer.status == "unavailable":
        return StageResult("escalate", f"{INCONCLUSIVE}: {gate} got no answer of {request.port}", detail)
    if answer.status == "deadline":
        return StageResult("block", f"{DEADLINE_ELAPSED}: {gate} got no answer in the caller's time", detail)
    if answer.status == "busy":
        return StageResult("block", f"{PORT_BUSY}: {gate} could not ask {request.port} in time", detail)
    if mode == "high_stakes":
        return StageResult("block", f"{BUDGET_EXCEEDED}: {gate}", detail)
    return StageResult("skip", BUDGET_EXCEEDED, detail)


def join_missing(result: StageResult, missed: StageResult | None) -> StageResult:
    """The stricter of what a stage found before an answer was missing, and of what that comes to."""
    if missed is None:
        return result
    worst = max(result, missed, key=lambda stage_result: MILDEST_FIRST.index(stage_result.outcome))
    return result._replace(
        outcome=worst.outcome, reason=worst.reason, detail={**result.detail, **missed.detail}
    )


def _record_skipped(gate: str, result: StageResult) -> dict[str, Any]:
    port, budget_ms = result.detail["port"], result.detail["budget_ms"]
    text = f"{gate} was skipped: {port} took over {budget_ms} ms"
    return {"source": f"sluice.{gate}", "text": text, "severity": "warn"}
