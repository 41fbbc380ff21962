"""The golden set, by which a model proves that it may judge: labelled cases, and what a model makes of them.

A case asks one of the prompts about one action, as the gates ask: the grader with its second look, the causal
model with a list of constraints, and both in the context of a task or of origins where the case has one. A
proof names the prompts that were asked. `expect` is "passed", "failed" or "doubtful"; a doubtful case is one
that a person would want to see, and agrees with everything but a plain pass.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, ValidationError

from sluice.core.actions.causal import JUDGE, JUDGE_IN_CONTEXT, CausalPolicy
from sluice.core.actions.causal import PORT as CAUSAL
from sluice.core.actions.grading import GRADE, GRADE_IN_CONTEXT, Grading, second_look
from sluice.core.actions.grading import PORT as GRADER
from sluice.core.actions.model_questions import QuestionContext, ShownOrigin
from sluice.core.foundation.canonical import digest
from sluice.core.foundation.strict import StrictModel, first_error, json_object
from sluice.ports import PortUnavailable
from sluice.shipped import SHIPPED_FILES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from sluice.ports import Port

GOLDEN = SHIPPED_FILES / "golden" / "cases.jsonl"
PROMPTS = {prompt.name: prompt.version for prompt in (GRADE, GRADE_IN_CONTEXT, JUDGE, JUDGE_IN_CONTEXT)}
IN_CONTEXT = {GRADER: GRADE_IN_CONTEXT.name, CAUSAL: JUDGE_IN_CONTEXT.name}
"""By the port, the one that is asked where a case has a context."""
_MS = 1000.0


class GoldenSetError(Exception):
    """The file is no golden set, or the model gave no answer; the message says which."""


class GoldenAction(StrictModel):
    """The part of an action that the model is shown."""

    tool: str
    parameters: dict[str, Any]
    agent_says: str = ""


class GoldenCase(StrictModel):
    """One labelled case; `criterion` for the grader, `constraints` for the causal model; `task` and `origins`
    where the action has a context."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9_]+\.[0-9]+$")]
    port: Literal["grader", "causal"]
    criterion: str = ""
    constraints: list[str] = Field(default_factory=list)
    action: GoldenAction
    task: str | None = None
    origins: list[ShownOrigin] = Field(default_factory=list)
    expect: Literal["passed", "failed", "doubtful"]

    @property
    def context(self) -> QuestionContext:
        """The context, in which a text takes the place of its hash."""
        origins = tuple(origin.model_dump() for origin in self.origins)
        return QuestionContext(None if self.task is None else "", self.task, origins)

    @property
    def port_asked(self) -> str:
        """The port of its prompt."""
        return IN_CONTEXT[self.port] if self.context.is_known else self.port

    @property
    def question(self) -> dict[str, Any]:
        """The question as a gate asks it."""
        shown = {"action": self.action.model_dump(), **self.context.fields()}
        if self.port == GRADER:
            return {"criterion": self.criterion, **shown}
        numbered = {str(number): text for number, text in enumerate(self.constraints, 1)}
        return {"constraints": numbered, **shown}

    def dump(self) -> dict[str, Any]:
        """The fields that the set's digest takes: a context that is not there is left out."""
        left_out = {name for name in ("task", "origins") if not getattr(self, name)}
        return self.model_dump(mode="json", exclude=left_out)


@dataclass(frozen=True, slots=True)
class GoldenSet:
    """The cases and their digest."""

    digest: str
    cases: tuple[GoldenCase, ...]


@dataclass(slots=True)
class GoldenRun:
    """The model's answers to the set. `outcomes`: by the case's id; `times_ms`: of each answer."""

    model: str = ""
    outcomes: dict[str, str] = field(default_factory=dict)
    times_ms: list[float] = field(default_factory=list)

    def is_agreeing(self, case: GoldenCase) -> bool:
        """Whether the outcome is the expected one."""
        outcome = self.outcomes[case.id]
        return outcome != "passed" if case.expect == "doubtful" else outcome == case.expect

    def list_flips(self, cases: Sequence[GoldenCase]) -> list[GoldenCase]:
        """Cases that it passed and should have refused, or the other way round."""
        opposite = {"passed": "failed", "failed": "passed"}
        return [
            golden_case
            for golden_case in cases
            if self.outcomes[golden_case.id] == opposite.get(golden_case.expect)
        ]

    def compute_percentile(self, share: float) -> float:
        """A percentile of the answers' times in ms."""
        ordered = sorted(self.times_ms)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def load_golden_set(path: Path = GOLDEN) -> GoldenSet:
    """The set in a file of JSON lines. Raises GoldenSetError and OSError."""
    cases = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            cases.append(GoldenCase.model_validate(json_object(line)))
        except ValidationError as error:
            raise GoldenSetError(f"{path.name}: line {number}: {first_error(error)}") from None
        except ValueError as error:
            raise GoldenSetError(f"{path.name}: line {number}: {error}") from None
    if len({golden_case.id for golden_case in cases}) != len(cases) or not cases:
        raise GoldenSetError(f"{path.name}: no case, or two of one id")
    return GoldenSet(digest([golden_case.dump() for golden_case in cases]), tuple(cases))


async def run_golden_set(golden: GoldenSet, ports: Mapping[str, Port]) -> GoldenRun:
    """Ask the model about every case, one after the other. Raises GoldenSetError where it gives no answer, or
    answers as several models."""
    run = GoldenRun()
    for case in golden.cases:
        try:
            run.outcomes[case.id] = await _judge_case(case, ports[case.port_asked], run)
        except PortUnavailable as why:
            raise GoldenSetError(f"case {case.id}: {why}") from None
    return run


async def _judge_case(case: GoldenCase, port: Port, run: GoldenRun) -> str:
    if case.port == CAUSAL:
        judgement = JUDGE.read(await _time_question(port, case.question, run))
        if judgement is None:
            raise GoldenSetError(f"case {case.id}: the judgement cannot be read")
        _require_same_model(run, judgement.model)
        policy = CausalPolicy()
        if judgement.violation_confidence >= policy.block_at:
            return "failed"
        return "needs_human" if judgement.violation_confidence >= policy.escalate_at else "passed"
    grading, question = Grading(), case.question
    while True:
        read = GRADE.read(await _time_question(port, question, run))
        if read is None:
            raise GoldenSetError(f"case {case.id}: the score cannot be read")
        _require_same_model(run, read.model)
        outcome = grading.take(read.compliance)
        if outcome != "needs_human" or not grading.looks_again():
            return outcome
        question = second_look(question, read)


async def _time_question(port: Port, question: dict[str, Any], run: GoldenRun) -> object:
    began = time.perf_counter()
    answer = await port.ask({"scope": {}, "question": question})
    run.times_ms.append((time.perf_counter() - began) * _MS)
    return answer


def _require_same_model(run: GoldenRun, model: str) -> None:
    if run.model and run.model != model:
        raise GoldenSetError(f"the server answered as {run.model} and as {model}")
    run.model = model


def build_proof_entry(golden: GoldenSet, run: GoldenRun, revision: int, proved_at: str) -> dict[str, Any]:
    """The registry entry that proves the model, for a person to sign."""
    cases = golden.cases
    asked = {GRADER, CAUSAL, *(golden_case.port_asked for golden_case in cases)}
    spec = {
        "golden": golden.digest,
        "prompts": {name: version for name, version in PROMPTS.items() if name in asked},
        "cases": len(cases),
        "agreement": round(sum(map(run.is_agreeing, cases)) / len(cases), 4),
        "flips": len(run.list_flips(cases)),
        "p50_ms": round(run.compute_percentile(0.5), 3),
        "p99_ms": round(run.compute_percentile(0.99), 3),
        "proved_at": proved_at,
    }
    return {"kind": "model_proof", "id": run.model, "revision": revision, "spec": spec}
