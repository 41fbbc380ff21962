"""The numbers of the demo: config/demo/recipe.toml says each with a sentence."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from pathlib import Path

Positive = Annotated[int, Field(gt=0)]


class Recipe(BaseModel):
    """How sessions, row estimates and outcomes are made. Frozen; an unknown or missing name is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    seed: int
    session_size: Positive
    standard_every: Positive
    undeclared_every: Positive
    rows_least: Positive
    rows_most: Positive
    growth_first_rows: Positive
    growth_actions: Positive
    outcome_every: Positive
    outcome_factor: Annotated[float, Field(ge=0)]
    burst: Positive
    review_s: Annotated[float, Field(gt=0)]
    reload_s: Annotated[float, Field(gt=0)]


def load_recipe(path: Path) -> Recipe:
    """Raises pydantic's ValidationError for a file that is no recipe."""
    return Recipe.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
