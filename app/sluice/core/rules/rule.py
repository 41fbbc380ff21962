"""A rule as a bundle writes it (seed 000, Stage 1).

An invariant and an assertion must hold, what is forbidden must not. A person may overrule an assertion, but
no person may overrule an invariant or a forbidden condition.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from sluice.core.cel.bounds import MAX_SOURCE
from sluice.core.foundation.strict import StrictModel
from sluice_topics.records.base import Severity  # noqa: TC001 - pydantic reads the annotations

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


class Rule(StrictModel):
    """`when` and `condition` are CEL and yield bool; a rule whose `when` is false has passed.

    `reason` is what a person reads when the rule fails; `facts` are read as `facts.<alias>`. `escalates`: an
    assertion that fails asks a person at once, and does not deny.
    """

    id: Name
    type: Literal["invariant", "assertion", "forbidden"]
    description: str = ""
    reason: Name
    severity: Severity = "critical"
    when: Source | None = None
    condition: Source
    facts: dict[Alias, FactReference] = Field(default_factory=dict)
    escalates: bool = False

    @model_validator(mode="after")
    def _may_escalate(self) -> Self:
        if self.escalates and self.type != "assertion":
            raise ValueError("only an assertion may ask a person in place of denying")
        return self
