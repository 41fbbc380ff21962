"""A stage that ran, as an item's record has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict, get_args

from topics.records.retrievals import StageName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from topics.records.retrievals import QualityOutcome


class Stage(TypedDict):
    """The fields stand in canonical order. Nobody changes one: records share those of `PASSED`."""

    outcome: QualityOutcome
    reason: str | None
    stage: StageName


def stage_of(name: StageName, outcome: QualityOutcome, reason: str | None) -> Stage:
    """What a stage came to."""
    return {"outcome": outcome, "reason": reason, "stage": name}


PASSED: Mapping[StageName, Stage] = {name: stage_of(name, "pass", None) for name in get_args(StageName)}
"""Of each stage the one that most items leave behind."""
