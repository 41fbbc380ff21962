"""Outcomes of actions that were allowed, made up: the rows that each really touched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.demo.plan import input_of
from topics.catalog import OUTCOMES, VERDICTS

if TYPE_CHECKING:
    import random

    from app.demo.answers import Answers
    from app.demo.plan import Planned
    from app.demo.recipe import Recipe


def make_outcomes(answers: Answers, recipe: Recipe, rng: random.Random, time: str) -> list[Planned]:
    """An outcome for every so many-th allowed action, reported by its agent; `time` as for `make_plan`."""
    allowed = [
        one.planned.fields
        for one in answers.of(VERDICTS)
        if one.body["verdict"] == "allowed" and one.planned.kind == "action"
    ]
    return [_outcome(action, recipe, rng, time) for action in allowed[:: recipe.outcome_every]]


def _outcome(action: dict[str, Any], recipe: Recipe, rng: random.Random, time: str) -> Planned:
    fields = {
        "action_id": action["action_id"],
        "session_id": action["session_id"],
        "rows_affected": round(action["rows_affected"] * rng.uniform(0, recipe.outcome_factor)),
        "reported_by": action["agent_id"],
    }
    return input_of("outcome", OUTCOMES, action["action_id"], fields, time)
