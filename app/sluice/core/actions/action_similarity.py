"""Gate 2's layer 1, "similarity": does the action resemble known harmful ones? (seed 001, Gate 2, L1)

The action (tool name and parameters, as text) is embedded and compared with a library of known harmful and
harmless actions. A bare cosine says what an action is about and hardly whether it does harm, so the score is
a probability (docs/decisions/0013-similarity.md): of the mean cosine to the closest harmful entries, that to
the closest harmless ones, and the lean, which is where the action lies between the two sides of the library.
Below the first threshold the action passes, up to the second it is doubtful, which later gates can see, and
above it the bundle says what happens. The closest entries and their bare cosines are in the verdict.
"""

from __future__ import annotations

from math import exp
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, ValidationError, model_validator

from sluice.core.actions.model_questions import BudgetMs  # noqa: TC001 - pydantic reads the annotations
from sluice.core.actions.pipeline import INCONCLUSIVE
from sluice.core.actions.stage import PASSED, Gate, ObjectionDetail, StageResult
from sluice.core.foundation.canonical import wire_safe
from sluice.core.foundation.requests import Request
from sluice.core.foundation.strict import StrictModel
from sluice.core.policy.bundles import BundlePart, always_asks
from sluice.core.policy.gate_modes import ModePart
from sluice.core.policy.pattern_library import CLOSEST, render_call
from sluice.core.policy.similarity_settings import EMBEDDING, Nearest, WindowSettings
from sluice_topics.relaxations import ComparedBy, Relaxation, Scale, StricterWhen, Unordered

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sluice.core.actions.stage import ActionContext, ActionPlan, Asking

Band = Literal["pass", "doubtful", "harmful", "abstained", "inconclusive"]
Share = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(ge=-1000, le=1000)]
Digest = Annotated[str, Field(pattern="^sha256:[0-9a-f]{64}$")]
NAMED = 3
"""Of these so many are in the verdict's detail; all are in its model_outputs."""
DECIMALS = 6
"""Of a probability; what is compared with the thresholds is what the verdict says."""
OTHER = Unordered("another {name}, which may find less")


class ActionCalibration(StrictModel):
    """The logistic function of three figures that gives the probability of harm, as
    `python -m load.fit.pattern_fit` measured it for one library."""

    harmful: Weight
    harmless: Weight
    lean: Weight
    intercept: Weight

    def probability(self, harmful: float, harmless: float, lean: float) -> float:
        """From the mean cosines to the closest entries of both sides and the lean."""
        logit = self.harmful * harmful + self.harmless * harmless + self.lean * lean + self.intercept
        bounded = min(700.0, max(-700.0, logit))
        return round(1 / (1 + exp(-bounded)), DECIMALS)


def find_later_passing(before: SimilarityPolicy, after: SimilarityPolicy) -> Iterator[Relaxation]:
    """A higher threshold after untrusted content, where either has one of its own."""
    old, new = (policy.read_passing_bound(after_untrusted=True) for policy in (before, after))
    own = {before.pass_below_after_untrusted, after.pass_below_after_untrusted}
    if own != {None} and new > old:
        sentence = f"after untrusted content an action passes below {new}, not below {old}"
        yield Relaxation(sentence, "pass_below_after_untrusted", old, new)


class SimilarityPolicy(ModePart):
    """With `enabled: false` nothing is asked and every action passes. `library` is the digest of a library
    that the worker has, with the `calibration` that was fitted for it. `budget_ms`: the deadline of an
    answer. Below `pass_below` an action passes, after untrusted content in its session below
    `pass_below_after_untrusted` (null: the same); above `harmful_above` it gets the outcome `above`; between
    them it is doubtful. `above` and `unread`: "doubtful" means that it goes on to the later gates, like a
    doubtful one. `unread`: what an action gets that has more than `windows.most` windows and of which the
    ones that were read are not above. From a share of `unknown_above` of its word pieces on that the encoder
    does not know, the gate abstains."""

    objection: ClassVar[str] = "what resembles harm"

    enabled: Annotated[bool, StricterWhen("true", "no action is compared with known ones any more")] = False
    library: Annotated[Digest | None, OTHER] = None
    calibration: Annotated[ActionCalibration | None, OTHER] = None
    budget_ms: BudgetMs = 50
    windows: Annotated[WindowSettings, OTHER] = WindowSettings(characters=400, overlap=40, most=32)
    pass_below: Annotated[Share, StricterWhen("lower")] = 0.3
    pass_below_after_untrusted: Annotated[Share | None, ComparedBy(find_later_passing)] = None
    harmful_above: Annotated[Share, StricterWhen("lower")] = 0.7
    unknown_above: Annotated[Share, StricterWhen("higher", "the gate abstains from {new} on")] = 0.2
    above: Annotated[Literal["block", "escalate", "doubtful"], Scale(("doubtful", "escalate", "block"))] = (
        "block"
    )
    unread: Annotated[Literal["escalate", "doubtful"], Scale(("doubtful", "escalate"))] = "escalate"

    @model_validator(mode="after")
    def _usable(self) -> Self:
        if self.pass_below > self.harmful_above:
            raise ValueError("pass_below is above harmful_above")
        if self.read_passing_bound(after_untrusted=True) > self.pass_below:
            raise ValueError("pass_below_after_untrusted is above pass_below")
        if self.enabled and (self.library is None or self.calibration is None):
            raise ValueError("enabled without a library and its calibration")
        return self

    def idle_fields(self) -> frozenset[str]:
        """How actions are compared, where none is."""
        compared = frozenset({"mode", "library", "calibration", "windows", "budget_ms"})
        return frozenset() if self.enabled else compared

    def read_passing_bound(self, *, after_untrusted: bool) -> float:
        """The probability below which an action passes."""
        lower = self.pass_below_after_untrusted
        return lower if after_untrusted and lower is not None else self.pass_below


class PatternAnswer(StrictModel):
    """What the port answers; `model` and `library` are "sha256:" digests. `harmful` and `harmless` are the
    closest entries of the window that speaks most for harm, the closest first, and `lean` is that window's.
    `unknown`: the share of unknown word pieces in all windows that were read."""

    model: str
    library: str
    windows: int = Field(ge=0)
    of: int = Field(ge=0)
    unknown: Share
    harmful: Annotated[list[Nearest], Field(max_length=CLOSEST)]
    harmless: Annotated[list[Nearest], Field(max_length=CLOSEST)]
    lean: Annotated[float, Field(ge=-1000, le=1000)]


class SimilarityDetail(ObjectionDetail):
    """Empty if nothing was asked. `harmful` and `harmless`: the closest known actions with the bare cosine;
    `windows` of `of` were read; `unknown`: share of word pieces that the encoder does not know."""

    band: Annotated[Band | None, Field(title="resemblance")] = None
    probability: Annotated[float | None, Field(title="probability of harm")] = None
    harmful: Annotated[list[Nearest] | None, Field(title="like harmful")] = None
    harmless: Annotated[list[Nearest] | None, Field(title="like harmless")] = None
    lean: float | None = None
    windows: int | None = None
    of: int | None = None
    unknown: float | None = None
    library: str | None = None
    model: str | None = None


class ActionSimilarity(Gate):
    """Asks an encoder which known harmful and harmless actions this one resembles."""

    name = "similarity"
    detail = SimilarityDetail
    part = BundlePart(name, SimilarityPolicy, SimilarityPolicy(), asks=always_asks)

    def evaluate(self, context: ActionContext) -> StageResult | Asking:
        """Asks how near the call is to known ones."""
        return _prepare_question(context.plan.bundle.parts[self.name], context)

    def settle(self, plan: ActionPlan) -> StageResult | None:
        """A pass where the bundle does not ask for it."""
        return None if plan.bundle.parts[self.name].enabled else PASSED


def make_similarity_question(text: str, policy: SimilarityPolicy) -> dict[str, Any]:
    """The question for the port `embedding`: the library by its digest, and by what weights the window is
    chosen that speaks most for harm."""
    calibration = policy.calibration
    weights = (
        (calibration.harmful, calibration.harmless, calibration.lean) if calibration else (1.0, -1.0, 0.0)
    )
    return {"text": text, "library": policy.library, "windows": policy.windows, "weights": weights}


def _prepare_question(policy: SimilarityPolicy, context: ActionContext) -> Asking:
    action = context.action
    written = render_call(action.tool_name, wire_safe(action.parameters))
    question = make_similarity_question(written, policy)
    context.resemblance = "inconclusive"
    answer = yield Request(EMBEDDING, question, policy.budget_ms)
    try:
        pattern_answer = PatternAnswer.model_validate(answer.payload)
    except ValidationError:
        return StageResult("escalate", f"{INCONCLUSIVE}: the answer of {EMBEDDING} could not be read")
    result = _judge(
        policy, pattern_answer, policy.read_passing_bound(after_untrusted=bool(context.observed.read))
    )
    context.resemblance = result.detail["band"]
    return result


def _judge(policy: SimilarityPolicy, answer: PatternAnswer, passing: float) -> StageResult:
    detail: dict[str, Any] = {
        "harmful": [nearest.model_dump() for nearest in answer.harmful[:NAMED]],
        "harmless": [nearest.model_dump() for nearest in answer.harmless[:NAMED]],
        **answer.model_dump(include={"lean", "windows", "of", "unknown", "library", "model"}),
    }
    if answer.unknown > policy.unknown_above or not answer.harmful or not answer.harmless:
        return StageResult("pass", None, {"band": "abstained", **detail})
    calibration = policy.calibration
    if calibration is None or answer.library != policy.library:
        reason = f"{INCONCLUSIVE}: another library answered"
        return StageResult("escalate", reason, {"band": "inconclusive", **detail})
    probability = calibration.probability(_mean(answer.harmful), _mean(answer.harmless), answer.lean)
    detail["probability"] = probability
    if probability > policy.harmful_above:
        reason = f"similarity: {probability:.2f}: like {answer.harmful[0].id}"
        return _outcome(policy.above, reason, {"band": "harmful", **detail})
    if answer.windows < answer.of:
        reason = f"{INCONCLUSIVE}: {answer.of - answer.windows} of {answer.of} windows were not compared"
        return _outcome(policy.unread, reason, {"band": "inconclusive", **detail})
    band = "pass" if probability < passing else "doubtful"
    return StageResult("pass", None, {"band": band, **detail})


def _outcome(
    outcome: Literal["block", "escalate", "doubtful"], reason: str, detail: dict[str, Any]
) -> StageResult:
    if outcome == "doubtful":
        return StageResult("pass", None, detail)
    return StageResult(outcome, reason, detail)


def _mean(closest: Sequence[Nearest]) -> float:
    return sum(nearest.cosine for nearest in closest) / len(closest)
