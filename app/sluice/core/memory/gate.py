"""The memory gate: one write, from its context to an action (seed 003; the write-time rule of seed 004).

A generator without I/O: the encoder and the model are asked by requests. What ends the evaluation before a
score is made (a freeze, an unknown agent, metadata) leaves no trust score.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sluice.core.foundation.requests import Asker, ask
from sluice.core.memory.admitted import FIELDS_BEFORE, list_names, release_quality
from sluice.core.memory.analysis import build_question, read_analysis
from sluice.core.memory.lineage import list_unknown, request_lineage, resolve_parents
from sluice.core.memory.similarity import VECTOR, find_similarity, read_answer, request_similarity
from sluice.core.memory.trust import DIGITS, Facts, Scored, Trust, list_trust_fields
from sluice.core.metadata.write_quality import find_faults
from sluice.core.registry.freezes import find_stop
from sluice.detection.text_inspection import NOTHING, inspect_text

if TYPE_CHECKING:
    from collections.abc import Generator

    from sluice.core.foundation.requests import Answer, Request
    from sluice.core.memory.plan import WriteContext
    from sluice.core.metadata.write_quality import Fault
    from sluice.core.policy.similarity_settings import SimilaritySettings
    from sluice.detection.text_inspection import Finding, Spoken

GATE = "memory"
OFF: dict[str, Any] = {"status": "off"}
NOT_NEEDED: dict[str, Any] = {"status": "not_needed"}
_NO_SCORE = Trust(-1, -1, {}, ())
SWITCHED_OFF = Scored(_NO_SCORE, "allow", "memory_gate_disabled", list_trust_fields(_NO_SCORE))


@dataclass(slots=True)
class WriteJudgement:
    """What the gate made of a write, before shadow mode. `scored` and `total`, the trust under every cap, are
    None where no score was needed."""

    action: str
    reason: str
    scored: Scored | None = None
    findings: tuple[Finding, ...] = ()
    faults: tuple[Fault, ...] = ()
    similarity: dict[str, Any] = field(default_factory=OFF.copy)
    analysis: dict[str, Any] = field(default_factory=OFF.copy)
    model_outputs: list[dict[str, Any]] = field(default_factory=list)
    total: float | None = None


def judge(context: WriteContext) -> Generator[Request, Answer, WriteJudgement]:
    """Judge a write that is new to its session. While its agent recovers from a freeze, a reviewer decides on
    what would be allowed."""
    judgement = yield from _judge_content(context)
    if context.freezes and judgement.action == "allow":
        judgement.action, judgement.reason = "quarantine", context.freezes[0].word
    return judgement


def _judge_content(context: WriteContext) -> Generator[Request, Answer, WriteJudgement]:
    early = _judge_without_content(context)
    if early is not None:
        return early
    plan, judgement, facts = context.plan, WriteJudgement("allow", ""), _collect_facts(context)
    judgement.findings = facts.findings
    if facts.parents:
        facts = yield from _ask_lineage(context, facts, judgement)
    if plan.similarity is not None:
        facts = yield from _ask_similarity(context, plan.similarity, facts, judgement)
    if plan.is_analysed:
        facts = yield from _ask_analysis(context, facts, judgement)
    scored = plan.scorer.score(facts)
    judgement.scored, judgement.total = scored, scored.trust.total
    judgement.action, judgement.reason = scored.action, scored.reason
    return judgement


def _judge_without_content(context: WriteContext) -> WriteJudgement | None:
    plan, write = context.plan, context.write
    if context.freezes and (stop := find_stop(context.freezes)) is not None:
        return WriteJudgement("reject", stop.word)
    if plan.barred is not None:
        return WriteJudgement("reject", plan.barred)
    policy = plan.bundle.memory
    if not policy.enabled:
        return WriteJudgement("allow", SWITCHED_OFF.reason, SWITCHED_OFF, total=SWITCHED_OFF.trust.total)
    is_exempt = plan.source is not None and plan.source.quality_exempt
    if not is_exempt:
        own = frozenset({write.write_id, context.memory_id, write.session_id})
        wrong = find_faults(policy.quality, write, context.now_ms, own)
        if wrong:
            named = ", ".join(dict.fromkeys(fault.field for fault in wrong))
            return WriteJudgement("reject", f"quality_metadata: {named}", faults=wrong)
    if len(write.content) > policy.trust.max_characters:
        return WriteJudgement("reject", f"too_long: over {policy.trust.max_characters} characters")
    context.quality = release_quality(write, is_valid=not is_exempt)
    return None


def _collect_facts(context: WriteContext) -> Facts:
    observed, write = context.observed, context.write
    beside, unread = _read_beside_content(context)
    return Facts(
        context.source_type,
        observed.history,
        write.source.type != context.source_type,
        None if observed.last_at is None else max(0, context.now_ms - observed.last_at),
        inspect_text(context.plan.bundle.inspector, write.content),
        beside,
        tuple([parent.trust for parent in observed.parents]) if observed.parents else (),
        inconclusive=unread,
    )


def _read_beside_content(context: WriteContext) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    """What is found in all that is released with the content, and the field that passed a bound, if one did:
    in each field, in all of them, and where they and the content meet."""
    reader, content = context.plan.bundle.inspector.names, context.write.content
    read = reader.read(list_names(context.write, context.make_released_quality()))
    if read is NOTHING:
        return (), ()
    findings = read.findings
    first: list[Spoken] = []
    rest: list[Spoken] = []
    for word in read.words:
        (first if word.field in FIELDS_BEFORE else rest).append(word)
    if first:
        findings += reader.find_before(first, content, "content")
    if rest:
        findings += reader.find_after(content, rest, "content")
    return findings, () if read.inconclusive is None else (read.inconclusive,)


def _ask_lineage(
    context: WriteContext, facts: Facts, judgement: WriteJudgement
) -> Generator[Request, Answer, Facts]:
    policy, wanted = context.plan.bundle.memory, list_unknown(context.observed.parents)
    if not wanted or _is_rejected(context, facts):
        return facts
    approved = policy.trust.write_threshold
    request = request_lineage(context.plan.tenant, wanted, approved, policy.lineage_budget_ms)
    answer = yield from ask(GATE, request, judgement.model_outputs)
    return facts._replace(parents=resolve_parents(context.observed.parents, answer.payload))


def _ask_similarity(
    context: WriteContext, settings: SimilaritySettings, facts: Facts, judgement: WriteJudgement
) -> Generator[Request, Answer, Facts]:
    if _is_rejected(context, facts):
        judgement.similarity = NOT_NEEDED
        return facts
    request = request_similarity(context.write.content, settings)
    answer = yield from ask(GATE, request, judgement.model_outputs)
    read = read_answer(answer.payload) if answer.status == "answered" else None
    if read is None:
        judgement.similarity = {"status": "inconclusive", "detail": answer.detail or "no answer to read"}
        return facts._replace(inconclusive=(*facts.inconclusive, "similarity"))
    finding = find_similarity(read, settings)
    judgement.similarity = {"status": "measured", **read.model_dump(mode="json")}
    if finding is not None:
        judgement.findings += (finding,)
        facts = facts._replace(extra_findings=(*facts.extra_findings, finding))
    return facts._replace(inconclusive=(*facts.inconclusive, "similarity")) if read.inconclusive else facts


def _ask_analysis(
    context: WriteContext, facts: Facts, judgement: WriteJudgement
) -> Generator[Request, Answer, Facts]:
    policy = context.plan.bundle.memory
    settings, when = policy.analysis, policy.trust.llm_analysis
    if _is_rejected(context, facts) or (when == "in_doubt" and not _is_in_doubt(context, facts)):
        judgement.analysis = NOT_NEEDED
        return facts
    request = build_question(context.write.content, context.source_type, settings)
    request = replace(request, asker=Asker(context.plan.tenant, context.write.agent_id))
    answer = yield from ask(GATE, request, judgement.model_outputs)
    judged = read_analysis(answer, settings, len(context.write.content))
    judgement.analysis = judged.record()
    if judged.ceiling is not None:
        facts = facts._replace(ceiling=judged.ceiling.trust, ceiling_by="llm_analysis")
    if judged.standing == "inconclusive":
        return facts._replace(inconclusive=(*facts.inconclusive, "llm_analysis"))
    return facts


def _is_in_doubt(context: WriteContext, facts: Facts) -> bool:
    """Whether the write is in doubt, as AnalysisPolicy defines it."""
    if facts.inconclusive or facts.inspection.inconclusive is not None:
        return True
    similar = [finding for finding in facts.findings if finding.form == VECTOR]
    weights = {finding.weight for finding in facts.findings if finding.form != VECTOR}
    if similar or weights == {"weak"}:
        return True
    policy, total = context.plan.bundle.memory, context.plan.scorer.score(facts).trust.total
    numbers = policy.trust
    nearest = min(abs(total - number) for number in (numbers.write_threshold, numbers.quarantine_threshold))
    return round(nearest, DIGITS) <= policy.analysis.doubt_within


def _is_rejected(context: WriteContext, facts: Facts) -> bool:
    """Nothing that is asked can raise the score again."""
    return context.plan.scorer.score(facts).action == "reject"
