"""Sessions whose gates ask a model, and the model's answers."""

from __future__ import annotations

from math import log
from typing import Any

from sluice.core.actions.causal import EXTRACT, JUDGE
from sluice.core.actions.grading import GRADE
from sluice.core.foundation.requests import Answer
from tests.unit.core.scene import Session, bundle, entry, point

GRADED = ["controls", "fast_reject", "rules", "consequence", "topology", "grader", "tier_auth"]
JUDGED = ["controls", "fast_reject", "rules", "consequence", "causal", "topology", "tier_auth"]
POLITE = {"id": "polite", "reason": "a message must be polite", "criterion": "The message is polite."}
COMPARED = ["controls", "fast_reject", "rules", "similarity", "consequence", "topology", "tier_auth"]
ALIKE: dict[str, Any] = {
    "enabled": True,
    "library": "sha256:" + 64 * "a",
    "calibration": {"harmful": 10.0, "harmless": -10.0, "lean": 0.0, "intercept": 0.0},
}
PROMPT = "You help customers of a shop. Never refund more than 100 euros. Never name other customers."
UNPROVED = {"required": False}
"""A bundle's word that a model needs no proof."""
LISTED = ["Never refund more than 100 euros.", "Never name other customers."]


def grade(*scores: float, rules: tuple[dict[str, Any], ...] = (POLITE,), **changes: Any) -> Session:
    """A session whose grader answers with these scores, one after the other."""
    part = {"rules": list(rules), "proof": UNPROVED, **changes}
    policy = bundle(patterns={}, stages=GRADED, grader=part)
    return Session(point(policy=policy), answers=[make_score(one) for one in scores])


def make_score(score: float) -> Answer:
    """The grader's answer."""
    told = {"model": "m", "prompt_version": GRADE.version, "compliance": score, "reasoning": "so"}
    return Answer("answered", told)


def judge(*answers: Answer, agent: dict[str, Any] | None = None, **part: Any) -> Session:
    """A session of an agent with such an entry, whose model answers so."""
    policy = bundle(patterns={}, stages=JUDGED, causal={"enabled": True, **part}, grader={"proof": UNPROVED})
    spec = {"system_prompt": PROMPT} if agent is None else agent
    made = entry("agent", "clerk", tenant_id="acme", tier="T3", **spec)
    return Session(point(made, policy=policy), answers=list(answers))


def extraction(*constraints: str) -> Answer:
    """The constraints in a prompt."""
    told = {"model": "m", "prompt_version": EXTRACT.version, "constraints": list(constraints)}
    return Answer("answered", told)


def judgement(confidence: float, constraint: int = 1) -> Answer:
    """How likely one of them is violated."""
    told = {"model": "m", "prompt_version": JUDGE.version, "violation_confidence": confidence}
    return Answer("answered", {**told, "constraint": constraint, "reasoning": "It would."})


def compare(*answers: Answer, **part: Any) -> Session:
    """A session whose actions are compared with known ones, and whose encoder answers so."""
    policy = bundle(patterns={}, stages=COMPARED, similarity={**ALIKE, **part})
    return Session(point(policy=policy), answers=list(answers))


def make_resembling(
    harmful: tuple[float, ...] = (0.5,), harmless: tuple[float, ...] = (0.5,), **told: Any
) -> Answer:
    """The encoder's answer, with these cosines to the closest known actions."""
    sides = {"harmful": harmful, "harmless": harmless}
    named = {
        side: [{"id": f"{side}.{place}", "cosine": one} for place, one in enumerate(cosines)]
        for side, cosines in sides.items()
    }
    seen = {"model": "m", "library": ALIKE["library"], "windows": 1, "of": 1, "unknown": 0.0, "lean": 0.0}
    return Answer("answered", {**seen, **named, **told})


def make_in_doubt(gate: str, *probabilities: float, answers: tuple[Answer, ...] = ()) -> Session:
    """A session whose gate asks a model only in doubt. Its actions do harm with these probabilities, as the
    encoder has it; `answers`: the model's."""
    parts: dict[str, dict[str, Any]] = {
        "causal": {"causal": {"enabled": True, "ask": "in_doubt"}, "grader": {"proof": UNPROVED}},
        "grader": {"grader": {"rules": [POLITE], "proof": UNPROVED, "ask": "in_doubt"}},
    }
    stages = [*COMPARED[:-1], gate, COMPARED[-1]]
    policy = bundle(patterns={}, stages=stages, similarity={**ALIKE, "above": "doubtful"}, **parts[gate])
    agent = entry("agent", "clerk", tenant_id="acme", tier="T3", constraints=LISTED)
    return Session(point(agent, policy=policy), answers=[*map(likely, probabilities), *answers])


def likely(probability: float) -> Answer:
    """The encoder's answer from which the calibration of `ALIKE` makes this probability, to 6 digits."""
    apart = log(probability / (1 - probability)) / 10
    return make_resembling((0.5 + apart / 2,), (0.5 - apart / 2,))
