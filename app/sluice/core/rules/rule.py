"""A rule as a bundle writes it (seed 000, Stage 1).

An invariant and an assertion must hold, what is forbidden must not. A person may overrule an assertion, but
no person may overrule an invariant or a forbidden condition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from sluice.core.cel.bounds import MAX_SOURCE
from sluice.core.foundation.strict import StrictModel
from sluice_topics.records.base import Severity  # noqa: TC001 - pydantic reads the annotations
from sluice_topics.relaxations import ComparedBy, Neutral, Relaxation, StricterWhen, Unordered

if TYPE_CHECKING:
    from collections.abc import Iterator

Name = Annotated[str, Field(min_length=1, max_length=256)]
Source = Annotated[str, Field(min_length=1, max_length=MAX_SOURCE)]
Alias = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=64)]


class FactReference(StrictModel):
    """Which fact: `id`, or `id_from`, a CEL string. Valid when: `valid_at_from`, a CEL timestamp or RFC 3339
    text, else the broker's time of the input."""

    id: Name | None = None
    id_from: Source | None = None
    valid_at_from: Source | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.id is None) == (self.id_from is None):
            raise ValueError("give one of id and id_from")
        return self


_CHANGED = "the rule {id} has another condition, which may hold where the old one fails"
CHANGED = Unordered(_CHANGED)


def find_type_relaxations(before: Rule, after: Rule) -> Iterator[Relaxation]:
    """A person may overrule an assertion alone; between the other two the condition means the contrary."""
    if before.type != after.type:
        overruled = f"a person may overrule {before.id} now"
        sentence = overruled if after.type == "assertion" else _CHANGED.format(id=before.id)
        yield Relaxation(sentence, "type", before.type, after.type)


class Rule(StrictModel):
    """`when` and `condition` are CEL and yield bool; a rule whose `when` is false has passed.

    `reason` is what a person reads when the rule fails; `facts` are read as `facts.<alias>`. `escalates`: an
    assertion that fails asks a person at once, and does not deny.
    """

    id: Annotated[Name, Neutral("names it")]
    type: Annotated[Literal["invariant", "assertion", "forbidden"], ComparedBy(find_type_relaxations)]
    description: Annotated[str, Neutral("for people")] = ""
    reason: Annotated[Name, Neutral("for people")]
    severity: Annotated[Severity, Neutral("is recorded with the result")] = "critical"
    when: Annotated[Source | None, CHANGED] = None
    condition: Annotated[Source, CHANGED]
    facts: Annotated[dict[Alias, FactReference], CHANGED] = Field(default_factory=dict)
    escalates: Annotated[bool, StricterWhen("false", "the rule {id} asks a person and no longer denies")] = (
        False
    )

    @model_validator(mode="after")
    def _may_escalate(self) -> Self:
        if self.escalates and self.type != "assertion":
            raise ValueError("only an assertion may ask a person in place of denying")
        return self
