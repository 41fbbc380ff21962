"""A panel's rows that are retrieved items: what a quality gate must make of them.

A row is {"id", "kind": "retrieval", "label", "input": {"item", "quality_bundle", "autonomy_tier"}}: one item
with its age in seconds and whether its hash verified, and the tables to judge it by, with gaps or without.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from app.core.quality_bundle.lookup import Tables
from topics.records.retrievals import (  # noqa: TC001 - pydantic reads the annotations
    AutonomyTier,
    Dimension,
    QualityOutcome,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")
RETRIEVAL = "retrieval"
STRICTEST: AutonomyTier = "high_privilege"
FLAG = "flag:"
"""A label with this names a flag that must be among those set; any other is the outcome."""


class RowTables(BaseModel):
    """A row's `quality_bundle`: every table may be missing, and any of a table's entries, which null is too
    where it does not mean "no limit"."""

    model_config = ConfigDict(strict=True, frozen=True)

    ttl_by_class: dict[str, float | None] = Field(default_factory=dict)
    ttl_by_tool: dict[str, dict[str, float | None]] = Field(default_factory=dict)
    min_confidence_by_class: dict[str, float | None] = Field(default_factory=dict)
    provenance_required_by_class: dict[str, bool | None] = Field(default_factory=dict)
    default_by_class: dict[str, QualityOutcome] = Field(default_factory=dict)
    action_matrix: dict[str, dict[str, dict[Dimension, QualityOutcome]]] = Field(default_factory=dict)
    provenance_schemes: list[str] = Field(
        default_factory=lambda: ["http", "https", "gate-source", "gate-feed"]
    )

    def tables(self) -> Tables:
        """As the gate looks them up."""
        return Tables(
            self.ttl_by_class,
            self.ttl_by_tool,
            _given(self.min_confidence_by_class),
            _given(self.provenance_required_by_class),
            self.default_by_class,
            self.action_matrix,
        )


@dataclass(frozen=True, slots=True)
class RetrievalRow:
    """`bundle` None: the row brings no tables. `tier` may be any text: a row's matrix may have tiers of its
    own."""

    id: str
    file: str
    label: str
    item: dict[str, Any]
    bundle: dict[str, Any] | None
    tier: str
    tool: str | None
    kind: Literal["retrieval"] = "retrieval"

    def agrees(self, outcome: str, flags: tuple[str, ...]) -> bool:
        """Whether this is what the label says."""
        if self.label.startswith(FLAG):
            return self.label.removeprefix(FLAG) in flags
        return self.label == outcome


def _given(by_class: Mapping[str, T | None]) -> dict[str, T]:
    return {name: value for name, value in by_class.items() if value is not None}


def retrieval_row(fields: dict[str, Any]) -> RetrievalRow:
    """The item in a line's fields. Raises KeyError and TypeError."""
    given = fields["input"]
    item, bundle, label = given["item"], given.get("quality_bundle"), fields["label"]
    if not isinstance(item, dict) or not isinstance(bundle, dict | None) or not isinstance(label, str):
        raise TypeError("item and quality_bundle are objects, label is a text")
    tier, tool = given.get("autonomy_tier"), given.get("toolName", given.get("tool_name"))
    # Nobody says which tier: the strictest counts, as it does for a retrieval.
    tier = tier if isinstance(tier, str) else STRICTEST
    file = fields.get("file", fields.get("source", ""))
    return RetrievalRow(
        fields["id"], file, label, item, bundle, tier, tool if isinstance(tool, str) else None
    )
