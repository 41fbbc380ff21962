"""What config/demo says: the demo's numbers (recipe.toml), and what its agents read (retrievals.toml)."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Annotated, Any, Literal

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


Share = Annotated[float, Field(ge=0, le=1)]
Span = Annotated[list[Annotated[float, Field(ge=0)]], Field(min_length=2, max_length=2)]
Word = Annotated[str, Field(min_length=1)]
OfClass = Annotated[str, Field(alias="class", min_length=1)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ReadingRule(_Part):
    """How often ordinary sessions read, and what is wrong with an item how often."""

    actions_each: Positive
    items_most: Positive
    stale: Share
    unsure: Share
    unsourced: Share
    altered: Share
    fresh_age: Span
    stale_age: Span
    categories: Annotated[list[Word], Field(min_length=1)]


class Tiers(_Part):
    """Agents' registered autonomy tiers."""

    default: Literal["sandbox", "bounded", "high_privilege"]
    sandbox: list[Word]
    high_privilege: list[Word]

    def of(self, agent: str) -> str:
        """The agent's tier."""
        if agent in self.sandbox:
            return "sandbox"
        return "high_privilege" if agent in self.high_privilege else self.default


class FlagOnlyClass(_Part):
    """The class in flag-only, and since how many days."""

    flag_only: Word
    days: Positive


class ClassSource(_Part):
    """Where a class comes from. `source_id`: of a source that is registered."""

    content_class: OfClass
    by: Literal["recorded", "signed"]
    uri: Word
    source_id: Word | None = None


class BadItem(_Part):
    """An item that nobody may read."""

    item_id: Word
    reason: Word


class LibraryText(_Part):
    """A text of ordinary work."""

    content_class: OfClass
    text: Word


class StoryItem(LibraryText):
    """An item of the story. `reference`: "verified", "altered", or the URI that it names."""

    item_id: Word
    age_days: Annotated[float, Field(ge=0)]
    score: Share
    reference: Word


class Override(_Part):
    """What the reviewer answers."""

    hours: Positive
    justification: Word


class ItemStory(_Part):
    """What one session reads, and what it needs a contract for."""

    high_impact_category: Word
    read: Annotated[list[StoryItem], Field(min_length=1)]
    contract: Annotated[list[StoryItem], Field(min_length=1)]
    override: Override

    @property
    def items(self) -> list[StoryItem]:
        """All of them."""
        return [*self.read, *self.contract]


class ReadingLibrary(_Part):
    """The whole file. Frozen; an unknown or missing name is refused."""

    rule: ReadingRule
    tiers: Tiers
    rollout: FlagOnlyClass
    source: list[ClassSource]
    known_bad: list[BadItem]
    story: ItemStory
    text: Annotated[list[LibraryText], Field(min_length=1)]

    def source_of(self, content_class: str) -> ClassSource:
        """Raises KeyError for a class that comes from nowhere."""
        return {one.content_class: one for one in self.source}[content_class]


def load_library(path: Path) -> ReadingLibrary:
    """Raises pydantic's ValidationError for a file that is none."""
    document: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    return ReadingLibrary.model_validate(document)
