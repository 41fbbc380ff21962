"""One item on its way through the stages: controls, access, poisoning, quality, content, in this order.

Seed 004: what the caller may not read and what is known to be bad never reaches the quality gate; the quality
gate decides whether an item is fit at all, and only what it lets through is read by the content check (C08).
A stage that denies ends the order; the stages behind it are absent. Under shadow, where the item is served
all the same, they run: nothing goes out without its flags.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict, get_args

from sluice.core.quality_bundle.severity import SEVERITY, is_milder
from sluice.core.retrieval.dimensions import apply_rollout, judge_by, read_facts
from sluice.core.retrieval.item_texts import read_meeting
from sluice.core.retrieval.provenance_check import check_provenance
from sluice.detection.text_inspection import inspect_text
from sluice_topics.records.retrievals import StageName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.core.quality_bundle.content_settings import ContentJudge, ContentWeight
    from sluice.core.quality_bundle.quality_bundle import QualityBundle
    from sluice.core.registry.quality_entries import QualityOverrideEntry
    from sluice.core.registry.registry_entries import Entry
    from sluice.core.retrieval.dimensions import ItemFacts, JudgedDimension, Quality
    from sluice.core.retrieval.item_texts import Body, ItemNames
    from sluice.core.retrieval.plan import ClassTerms, ItemApproval, RetrievalContext
    from sluice.core.retrieval.provenance_check import ProvenanceCheck
    from sluice.detection.text_inspection import ContentInspection, Finding
    from sluice_topics.records.retrieval_inputs import RetrievedItem
    from sluice_topics.records.retrievals import AutonomyTier, QualityFlag, QualityOutcome, ReasonCode


STAGE: StageName = "content"
SUSPECT: QualityFlag = "content_suspect"
UNSAFE: ReasonCode = "CONTENT_UNSAFE"
WEIGHTS: tuple[ContentWeight, ...] = ("definite", "strong")
INCONCLUSIVE: ContentWeight = "strong"
"""A text beyond a bound was read by a linear scan alone: no more is known of it than of a strong find."""


def choose_content_outcome(
    bundle: QualityBundle, tier: AutonomyTier, inspection: ContentInspection
) -> tuple[QualityOutcome, str | None]:
    """The outcome and its reason; weak and framed findings are listed and change nothing."""
    for weight in WEIGHTS:
        for finding in inspection.findings:
            if finding.weight == weight:
                return bundle.content_outcome(tier, weight), f"{finding.named}: {finding.reason}"
    if inspection.inconclusive is not None:
        return bundle.content_outcome(tier, INCONCLUSIVE), f"inconclusive: {inspection.inconclusive}"
    return "pass", None


class ItemStage(TypedDict):
    """The fields stand in canonical order. They are never changed, because records share those of
    `PASSED`."""

    outcome: QualityOutcome
    reason: str | None
    stage: StageName


def make_stage(name: StageName, outcome: QualityOutcome, reason: str | None) -> ItemStage:
    """What a stage came to."""
    return {"outcome": outcome, "reason": reason, "stage": name}


PASSED: Mapping[StageName, ItemStage] = {name: make_stage(name, "pass", None) for name in get_args(StageName)}
"""Of each stage the one that most items leave behind."""


@dataclass(slots=True)
class Judged:
    """What came of the item at `position`. `outcome` is published; `real` what it is without flag-only and
    shadow mode.

    `stages`: each that ran; `entries`: of the registry's, those that the item's decision rests on. `asks`: a
    model is to be asked about the body; `model_outputs`: what it answered; `unjudged`: why it did not judge
    the whole body without objection.
    """

    position: int
    body: Body
    outcome: QualityOutcome = "pass"
    real: QualityOutcome = "pass"
    reason: str | None = None
    stages: list[ItemStage] = field(default_factory=list)
    flags: tuple[QualityFlag, ...] = ()
    codes: tuple[ReasonCode, ...] = ()
    dimensions: tuple[JudgedDimension, ...] = ()
    findings: tuple[Finding, ...] = ()
    facts: ItemFacts | None = None
    check: ProvenanceCheck | None = None
    entries: tuple[Entry, ...] = ()
    rollout: str | None = None
    override: QualityOverrideEntry | ItemApproval | None = None
    asks: bool = False
    unjudged: str | None = None
    model_outputs: tuple[dict[str, Any], ...] = ()

    @property
    def denied_for_quality(self) -> bool:
        """Whether the quality gate itself denied it: then a person's override could let it through."""
        return self.outcome == "deny" and self.stages[-1]["stage"] == "quality"

    @property
    def released(self) -> bool:
        """Whether the agent gets the body."""
        return self.outcome in ("pass", "flag") and self.body.is_given and self.body.problem is None

    def ran(self, stage: StageName, outcome: QualityOutcome, reason: str | None) -> None:
        """A stage that ran last, or the last one again with what it comes to now."""
        if self.stages and self.stages[-1]["stage"] == stage:
            self.stages.pop()
        self.stages.append(make_stage(stage, outcome, reason))

    def denies(
        self, stage: StageName, code: ReasonCode, reason: str, entries: tuple[Entry, ...] = ()
    ) -> None:
        """A stage denies."""
        self.ran(stage, "deny", reason)
        self.codes = (*self.codes, code)
        self.entries += entries
        self.comes_to("deny", reason)

    def comes_to(
        self, outcome: QualityOutcome, reason: str | None, real: QualityOutcome | None = None
    ) -> None:
        """A stage's outcome; the most severe wins, of equals the first. `real`: without flag-only."""
        if SEVERITY[outcome] > SEVERITY[self.outcome]:
            self.outcome, self.reason = outcome, reason
        self.reason = self.reason or reason
        real = real or outcome
        if SEVERITY[real] > SEVERITY[self.real]:
            self.real = real


def judge(context: RetrievalContext, index: int) -> Judged:
    """Judge the item at `index`."""
    judged, quality = Judged(index, context.bodies[index]), context.plan.quality
    if quality is None:
        judged.denies("controls", *(context.barred or ("NO_QUALITY_BUNDLE", "no_quality_bundle")))
        return judged
    _judge_by_stages(context, quality, context.retrieval.items[index], judged)
    if context.plan.is_shadowed and SEVERITY[judged.outcome] > SEVERITY["flag"]:
        judged.outcome = "flag"
    return judged


def _judge_by_stages(
    context: RetrievalContext, bundle: QualityBundle, item: RetrievedItem, judged: Judged
) -> None:
    """Each stage in its order. Under shadow a stage that denies does not end it."""
    plan, named, is_shadowed = context.plan, item.content_class, context.plan.is_shadowed
    if context.barred is None:
        judged.stages.append(PASSED["controls"])
    else:
        judged.denies("controls", *context.barred)
        if not is_shadowed:
            return
    terms = plan.terms[named if isinstance(named, str) else None]
    if terms.closed is None:
        judged.stages.append(PASSED["access"])
    else:
        judged.denies("access", "ACCESS_DENIED", terms.closed)
        if not is_shadowed:
            return
    if not plan.registry.known_bad:
        judged.stages.append(PASSED["poisoning"])
    elif _is_poisoned(context, item, judged) and not is_shadowed:
        return
    _judge_quality(context, terms, item, judged)
    names = context.names.items[judged.position]
    body_read = judged.body.is_given and (is_shadowed or SEVERITY[judged.outcome] < SEVERITY["downgrade"])
    if body_read or (judged.outcome != "deny" and (names.findings or names.inconclusive)):
        _judge_content(context, bundle, names, judged, body_read=body_read)


def _is_poisoned(context: RetrievalContext, item: RetrievedItem, judged: Judged) -> bool:
    """Whether the registry knows the item, its source or its content to be bad: then it is denied."""
    uri = item.provenance_uri if isinstance(item.provenance_uri, str) else None
    bad = context.plan.registry.find_known_bad(context.plan.tenant, item.item_id, uri, judged.body.digest)
    if not bad:
        judged.stages.append(PASSED["poisoning"])
        return False
    judged.denies("poisoning", "KNOWN_BAD", f"known_bad_{bad[0].subject}: {bad[0].reason}", bad)
    return True


def _judge_quality(context: RetrievalContext, terms: ClassTerms, item: RetrievedItem, judged: Judged) -> None:
    """The three dimensions, then what lets an item through all the same."""
    bundle, plan, now_ms = terms.bundle, context.plan, context.now_ms
    check = check_provenance(item, plan.tenant, plan.registry, context.recorded, bundle, now_ms)
    facts = read_facts(item, terms.content_class, terms.tool, check, now_ms)
    quality = judge_by(terms.cell, terms.limit, facts)
    judged.check, judged.facts, judged.rollout = check, facts, terms.rollout
    judged.flags, judged.dimensions = quality.flags, quality.dimensions
    judged.codes += quality.codes
    judged.entries += check.entries
    if quality.outcome == "pass":
        judged.stages.append(PASSED["quality"])
    else:
        shown, _ = apply_rollout(bundle, terms.content_class, quality.outcome)
        _apply_override(context, item, quality, shown, judged)
        judged.ran("quality", quality.outcome, quality.reason)


def _apply_override(
    context: RetrievalContext, item: RetrievedItem, quality: Quality, shown: QualityOutcome, judged: Judged
) -> None:
    """What an override makes of an item that comes to `shown` under its class's rollout."""
    if is_milder("flag", shown):
        judged.override = _find_override(context, item, judged)
    if judged.override is None:
        judged.comes_to(shown, quality.reason, quality.outcome)
    else:
        judged.entries += (judged.override,)
        judged.comes_to("flag", quality.reason, "flag")


def _find_override(
    context: RetrievalContext, item: RetrievedItem, judged: Judged
) -> QualityOverrideEntry | ItemApproval | None:
    """The first, by its key, that is of exactly this reading and has not expired; else the approval of the
    request's escalation."""
    for entry in context.plan.registry.overrides.get((context.plan.tenant, item.item_id), ()):
        of_agent = entry.agent_id in (None, context.retrieval.agent_id)
        of_session = entry.session_id in (None, context.retrieval.session_id)
        of_body = entry.body_digest in (None, judged.body.served.digest)
        if of_agent and of_session and of_body and context.now_ms < entry.expires_ms:
            return entry
    return context.approval


def _judge_content(
    context: RetrievalContext, bundle: QualityBundle, names: ItemNames, judged: Judged, *, body_read: bool
) -> None:
    """The body is read where it may be released, the names wherever they may."""
    if body_read and judged.body.problem is not None:
        judged.flags = (*judged.flags, SUSPECT)
        judged.denies("content", UNSAFE, judged.body.problem)
        return
    inspection = _inspect(context, names, judged.body.text if body_read else "")
    action, reason = choose_content_outcome(bundle, context.plan.tier, inspection)
    judged.ran("content", action, reason)
    judged.findings = inspection.findings
    if action != "pass":
        judged.flags = (*judged.flags, SUSPECT)
        judged.codes = (*judged.codes, UNSAFE)
        if SEVERITY[action] == SEVERITY[judged.outcome]:
            judged.reason = reason
        judged.comes_to(action, reason)
    if body_read and context.plan.is_judged:
        goes_out = context.plan.is_shadowed or SEVERITY[judged.outcome] < SEVERITY["downgrade"]
        judged.asks = (
            goes_out and _is_in_question(bundle.file.content_judge, inspection) and bool(judged.body.text)
        )


def _inspect(context: RetrievalContext, names: ItemNames, text: str) -> ContentInspection:
    """In the body, in the names and where the two meet."""
    inspector = context.plan.bundle.inspector
    body = inspect_text(inspector, text)
    beside = names.findings + (read_meeting(inspector.names, names.own, text) if text else ())
    if not beside and names.inconclusive is None:
        return body
    return body._replace(
        findings=body.findings + beside, inconclusive=body.inconclusive or names.inconclusive
    )


def _is_in_question(policy: ContentJudge, inspection: ContentInspection) -> bool:
    """Whether a model may find what the detectors have not: what is definite is not asked about."""
    weights = {finding.weight for finding in inspection.findings}
    if policy.judge == "always":
        return "definite" not in weights
    doubtful = bool(weights) or inspection.inconclusive is not None
    return doubtful and weights.isdisjoint(WEIGHTS)
