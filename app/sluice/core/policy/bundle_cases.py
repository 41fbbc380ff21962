"""A bundle's own cases, as written: an input and its required result. `sluice.core.cases.cases` runs them."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import Field, model_validator

from sluice.core.foundation.strict import Instant, StrictModel
from sluice.core.registry.registry_entries import EntryFile  # noqa: TC001 - pydantic reads the annotations
from sluice.core.state.recent_retrieval import ReadKind  # noqa: TC001 - the same
from sluice_topics.records.base import Count, Outcome, Tier  # noqa: TC001 - the same
from sluice_topics.records.memory import MemoryAction
from sluice_topics.relaxations import Neutral

Name = Annotated[str, Field(min_length=1, max_length=256)]
MOST_EARLIER = 8
"""Every worker runs every case before a bundle is in force."""
LONGEST_MS = 24 * 3600 * 1000
_OUTCOMES: tuple[Outcome, ...] = ("ALLOW", "ESCALATE", "BLOCK")
_ACTIONS: tuple[MemoryAction, ...] = get_args(MemoryAction)
"""The mildest first."""


class SessionSoFar(StrictModel):
    """The session's totals before the case's action, and how often untrusted content of each kind came in."""

    aggregate_rows_affected: Annotated[Count, Field(alias="aggregateRowsAffected")] = 0
    aggregate_action_count: Annotated[Count, Field(alias="aggregateActionCount")] = 0
    read: dict[ReadKind, Annotated[int, Field(ge=1, le=2**31)]] = Field(default_factory=dict)


class Earlier(StrictModel):
    """A ProposedAction that came `before_ms` before the case's, in the same session and of the same agent
    unless it names another. What it leaves out is filled in as in the case's own."""

    action: dict[str, Any]
    before_ms: Annotated[int, Field(ge=0, le=LONGEST_MS)] = 0


class Expected(StrictModel):
    """The required result; fields that are left out are not compared.

    For an action: `outcome`; `gate` is the last gate that did not pass, `reason` the beginning of the
    verdict's blockReason, `rules` the `passed` of rules by id (null: inconclusive). For a memory write:
    `action`; `reason` is the beginning of the decision's reason, `findings` ids that must be among those
    found.
    """

    outcome: Outcome | None = None
    action: MemoryAction | None = None
    findings: list[Name] = Field(default_factory=list)
    gate: Name | None = None
    reason: Name | None = None
    tier: Tier | None = None
    rules: dict[Name, bool | None] = Field(default_factory=dict)


def expects_stricter(new: Expected, old: Expected) -> bool:
    """Whether a case expects a stricter outcome of its action, or of its memory write, than before, and of
    rules, findings and the tier no less."""
    if not (new.rules.items() >= old.rules.items() and set(new.findings) >= set(old.findings)):
        return False
    if old.tier is not None and new.tier != old.tier:
        return False
    if new.outcome is not None and old.outcome is not None:
        return _OUTCOMES.index(new.outcome) > _OUTCOMES.index(old.outcome)
    if new.action is not None and old.action is not None:
        return _ACTIONS.index(new.action) > _ACTIONS.index(old.action)
    return False


class Case(StrictModel):
    """`action` is a ProposedAction, `write` a ProposedMemoryWrite; one of them. Ids and metadata that it
    leaves out, and its agent and tool where `registry` does not have them, are filled in neutrally.

    `at` is the input's broker time. `earlier`: what the session saw before, the oldest first, for gates that
    remember; the totals of `session` come on top. `answers` are what the ports answer, to an action the
    encoder's alone; without one the bundle's encoder or model is not asked.
    """

    unmarked: ClassVar = Neutral("compared as a whole, with the other cases")

    name: Name
    action: dict[str, Any] | None = None
    write: dict[str, Any] | None = None
    answers: dict[Literal["embedding", "analysis"], Any] = Field(default_factory=dict)
    expect: Expected
    registry: list[EntryFile] = Field(default_factory=list)
    session: SessionSoFar = SessionSoFar()
    earlier: Annotated[list[Earlier], Field(max_length=MOST_EARLIER)] = Field(default_factory=list)
    at: Instant = "2026-01-01T00:00:00.000Z"

    @model_validator(mode="after")
    def _check_one_kind(self) -> Self:
        if (self.action is None) is (self.write is None):
            raise ValueError("a case has an action or a write")
        expect = self.expect
        of_actions = (expect.outcome, expect.gate, expect.tier, expect.rules or self.earlier)
        of_writes = (expect.action, expect.findings, "analysis" in self.answers)
        own, foreign = (of_actions, of_writes) if self.write is None else (of_writes, of_actions)
        if own[0] is None:
            raise ValueError(f"expect.{'outcome' if self.write is None else 'action'} is required")
        if any(foreign):
            raise ValueError("expects of an action what only a write has, or the other way round")
        return self
