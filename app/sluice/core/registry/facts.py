"""Locked facts: values that hold for a span of time, as the registry knows them (product.md, Stage 1).

Two things choose the revision: the span must contain the event's time, and of all revisions in the registry
whose span contains it, the highest counts. A correction of the past is therefore a new revision over the same
span, and a change from a certain day on is a new revision that starts on that day.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, field_validator, model_validator

from sluice.core.cel.cel_values import Values
from sluice.core.foundation.strict import Instant, StrictModel

if TYPE_CHECKING:
    from collections.abc import Iterable

Name = Annotated[str, Field(min_length=1, max_length=256)]


class FactSpec(StrictModel):
    """A fact. `value` is any JSON value; the span is from `valid_from` to before `valid_to`, null for no end.

    `tenant_id` null: every tenant's rules may cite it.
    """

    value: Any
    valid_from: Instant
    valid_to: Instant | None = None
    tenant_id: Name | None = None

    @model_validator(mode="after")
    def _check_span(self) -> Self:
        if self.valid_to is not None and self.valid_to <= self.valid_from:
            raise ValueError("valid_to must be later than valid_from")
        return self

    @field_validator("value")
    @classmethod
    def _check_size(cls, value: Any) -> Any:
        if Values({"value": value}).left_out:
            raise ValueError("too large for rules to read")
        return value


@dataclass(frozen=True, slots=True)
class Fact:
    """One revision of a fact. `key` is "fact/id@revision", `hash` covers the whole entry; times are in ms
    since 1970, `valid_to_ms` itself is not in the span; `tenant` None: for all tenants."""

    id: str
    key: str
    hash: str
    value: Any
    valid_from_ms: int
    valid_to_ms: int | None
    tenant: str | None = None

    @property
    def revision(self) -> int:
        """The revision's number."""
        return int(self.key.rpartition("@")[2])

    def speaks_of(self, tenant: str, at_ms: int) -> bool:
        """Whether the span contains a moment, for this tenant."""
        ended = self.valid_to_ms is not None and at_ms >= self.valid_to_ms
        return self.valid_from_ms <= at_ms and not ended and self.tenant in {None, tenant}


def find_in_force(revisions: Iterable[Fact], tenant: str, at_ms: int) -> Fact | None:
    """The revision of a fact that counts for a moment (ms since 1970); None if no span contains it."""
    speaking = (revision for revision in revisions if revision.speaks_of(tenant, at_ms))
    return max(speaking, key=lambda fact: fact.revision, default=None)
