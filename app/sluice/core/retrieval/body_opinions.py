"""A model's opinion on retrieved bodies, after every item of the request was judged without it.

All bodies are asked about at once, each by itself. An answer counts as a finding of a weight, so it can only
make an item's outcome stricter. Each item's decision keeps the answer on its body, and is executed again with
it alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.core.foundation.content_judge import PROMPT, TOGETHER, show_texts
from sluice.core.foundation.requests import Answer, Request, ask
from sluice.core.quality_bundle.severity import SEVERITY
from sluice.core.retrieval.judgement import INCONCLUSIVE, STAGE, SUSPECT, UNSAFE

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from sluice.core.foundation.content_judge import ContentJudgement, ShownTexts
    from sluice.core.quality_bundle.content_settings import ContentJudge, ContentWeight
    from sluice.core.quality_bundle.quality_bundle import QualityBundle
    from sluice.core.retrieval.judgement import Judged
    from sluice.core.retrieval.plan import RetrievalContext
    from sluice_topics.records.retrievals import QualityOutcome


def ask_about(context: RetrievalContext, judged: Sequence[Judged]) -> Generator[Request, Answer, None]:
    """Ask about the bodies that are to be asked about, and take what is answered. Those beyond the bound get
    no answer."""
    bundle, items = context.plan.quality, [item for item in judged if item.asks]
    if bundle is None or not items:
        return
    policy = bundle.file.content_judge
    asked, left = items[: policy.most_items], items[policy.most_items :]
    shown = [show_texts("retrieved", [item.body.text], policy.most_characters, None) for item in asked]
    payload = {
        "scope": {"tenant": context.plan.tenant, "bundle": bundle.hash, "rule": "content_judge"},
        "questions": [shown_texts.question for shown_texts in shown],
        "asker": [context.plan.tenant, context.retrieval.agent_id],
    }
    described: list[dict[str, Any]] = []
    answer = yield from ask(STAGE, Request(TOGETHER, payload, policy.budget_ms), described)
    replies = answer.payload if isinstance(answer.payload, dict) else {}
    answers = replies.get("answers")
    fits = isinstance(answers, list) and len(answers) == len(asked)
    for index, (judged_item, of) in enumerate(zip(asked, shown, strict=True)):
        own = {"answers": [answers[index]]} if isinstance(answers, list) and fits else None
        judged_item.model_outputs = ({**described[0], "payload": own},)
        _take(context, bundle, judged_item, own if answer.status == "answered" else answer.status, of)
    unasked = f"over {policy.most_items} bodies of a request"
    for judged_item in left:
        nobody = {"gate": STAGE, "port": TOGETHER, "status": "unavailable", "payload": None}
        judged_item.model_outputs = ({**nobody, "detail": unasked},)
        _take(context, bundle, judged_item, "unavailable", None)


def _take(
    context: RetrievalContext, bundle: QualityBundle, judged: Judged, reply: object, shown: ShownTexts | None
) -> None:
    """Make of a body's answer what it comes to at the reader's tier."""
    policy, read = bundle.file.content_judge, _read(reply)
    weight, reason = (None, "") if read is None else _weigh(policy, read)
    if weight is None:
        judged.unjudged = _explain_unjudged(reply, read, shown)
        if judged.unjudged is not None and policy.on_failure == "strong":
            weight, reason = INCONCLUSIVE, f"inconclusive: {judged.unjudged}"
    action: QualityOutcome = "pass" if weight is None else bundle.content_outcome(context.plan.tier, weight)
    if action == "pass":
        return
    if SEVERITY[action] > SEVERITY[judged.stages[-1]["outcome"]]:
        judged.ran(STAGE, action, reason)
    if SUSPECT not in judged.flags:
        judged.flags = (*judged.flags, SUSPECT)
        judged.codes = (*judged.codes, UNSAFE)
    if context.plan.is_shadowed:
        judged.outcome = judged.real
    judged.comes_to(action, reason)
    if context.plan.is_shadowed:
        judged.outcome = "flag"


def _read(reply: object) -> ContentJudgement | None:
    answers = reply.get("answers") if isinstance(reply, dict) else None
    return PROMPT.read(answers[0]) if isinstance(answers, list) and len(answers) == 1 else None


def _weigh(policy: ContentJudge, read: ContentJudgement) -> tuple[ContentWeight | None, str]:
    """The weight of the finding that an answer counts as, and why; None: it counts as none."""
    reason = f"judged: trust {read.trust:.2f}: {', '.join(read.categories) or 'no category'}"
    if read.trust < policy.definite_below:
        return "definite", reason
    return ("strong", reason) if read.trust < policy.strong_below else (None, "")


def _explain_unjudged(reply: object, read: ContentJudgement | None, shown: ShownTexts | None) -> str | None:
    """Why a body was not judged whole; None: it was."""
    if read is None:
        why = reply if isinstance(reply, str) else "it cannot be read"
        return f"the model's answer on the body is missing: {why}"
    return f"{shown.omitted} characters were not judged" if shown is not None and shown.omitted else None
