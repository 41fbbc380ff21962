"""The memory gate: one write, from its context to an action (seed 003; the write-time rule of seed 004).

A generator without I/O: the encoder and the model are asked by requests. What ends the evaluation before a
score is made (a freeze, an unknown agent, metadata) leaves no trust score.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sluice.core.foundation.requests import Asker, ask
from sluice.core.memory.admitted import names_after, names_before
from sluice.core.memory.analysis import analysed, question
from sluice.core.memory.lineage import lineage_request, resolved, unknown
from sluice.core.memory.similarity import VECTOR, read_answer, similarity_finding, similarity_request
from sluice.core.memory.trust import DIGITS, Facts, Trust, reason, route, score
from sluice.core.metadata.write_quality import faults
from sluice.detection.text_inspection import NOTHING, inspect_text

if TYPE_CHECKING:
    from collections.abc import Generator

    from sluice.core.foundation.requests import Answer, Request
    from sluice.core.memory.memory_context import WriteContext
    from sluice.core.metadata.write_quality import Fault
    from sluice.core.policy.memory_policy import MemoryPolicy
    from sluice.detection.text_inspection import Finding

GATE = "memory"
OFF: dict[str, Any] = {"status": "off"}
NOT_NEEDED: dict[str, Any] = {"status": "not_needed"}
SWITCHED_OFF = Trust(-1, -1, {}, ())


@dataclass(slots=True)
class Judgement:
    """What the gate made of a write, before shadow mode. `trust` None: no score was needed."""

    action: str
    reason: str
    trust: Trust | None = None
    findings: tuple[Finding, ...] = ()
    faults: tuple[Fault, ...] = ()
    similarity: dict[str, Any] = field(default_factory=lambda: OFF)
    analysis: dict[str, Any] = field(default_factory=lambda: OFF)
    model_outputs: list[dict[str, Any]] = field(default_factory=list)


def judge(context: WriteContext) -> Generator[Request, Answer, Judgement]:
    """Judge a write that is new to its session."""
    early = _without_content(context)
    if early is not None:
        return early
    policy = context.bundle.memory
    found = Judgement("allow", "")
    facts = _facts(context)
    found.findings = facts.findings
    facts = yield from _with_lineage(context, policy, facts, found)
    facts = yield from _with_similarity(context, policy, facts, found)
    facts = yield from _with_analysis(context, policy, facts, found)
    trust = score(policy.trust, facts)
    found.trust = trust
    found.action = route(policy.trust, trust)
    found.reason = reason(policy.trust, trust)
    return found


def _without_content(context: WriteContext) -> Judgement | None:
    if (barred := _barred(context)) is not None:
        return Judgement("reject", barred)
    policy = context.bundle.memory
    if not policy.enabled:
        return Judgement("allow", "memory_gate_disabled", SWITCHED_OFF)
    wrong = _faults(context)
    if wrong:
        named = ", ".join(dict.fromkeys(fault.field for fault in wrong))
        return Judgement("reject", f"quality_metadata: {named}", faults=wrong)
    if len(context.write.content) > policy.trust.max_characters:
        return Judgement("reject", f"too_long: over {policy.trust.max_characters} characters")
    return None


def _barred(context: WriteContext) -> str | None:
    if context.freezes:
        first = context.freezes[0]
        return f"frozen_{first.subject}: {first.reason}"
    if context.agent is None:
        return f"unknown_agent: {context.write.agent_id}"
    known = context.bundle_asked_for == context.bundle.id
    return None if known else f"unknown_bundle: {context.bundle_asked_for}"


def _faults(context: WriteContext) -> tuple[Fault, ...]:
    if context.source is not None and context.source.quality_exempt:
        return ()
    write = context.write
    own = frozenset({write.write_id, context.memory_id, write.session_id})
    return faults(context.bundle.memory.quality, write, context.now_ms, own)


def _facts(context: WriteContext) -> Facts:
    seen = context.seen
    counts_as = context.source_type
    beside, unread = _beside_the_content(context)
    return Facts(
        source_type=counts_as,
        history=seen.history,
        mismatch=context.write.source.type != counts_as,
        since_last_ms=None if seen.last_at is None else max(0, context.now_ms - seen.last_at),
        inspection=inspect_text(context.bundle.inspector, context.write.content),
        extra_findings=beside,
        inconclusive=unread,
        parents=tuple(parent.trust for parent in seen.parents),
    )


def _beside_the_content(context: WriteContext) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    """What is found in all that is released with the content, and the field that passed a bound, if one did:
    in each field, in all of them, and where they and the content meet."""
    reader, content = context.bundle.inspector.names, context.write.content
    before, after = names_before(context.write), names_after(context.write)
    read = reader.read([*before, *after])
    if read is NOTHING:
        return (), ()
    fields = {field for field, _ in before}
    first = [one for one in read.words if one.field in fields]
    rest = [one for one in read.words if one.field not in fields]
    met = (*reader.before(first, content, "content"), *reader.after(content, rest, "content"))
    return (*read.findings, *met), () if read.inconclusive is None else (read.inconclusive,)


def _with_lineage(
    context: WriteContext, policy: MemoryPolicy, facts: Facts, found: Judgement
) -> Generator[Request, Answer, Facts]:
    wanted = unknown(context.seen.parents)
    if not wanted or _rejected(policy, facts):
        return facts
    approved = policy.trust.write_threshold
    request = lineage_request(context.tenant, wanted, approved, policy.lineage_budget_ms)
    answer = yield from ask(GATE, request, found.model_outputs)
    return replace(facts, parents=resolved(context.seen.parents, answer.payload))


def _with_similarity(
    context: WriteContext, policy: MemoryPolicy, facts: Facts, found: Judgement
) -> Generator[Request, Answer, Facts]:
    settings = policy.similarity
    if settings is None or not settings.enabled:
        return facts
    if _rejected(policy, facts):
        found.similarity = NOT_NEEDED
        return facts
    request = similarity_request(context.write.content, settings)
    answer = yield from ask(GATE, request, found.model_outputs)
    read = read_answer(answer.payload) if answer.status == "answered" else None
    if read is None:
        found.similarity = {"status": "inconclusive", "detail": answer.detail or "no answer to read"}
        return replace(facts, inconclusive=(*facts.inconclusive, "similarity"))
    finding = similarity_finding(read, settings)
    found.similarity = {"status": "measured", **read.model_dump(mode="json")}
    if finding is not None:
        found.findings += (finding,)
        facts = replace(facts, extra_findings=(*facts.extra_findings, finding))
    return replace(facts, inconclusive=(*facts.inconclusive, "similarity")) if read.inconclusive else facts


def _with_analysis(
    context: WriteContext, policy: MemoryPolicy, facts: Facts, found: Judgement
) -> Generator[Request, Answer, Facts]:
    settings, when = policy.analysis, policy.trust.llm_analysis
    if when == "off":
        return facts
    if _rejected(policy, facts) or (when == "in_doubt" and not _in_doubt(policy, facts)):
        found.analysis = NOT_NEEDED
        return facts
    request = question(context.write.content, context.source_type, settings)
    request = replace(request, asker=Asker(context.tenant, context.write.agent_id))
    answer = yield from ask(GATE, request, found.model_outputs)
    judged = analysed(answer, settings, len(context.write.content))
    found.analysis = judged.record()
    if judged.ceiling is not None:
        facts = replace(facts, ceiling=judged.ceiling.trust, ceiling_by="llm_analysis")
    if judged.standing == "inconclusive":
        return replace(facts, inconclusive=(*facts.inconclusive, "llm_analysis"))
    return facts


def _in_doubt(policy: MemoryPolicy, facts: Facts) -> bool:
    """As AnalysisPolicy defines it."""
    if facts.inconclusive or facts.inspection.inconclusive is not None:
        return True
    similar = [one for one in facts.findings if one.form == VECTOR]
    weights = {one.weight for one in facts.findings if one.form != VECTOR}
    if similar or weights == {"weak"}:
        return True
    total, numbers = score(policy.trust, facts).total, policy.trust
    nearest = min(abs(total - one) for one in (numbers.write_threshold, numbers.quarantine_threshold))
    return round(nearest, DIGITS) <= policy.analysis.doubt_within


def _rejected(policy: MemoryPolicy, facts: Facts) -> bool:
    """Nothing that is asked can raise the score again."""
    return score(policy.trust, facts).total < policy.trust.quarantine_threshold
