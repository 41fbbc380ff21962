"""Gate "inbound": injected instructions in what an action carries (seed 002, checkpoint `front`).

An agent passes on what it has read: a web page into a message, a ticket into a query. The gate reads the
parameters with the detectors that read memories and retrieved bodies, and asks a model about them where the
bundle says so. `observe` tells of what is found. `nudge` also gives the parameters with a warning at each
text that it concerns. `enforce` also holds the action up: what is certain is denied, what is likely or could
not be judged to its end waits for a person. The model's answer can only make the outcome stricter.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self

from pydantic import BaseModel, Field, model_validator

from sluice.core.actions.model_questions import (
    BudgetMs,
    Characters,
    ShownContext,
    put_in_context,
    scope_of,
)
from sluice.core.actions.outbound import (
    MODES,
    MOST_CHARACTERS,
    MOST_FINDINGS,
    STATES,
    Mode,
    make_replacement,
)
from sluice.core.actions.pipeline import INCONCLUSIVE, MILDEST_FIRST, judge_unanswered
from sluice.core.actions.question_context import find_context
from sluice.core.actions.stage import PASSED, ROOT, ContentGate, Detail, StageResult
from sluice.core.foundation.content_judge import OFTENER, PORT, PROMPT, UNTRUSTED, JudgeWhen, show_texts
from sluice.core.foundation.prompts import Share  # noqa: TC001 - pydantic reads the annotations
from sluice.core.foundation.requests import Request
from sluice.core.foundation.strict import StrictModel
from sluice.core.policy.bundles import BundlePart
from sluice.detection.text_inspection import Kind, Weight, inspect_text
from sluice_topics.records.base import CheckpointState  # noqa: TC001 - pydantic reads the annotations
from sluice_topics.relaxations import Scale, StricterWhen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.core.actions.stage import ActionContext, ActionPlan, Asking, StageOutcome
    from sluice.core.foundation.requests import Answer
    from sluice.detection.text_inspection import ContentInspector, Finding

WARNING, REMOVED = (
    "[warning: reads like injected instructions]",
    "[removed: reads like injected instructions]",
)
_OF_WEIGHT: dict[str, StageOutcome] = {"weak": "pass", "strong": "escalate", "definite": "block"}


class InboundPolicy(StrictModel):
    """`mode` "off": nothing is read. `judge`: when a model is asked as well; "in_doubt": where the detectors
    found something weak or framed (quoted, reported), could not read all, or the gate `similarity`, if it ran
    before, did not let the action pass. What the detectors are sure of is not asked about. Below a trust of
    `escalate_below` the model's answer escalates, below `block_below` it blocks. `budget_ms` is its deadline,
    `most_characters` what it is shown; of more, an answer without objection is inconclusive."""

    mode: Annotated[Mode, Scale(MODES, "injected instructions are only {new}, not {old}")] = "off"
    judge: Annotated[JudgeWhen, Scale(OFTENER, "the model is asked about parameters {new}, not {old}")] = (
        "off"
    )
    escalate_below: Annotated[
        Share, StricterWhen("higher", "a trust in parameters escalates below {new}, not below {old}")
    ] = 0.7
    block_below: Annotated[
        Share, StricterWhen("higher", "a trust in parameters blocks below {new}, not below {old}")
    ] = 0.3
    budget_ms: BudgetMs = 80
    most_characters: Characters = 16_000

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.block_below > self.escalate_below:
            raise ValueError("block_below is above escalate_below")
        return self

    def idle_fields(self) -> frozenset[str]:
        """What nothing reads, where nothing is read or no model asked."""
        if self.mode == "off":
            return frozenset(type(self).model_fields)
        return frozenset({"escalate_below", "block_below", "budget_ms"} if self.judge == "off" else ())


PORT_IN_CONTEXT = "content_in_context"
JUDGE_IN_CONTEXT = put_in_context(PROMPT, PORT_IN_CONTEXT, UNTRUSTED)


class InboundFinding(BaseModel):
    """What the detectors found, and the path of the parameter that has it."""

    id: str
    kind: Kind
    weight: Weight
    framed: bool
    path: str


class JudgedParameters(BaseModel):
    """The model's opinion. `path`: of the worst text; null: of none. `omitted_characters`: which it was not
    shown."""

    trust: float
    categories: list[Kind]
    explanation: str
    path: str | None
    omitted_characters: int
    model: str
    prompt_version: str


class InboundDetail(Detail):
    """`front`: the checkpoint's state. `judged`: absent where no model was asked. `unjudged`: what could not
    be judged to its end, and why. `shown`: what the model was shown beside the texts, absent where that was
    nothing. `replacement`: the parameters with warnings (nudge) or without the texts
    concerned (enforce); absent if they are larger than 16 KB, or no text of theirs is known to be
    concerned."""

    front: Annotated[CheckpointState | None, Field(title="front")] = None
    findings: Annotated[list[InboundFinding] | None, Field(title="comes in")] = None
    judged: Annotated[JudgedParameters | None, Field(title="judged")] = None
    unjudged: Annotated[str | None, Field(title="not judged")] = None
    shown: ShownContext | None = None
    replacement: dict[str, Any] | None = None


class _Opinion(NamedTuple):
    """What the detectors or the model make of the parameters. `texts`: those that it objects to; `unjudged`:
    why it is no opinion on the whole."""

    outcome: StageOutcome
    reason: str
    texts: frozenset[str]
    unjudged: str | None
    detail: Mapping[str, Any]


def _silent(unjudged: str | None = None) -> _Opinion:
    return _Opinion("pass", "", frozenset(), unjudged, {})


NO_OPINION = _silent()
_CLEAR = StageResult("pass", None, {"front": "pass"})


class Inbound(ContentGate):
    """Finds injected instructions in an action's parameters; holds it up where the bundle says enforce."""

    name = "inbound"
    checkpoint = "front"
    holds = "what this action carries reads like"
    detail = InboundDetail
    pauses = True
    part = BundlePart(
        name, InboundPolicy, InboundPolicy(), asks=lambda part: part.mode != "off" and part.judge != "off"
    )
    decides_unanswered = True
    leaves_denials = True

    def evaluate(self, context: ActionContext) -> StageResult | Asking:
        """Asks a model only where the bundle says so and the detectors are not sure."""
        policy: InboundPolicy = context.plan.bundle.parts[self.name]
        if policy.mode == "off":
            return PASSED
        read = _detect(context.plan.bundle.inspector, context.texts())
        if read is NO_OPINION and policy.judge == "off":
            return _CLEAR
        texts = [pair for pair in context.texts() if not _is_number(pair[1])]
        if texts and _asks(policy, context, read):
            return _prepare_question(policy, context, texts, read)
        return _conclude(policy, context, read)

    def settle(self, plan: ActionPlan) -> StageResult | None:
        """A pass where nothing is read."""
        policy: InboundPolicy = plan.bundle.parts[self.name]
        return PASSED if policy.mode == "off" else None


def _is_number(text: str) -> bool:
    """Numbers give no orders."""
    return text.replace(".", "").isdigit()


_TEXT = itemgetter(1)


def _detect(inspector: ContentInspector, texts: list[tuple[str, str]]) -> _Opinion:
    """All texts are read as one, so that an order in pieces is found; then each, to know which one it is and
    so that no text is excused by the words of another."""
    left, unread = MOST_CHARACTERS, 0
    read: list[tuple[str, str]] = []
    for path, text in texts:
        if text.replace(".", "").isdigit():
            continue
        read.append((path, text[:left]))
        unread += max(0, len(text) - left)
        left = max(0, left - len(text))
    whole = inspect_text(inspector, "\n".join(map(_TEXT, read)))
    if not (whole.findings or unread or whole.inconclusive):
        return NO_OPINION
    matches: list[tuple[str, str, Finding]] = []
    if whole.findings:
        matches = [
            (path, text, finding) for path, text in read for finding in inspect_text(inspector, text).findings
        ]
        ids = {finding.id for _, _, finding in matches}
        matches += [(ROOT, "", finding) for finding in whole.findings if finding.id not in ids]
    unjudged = f"{unread} characters were not read" if unread else whole.inconclusive
    worst = max(matches, key=lambda match: MILDEST_FIRST.index(_OF_WEIGHT[match[2].weight]), default=None)
    telling = [match for match in matches if _OF_WEIGHT[match[2].weight] != "pass"]
    listed = [
        {
            "id": finding.id,
            "kind": finding.kind,
            "weight": finding.weight,
            "framed": finding.framed,
            "path": path,
        }
        for path, _, finding in matches[:MOST_FINDINGS]
    ]
    return _Opinion(
        "pass" if worst is None else _OF_WEIGHT[worst[2].weight],
        "" if worst is None else f"{worst[2].kind} at {worst[0]}",
        frozenset(text for _, text, _ in telling if text),
        unjudged,
        {"findings": listed} if listed else {},
    )


def _asks(policy: InboundPolicy, context: ActionContext, read: _Opinion) -> bool:
    if policy.judge == "off" or read.outcome == "block":
        return False
    if policy.judge == "always":
        return True
    resembles = context.resemblance not in {None, "pass"}
    return read.outcome == "pass" and (bool(read.detail) or read.unjudged is not None or resembles)


def _prepare_question(
    policy: InboundPolicy, context: ActionContext, texts: list[tuple[str, str]], read: _Opinion
) -> Asking:
    tool = context.action.tool_name
    shown = show_texts("parameters", (text for _, text in texts), policy.most_characters, tool)
    question_context = find_context(context)
    payload = {
        "scope": scope_of(context, Inbound.name),
        "question": {**shown.question, **question_context.fields()},
    }
    request = Request(PORT_IN_CONTEXT if question_context.is_known else PORT, payload, policy.budget_ms)
    answer = yield request
    if answer.status != "answered":
        missed = judge_unanswered(Inbound.name, request, answer, context.plan.mode)
        silent = _silent(f"the model gave no answer: {answer.status}")
        return _conclude(policy, context, read, silent, missed)
    judged = _judge(policy, answer, texts, shown.omitted)
    judged = judged._replace(detail={**judged.detail, **question_context.make_fields()})
    return _conclude(policy, context, read, judged)


def _judge(policy: InboundPolicy, answer: Answer, texts: list[tuple[str, str]], omitted: int) -> _Opinion:
    """Of a number that no text has the place is not known; the trust counts all the same."""
    judgement = PROMPT.read(answer.payload)
    if judgement is None:
        return _silent("the model's answer could not be read")
    path, text = texts[judgement.text - 1] if 0 < judgement.text <= len(texts) else (None, None)
    detail = {
        "trust": judgement.trust,
        "categories": list(judgement.categories),
        "explanation": judgement.explanation,
        "path": path,
        "omitted_characters": omitted,
        "model": judgement.model,
        "prompt_version": judgement.prompt_version,
    }
    outcome: StageOutcome = "pass"
    if judgement.trust < policy.escalate_below:
        outcome = "block" if judgement.trust < policy.block_below else "escalate"
    unjudged = f"{omitted} characters were not judged" if omitted and outcome == "pass" else None
    reason = (
        f"trust {judgement.trust:.2f}: {', '.join(judgement.categories) or 'no category'} at {path or ROOT}"
    )
    concerned = frozenset(() if text is None or outcome == "pass" else (text,))
    return _Opinion(outcome, reason, concerned, unjudged, {"judged": detail})


def _conclude(
    policy: InboundPolicy,
    context: ActionContext,
    read: _Opinion,
    judged: _Opinion = NO_OPINION,
    missed: StageResult = PASSED,
) -> StageResult:
    """What the mode makes of both opinions. `missed`: what a missing answer comes to."""
    if read is NO_OPINION is judged and missed is PASSED:
        return StageResult("pass", None, {"front": "pass"})
    objecting = [opinion for opinion in (read, judged) if opinion.outcome != "pass"]
    unjudged = "; ".join(opinion.unjudged for opinion in (read, judged) if opinion.unjudged)
    state = STATES[policy.mode] if objecting else "observed" if unjudged else "pass"
    detail: dict[str, Any] = {"front": state, **read.detail, **judged.detail}
    if unjudged:
        detail["unjudged"] = unjudged
    concerned = frozenset[str]().union(*(opinion.texts for opinion in objecting))
    if concerned:
        detail |= _replacement(policy.mode, context, concerned)
    if policy.mode != "enforce":
        return StageResult("pass", None, detail)
    results = [
        StageResult(opinion.outcome, f"injected_instructions: {opinion.reason}") for opinion in objecting
    ]
    results.append(missed)
    if read.unjudged or (judged.unjudged and missed is PASSED):
        results.append(StageResult("escalate", f"{INCONCLUSIVE}: {unjudged}"))
    worst = max(results, key=lambda result: MILDEST_FIRST.index(result.outcome))
    return worst._replace(detail=detail)


def _replacement(mode: Mode, context: ActionContext, concerned: frozenset[str]) -> dict[str, Any]:
    def normalise(text: str) -> str:
        if text not in concerned:
            return text
        return f"{text} {WARNING}" if mode == "nudge" else REMOVED

    return make_replacement(context, mode, normalise, lambda name: REMOVED if name in concerned else name)
