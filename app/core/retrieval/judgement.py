"""One item on its way through the stages: controls, access, poisoning, quality, content, in this order.

Seed 004: what the caller may not read and what is known to be bad never reaches the quality gate; the quality
gate decides whether an item is fit at all, and only what it lets through is read by the content check (C08).
A stage that denies ends the order; the stages behind it are absent. Under shadow, where the item is served
all the same, they run: nothing goes out without its flags.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.core.registry_entries import hashes_of
from app.core.retrieval.content import content_action
from app.core.retrieval.dimensions import judge_item
from app.core.retrieval.facts import class_of, facts_of
from app.core.retrieval.provenance_check import provenance_of
from app.core.retrieval.rollout import under_rollout
from app.core.retrieval.severity import SEVERITY, milder, most_severe

if TYPE_CHECKING:
    from app.core.content.inspection import Finding
    from app.core.quality_entries import QualityOverrideEntry
    from app.core.registry_entries import Entry
    from app.core.retrieval.bodies import Body
    from app.core.retrieval.context import RetrievalContext
    from app.core.retrieval.dimensions import DimensionResult, ItemFacts
    from app.core.retrieval.provenance_check import ProvenanceCheck
    from app.core.retrieval.quality_bundle import QualityBundle
    from topics.records.retrievals import (
        QualityFlag,
        QualityOutcome,
        ReasonCode,
        RetrievedItem,
        StageName,
    )


@dataclass(slots=True)
class Judged:
    """What came of an item. `outcome` is published; `real` what it is without flag-only and shadow mode.

    `stages`: each that ran with its outcome and reason.
    """

    body: Body
    outcome: QualityOutcome = "pass"
    real: QualityOutcome = "pass"
    reason: str | None = None
    stages: list[tuple[StageName, QualityOutcome, str | None]] = field(default_factory=list)
    flags: tuple[QualityFlag, ...] = ()
    codes: tuple[ReasonCode, ...] = ()
    dimensions: tuple[DimensionResult, ...] = ()
    findings: tuple[Finding, ...] = ()
    facts: ItemFacts | None = None
    check: ProvenanceCheck | None = None
    entries: dict[str, str] = field(default_factory=dict)
    rollout: str | None = None
    override: QualityOverrideEntry | None = None

    @property
    def denied_for_quality(self) -> bool:
        """Whether the quality gate itself denied it: then a person's override could let it through."""
        return self.outcome == "deny" and self.stages[-1][0] == "quality"

    @property
    def released(self) -> bool:
        """Whether the agent gets the body."""
        return self.outcome in ("pass", "flag") and self.body.given and self.body.problem is None

    def denies(
        self, stage: StageName, code: ReasonCode, reason: str, entries: tuple[Entry, ...] = ()
    ) -> None:
        """A stage denies."""
        self.stages.append((stage, "deny", reason))
        self.codes = (*self.codes, code)
        self.entries |= hashes_of(*entries)
        self.comes_to("deny", reason)

    def comes_to(
        self, outcome: QualityOutcome, reason: str | None, real: QualityOutcome | None = None
    ) -> None:
        """A stage's outcome; the most severe wins, of equals the first. `real`: without flag-only."""
        if SEVERITY[outcome] > SEVERITY[self.outcome]:
            self.outcome, self.reason = outcome, reason
        self.reason = self.reason or reason
        self.real = most_severe((self.real, real or outcome))


def judge(context: RetrievalContext, place: int, stopped: tuple[ReasonCode, str] | None) -> Judged:
    """Judge the item at `place`; `stopped`: why no item of the request may be read (context.barred)."""
    judged = Judged(context.bodies[place])
    if context.quality is None:
        code, reason = stopped or ("NO_QUALITY_BUNDLE", "no_quality_bundle")
        judged.denies("controls", code, reason)
        return judged
    _stages(context, context.quality, context.retrieval.items[place], stopped, judged)
    if context.shadow and SEVERITY[judged.outcome] > SEVERITY["flag"]:
        judged.outcome = "flag"
    return judged


def _stages(
    context: RetrievalContext,
    bundle: QualityBundle,
    item: RetrievedItem,
    stopped: tuple[ReasonCode, str] | None,
    judged: Judged,
) -> None:
    if stopped is None:
        judged.stages.append(("controls", "pass", None))
    else:
        judged.denies("controls", *stopped)
    for stage in (_access, _poisoning, _quality):
        if judged.real == "deny" and not context.shadow:
            return
        stage(context, bundle, item, judged)
    read = context.shadow or SEVERITY[judged.outcome] < SEVERITY["downgrade"]
    if read and judged.body.given:
        _content(context, bundle, judged)


def _access(context: RetrievalContext, bundle: QualityBundle, item: RetrievedItem, judged: Judged) -> None:
    """Of the agent and of the tenant to the item's class; where classes are kept from anybody, none gets in
    by a name that nobody knows.
    """
    named = item.content_class if isinstance(item.content_class, str) else None
    agent = context.agent
    if agent is not None and agent.content_classes is not None and named not in agent.content_classes:
        judged.denies("access", "ACCESS_DENIED", f"class_not_granted: to agent {agent.id}")
    elif not bundle.opens(named, context.tenant):
        judged.denies("access", "ACCESS_DENIED", f"class_not_granted: to tenant {context.tenant}")
    elif bundle.keeps_classes and class_of(named) not in bundle.lookup.classes:
        judged.denies("access", "ACCESS_DENIED", "class_not_granted: the bundle does not know the class")
    else:
        judged.stages.append(("access", "pass", None))


def _poisoning(context: RetrievalContext, _: QualityBundle, item: RetrievedItem, judged: Judged) -> None:
    """What the registry knows to be bad: an item, a source, a content."""
    registry = context.registry
    if registry.known_bad:
        uri = item.provenance_uri if isinstance(item.provenance_uri, str) else None
        bad = registry.known_bad_of(context.tenant, item.item_id, uri, judged.body.digest)
        if bad:
            judged.denies("poisoning", "KNOWN_BAD", f"known_bad_{bad[0].subject}: {bad[0].reason}", bad)
            return
    judged.stages.append(("poisoning", "pass", None))


def _quality(context: RetrievalContext, bundle: QualityBundle, item: RetrievedItem, judged: Judged) -> None:
    """The three dimensions, then what the class's rollout and an override make of them."""
    check = provenance_of(item, context.tenant, context.registry, context.recorded, bundle, context.now_ms)
    tool = context.retrieval.tool_name
    if tool is not None and context.tool is None:
        tool = tool if bundle.lookup.is_stricter(tool, class_of(item.content_class)) else None
    facts = facts_of(item, context.now_ms, tool, check)
    found = judge_item(bundle, context.tier, facts)
    judged.check, judged.facts = check, facts
    judged.flags, judged.dimensions = found.flags, found.dimensions
    judged.codes = (*judged.codes, *found.codes)
    judged.entries |= hashes_of(*check.entries)
    judged.rollout = bundle.rollout_of(facts.content_class)
    outcome, _ = under_rollout(bundle, facts.content_class, found.outcome)
    if milder("flag", outcome):
        judged.override = _override(context, item, judged)
    if judged.override is not None:
        judged.entries |= hashes_of(judged.override)
        outcome = "flag"
    real = outcome if judged.override is not None else found.outcome
    judged.comes_to(outcome, found.reason, real)
    judged.stages.append(("quality", found.outcome, found.reason))


def _override(context: RetrievalContext, item: RetrievedItem, judged: Judged) -> QualityOverrideEntry | None:
    """The first, by its key, that is of exactly this reading and has not expired."""
    for one in context.registry.overrides.get((context.tenant, item.item_id), ()):
        of_agent = one.agent_id in (None, context.retrieval.agent_id)
        of_session = one.session_id in (None, context.retrieval.session_id)
        of_body = one.body_digest in (None, judged.body.digest)
        if of_agent and of_session and of_body and context.now_ms < one.expires_ms:
            return one
    return None


def _content(context: RetrievalContext, bundle: QualityBundle, judged: Judged) -> None:
    if judged.body.problem is not None:
        judged.flags = (*judged.flags, "content_suspect")
        judged.denies("content", "CONTENT_UNSAFE", judged.body.problem)
        return
    found = context.bundle.inspector.inspect(judged.body.text)
    action, reason = content_action(bundle, context.tier, found)
    judged.stages.append(("content", action, reason))
    judged.findings = found.findings
    if action == "pass":
        return
    judged.flags = (*judged.flags, "content_suspect")
    judged.codes = (*judged.codes, "CONTENT_UNSAFE")
    if SEVERITY[action] == SEVERITY[judged.outcome]:
        judged.reason = reason
    judged.comes_to(action, reason)
