"""`llmAnalysis` (seed 003): a model's opinion of a memory write. It can only lower trust.

The model judges text that may have been written to sway it, so a high answer buys nothing: an answer is a
ceiling on the total that the four dimensions give. What it cannot judge is inconclusive, never a score.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, ValidationError

from app.core.content.inspection import Kind  # noqa: TC001 - pydantic reads the annotations
from app.core.foundation.requests import Request
from app.core.foundation.strict import StrictModel
from app.core.memory.analysis_prompt import MAX_EXPLANATION

if TYPE_CHECKING:
    from app.core.foundation.requests import Answer
    from app.core.policy.memory_policy import AnalysisPolicy

PORT = "analysis"
Standing = Literal["analysed", "off", "inconclusive", "ignored"]


class AnalysisAnswer(StrictModel):
    """What the port may answer, as it is recorded. `trust`: 0 (an attack) to 1 (nothing against it)."""

    model: Annotated[str, Field(pattern=r"^[A-Za-z0-9._:@/-]{1,128}$")]
    prompt_version: Annotated[str, Field(min_length=1, max_length=64)]
    trust: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
    categories: Annotated[list[Kind], Field(max_length=16)]
    explanation: Annotated[str, Field(max_length=MAX_EXPLANATION)]


class _Off(StrictModel):
    """What stands in for a model when the worker has none: `off` says why."""

    off: Annotated[str, Field(min_length=1, max_length=256)]


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The most trust that the memory may have, and why."""

    trust: float
    categories: tuple[Kind, ...]
    explanation: str
    model: str
    prompt_version: str


@dataclass(frozen=True, slots=True)
class Analysis:
    """What became of the question: a ceiling when analysed, else why there is none."""

    standing: Standing
    ceiling: Ceiling | None = None
    detail: str = ""

    def record(self) -> dict[str, Any]:
        """As the decision's record holds it."""
        if self.ceiling is None:
            return {"status": self.standing, "detail": self.detail}
        listed = {**asdict(self.ceiling), "categories": list(self.ceiling.categories)}
        return {"status": self.standing, **listed}


def question(content: str, source_type: str, policy: AnalysisPolicy) -> Request:
    """What the port is asked: the content, or its head and tail and how many characters lie between."""
    head, tail = policy.head_characters, policy.tail_characters
    omitted = max(0, len(content) - head - tail)
    return Request(
        PORT,
        {
            "source_type": source_type,
            "head": content[:head] if omitted else content,
            "omitted_characters": omitted,
            "tail": content[head + omitted :] if omitted else "",
        },
        policy.budget_ms,
    )


def ceiling(answer: object) -> Ceiling | None:
    """The answer's ceiling, or None where it is not to the letter what a port may answer."""
    try:
        read = AnalysisAnswer.model_validate(answer)
    except ValidationError:
        return None
    return Ceiling(
        read.trust, tuple(dict.fromkeys(read.categories)), read.explanation, read.model, read.prompt_version
    )


def analysed(answer: Answer, policy: AnalysisPolicy, characters: int = 0) -> Analysis:
    """What the shell's answer means for the decision on a content of so many characters.

    What was not shown was not judged: an answer on a part counts where it lowers, and is inconclusive beside.
    """
    if answer.status != "answered":
        return _without_answer(f"{answer.status}: {answer.detail}", policy)
    if (reason := _off(answer.payload)) is not None:
        return Analysis("off", detail=reason)
    found = ceiling(answer.payload)
    if found is None:
        return _without_answer("the port's answer could not be read", policy)
    whole = characters <= policy.head_characters + policy.tail_characters
    return Analysis("analysed" if whole or policy.on_failure == "ignore" else "inconclusive", found)


def _without_answer(detail: str, policy: AnalysisPolicy) -> Analysis:
    return Analysis("inconclusive" if policy.on_failure == "quarantine" else "ignored", detail=detail)


def _off(payload: object) -> str | None:
    try:
        return _Off.model_validate(payload).off
    except ValidationError:
        return None
