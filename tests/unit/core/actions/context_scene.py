"""Sessions with a mandate and tools with roles, whose gates ask a model, and what they ask it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sluice.core.actions.causal import JUDGE, JUDGE_IN_CONTEXT
from sluice.core.actions.grading import GRADE, GRADE_IN_CONTEXT
from sluice.core.actions.inbound import JUDGE_IN_CONTEXT as CONTENT_IN_CONTEXT
from sluice.core.foundation.content_judge import PROMPT
from sluice.core.foundation.requests import Answer
from tests.unit.core.actions.judging_scene import LISTED, POLITE, UNPROVED
from tests.unit.core.actions.mandate_scene import ISSUERS, Mandated
from tests.unit.core.rerun.reruns import document
from tests.unit.core.scene import entry, make_counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice.core.foundation.prompts import Prompt
    from sluice.core.foundation.requests import Request

TASK = "Pay invoice 7 to DE89 3704 0044 0532 0130 00"
NAMED, STRANGE = "DE89370400440532013000", "GB82WEST12345698765432"
TRANSFER = make_counted(
    "transfer",
    tier="T2",
    action_type="PAYMENT",
    reversible=True,
    roles={"destination": ["$.iban"], "content": ["$.text"]},
)
ASKING = ["controls", "fast_reject", "destinations", "causal", "policies", "grader", "tier_auth"]
POLICY = {
    "id": "notes",
    "title": "Notes",
    "text": "A payment has a note.",
    "source": {"document": "Payments", "place": "section 1"},
    "appliesToTools": ["*"],
}
PORTS: dict[str, Prompt[Any]] = {
    "grader": GRADE,
    "grader_in_context": GRADE_IN_CONTEXT,
    "causal": JUDGE,
    "causal_in_context": JUDGE_IN_CONTEXT,
    "content": PROMPT,
    "content_in_context": CONTENT_IN_CONTEXT,
}
"""The prompt of each port that judges an action."""


@dataclass
class Asked(Mandated):
    """A case whose model finds everything in order, and what it was asked."""

    requests: list[Request] = field(default_factory=list)

    def list_questions(self) -> list[dict[str, Any]]:
        """The questions so far."""
        return [one.payload["question"] for one in self.requests]  # type: ignore[index]

    def find_detail(self, gate: str) -> dict[str, Any]:
        """What a gate wrote into the last verdict."""
        found: dict[str, Any] = next(
            one["detail"] for one in self.verdicts[-1]["gateResults"] if one["gate"] == gate
        )
        return found


def make_asked(
    *more: dict[str, Any],
    stages: Sequence[str] = ASKING,
    score: float = 0.95,
    proof: dict[str, Any] = UNPROVED,
    **parts: Any,
) -> Asked:
    """A case in which `operator` is under constraints and three gates ask; `score`: what the grader says."""
    given = {
        "destinations": {"mode": "observe"},
        "causal": {"enabled": True},
        "policies": {"policies": [POLICY]},
        "grader": {"rules": [POLITE], "proof": proof},
        **parts,
    }
    agent = entry("agent", "operator", 2, tenant_id="acme", tier="T3", constraints=LISTED)
    case = Asked(entries=(*ISSUERS, TRANSFER, agent, *more), bundle=document(stages=[*stages], **given))

    def answer(request: Request) -> Answer:
        case.requests.append(request)
        prompt = PORTS[request.port]
        said: dict[str, Any] = {"model": "m", "prompt_version": prompt.version, "reasoning": "so"}
        if request.port.startswith("content"):
            del said["reasoning"]
            trusted = {"trust": 0.9, "categories": [], "explanation": "so", "text": 0}
            return Answer("answered", {**said, **trusted})
        if request.port.startswith("causal"):
            return Answer("answered", {**said, "violation_confidence": 0.1, "constraint": 0})
        return Answer("answered", {**said, "compliance": score})

    case.answer = answer
    return case


def transfer(case: Asked, iban: str = NAMED, mandate: str | None = None, **more: Any) -> dict[str, Any]:
    """The verdict on a payment."""
    parameters = {"iban": iban, "text": "invoice 7"}
    named = {"action_id": f"a-{len(case.verdicts)}", "toolName": "transfer", "parameters": parameters}
    return case.propose(**named, mandate_digest=mandate, **more)
