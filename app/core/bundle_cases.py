"""A bundle's own cases, as written: what must come of an action under it. `app.core.cases` runs them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from app.core.registry_entries import EntryFile  # noqa: TC001 - pydantic reads the annotations
from app.core.strict import Instant, StrictModel
from topics.records.base import Count, Outcome, Tier  # noqa: TC001 - the same

Name = Annotated[str, Field(min_length=1, max_length=256)]


class SessionSoFar(StrictModel):
    """The session's totals before the case's action."""

    aggregate_rows_affected: Annotated[Count, Field(alias="aggregateRowsAffected")] = 0
    aggregate_action_count: Annotated[Count, Field(alias="aggregateActionCount")] = 0


class Expected(StrictModel):
    """What must come of it; what is not given is not looked at.

    `gate` is the last gate that did not pass, `reason` the beginning of the verdict's blockReason, `rules`
    the `passed` of rules by id (null: inconclusive).
    """

    outcome: Outcome
    gate: Name | None = None
    reason: Name | None = None
    tier: Tier | None = None
    rules: dict[Name, bool | None] = Field(default_factory=dict)


class Case(StrictModel):
    """`action` is a ProposedAction; ids that it leaves out, and its agent and tool where `registry` does not
    have them, are filled in neutrally. `at` is the input's broker time."""

    name: Name
    action: dict[str, Any]
    expect: Expected
    registry: list[EntryFile] = Field(default_factory=list)
    session: SessionSoFar = SessionSoFar()
    at: Instant = "2026-01-01T00:00:00.000Z"
