"""The form of a quality bundle's tables for look-up: one cell for each tier and class, computed once.

The tables may have gaps here, like the rows of a conformance file; a published bundle has none.
"""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from sluice.core.foundation.clock import span
from sluice.core.quality_bundle.severity import SEVERITY, TIERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sluice_topics.records.retrievals import Dimension, QualityOutcome

    ByDimension = Mapping[Dimension, QualityOutcome]

Milliseconds = int | Decimal
_MS = 1000
FALLBACK: dict[str, QualityOutcome] = {"high_privilege": "deny"}
"""The outcome of a failed dimension if neither the matrix nor the class's default has one."""
FALLBACK_ELSEWHERE: QualityOutcome = "flag"
UNREGISTERED: dict[str, QualityOutcome] = {"high_privilege": "deny"}
"""The mildest outcome of a reference with an unregistered scheme. The matrix's outcome of provenance counts
if it is severer (product.md, "Retrievals")."""
UNREGISTERED_ELSEWHERE: QualityOutcome = "flag"
_severest = partial(max, key=SEVERITY.__getitem__)


class Tables(NamedTuple):
    """By content class: seconds or None (no limit), 0..1, whether a reference is required, an outcome.

    `ttl_by_tool` by tool, then class; `action_matrix` by tier, class, dimension. `named` are classes in
    other tables of the bundle.
    """

    ttl_by_class: Mapping[str, float | None]
    ttl_by_tool: Mapping[str, Mapping[str, float | None]]
    min_confidence_by_class: Mapping[str, float]
    provenance_required_by_class: Mapping[str, bool]
    default_by_class: Mapping[str, QualityOutcome]
    action_matrix: Mapping[str, Mapping[str, ByDimension]]
    named: frozenset[str] = frozenset()

    def classes(self) -> frozenset[str]:
        """Every class that any table names."""
        return self.named.union(
            self.ttl_by_class,
            self.min_confidence_by_class,
            self.provenance_required_by_class,
            self.default_by_class,
            *self.ttl_by_tool.values(),
            *self.action_matrix.values(),
        )

    def outcome(self, tier: str, content_class: str, dimension: Dimension) -> QualityOutcome:
        """The outcome of a failed dimension: from the matrix, else the class's default, else the fallback."""
        written = self.action_matrix.get(tier, {}).get(content_class, {}).get(dimension)
        default = self.default_by_class.get(content_class)
        return written or default or FALLBACK.get(tier, FALLBACK_ELSEWHERE)


class ClassLimit(NamedTuple):
    """A time to live. `ms` None: every age is fresh, but the item must have an age. `text` is for people."""

    ms: Milliseconds | None
    seconds: float | None
    text: str


class Cell(NamedTuple):
    """The limits for one tier and class. `limit` or `minimum` None: the dimension is not judged. `least`
    is the minimum in words.

    `freshness`, `confidence` and `provenance` are the outcomes of these dimensions when they fail.
    """

    is_known: bool
    limit: ClassLimit | None
    minimum: float | None
    least: str
    required: bool
    freshness: QualityOutcome
    confidence: QualityOutcome
    provenance: QualityOutcome
    unregistered: QualityOutcome


class Lookup:
    """The tables, ready for look-up."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.classes = tables.classes()
        self.cells = {(tier, name): self._cell(tier, name) for tier, name in self._places()}
        self._strictest = {tier: self._make_unnamed(tier) for tier in {*TIERS, *tables.action_matrix}}
        self.tool_limits = {
            (tool, name): _make_limit(ttl, f"{name} for {tool}")
            for tool, by_class in tables.ttl_by_tool.items()
            for name, ttl in by_class.items()
        }

    def cell(self, tier: str, content_class: str | None) -> Cell:
        """The cell of any tier and class, also of a class that no table names."""
        cell = self.cells.get((tier, content_class or "")) or self._strictest.get(tier)
        return cell or self._cell(tier, content_class or "")

    def limit(self, tool: str | None, content_class: str | None) -> ClassLimit | None:
        """The time to live of a class for a tool; None: the bundle has none."""
        own = self.tool_limits.get((tool or "", content_class or ""))
        return own or self.cell("", content_class).limit

    def is_stricter(self, tool: str, content_class: str | None) -> bool:
        """Whether a tool's own time to live for a class is shorter than the class's. A shorter one holds for
        every request that names the tool."""
        own = self.tool_limits.get((tool, content_class or ""))
        if own is None or own.ms is None:
            return False
        of_class = self.tables.ttl_by_class.get(content_class or "")
        return of_class is None or own.ms < count_milliseconds(of_class)

    def _places(self) -> Iterator[tuple[str, str]]:
        tiers = {*TIERS, *self.tables.action_matrix}
        return ((tier, name) for tier in sorted(tiers) for name in sorted(self.classes))

    def _make_unnamed(self, tier: str) -> Cell:
        """The cell of a class that no table names: per dimension the severest outcome of all named classes,
        or the fallback if no class is named (product.md, "Retrievals")."""
        named = [self.cells[(tier, name)] for name in self.classes] or [self._cell(tier, "")]
        return self._cell(tier, "")._replace(
            freshness=_severest([cell.freshness for cell in named]),
            confidence=_severest([cell.confidence for cell in named]),
            provenance=_severest([cell.unregistered for cell in named]),
        )

    def _cell(self, tier: str, name: str) -> Cell:
        tables = self.tables
        limit = _make_limit(tables.ttl_by_class[name], name) if name in tables.ttl_by_class else None
        minimum = tables.min_confidence_by_class.get(name)
        provenance = tables.outcome(tier, name, "provenance")
        return Cell(
            name in self.classes,
            limit,
            minimum,
            str(minimum),
            tables.provenance_required_by_class.get(name, False),
            tables.outcome(tier, name, "freshness"),
            tables.outcome(tier, name, "confidence"),
            provenance,
            _severest([UNREGISTERED.get(tier, UNREGISTERED_ELSEWHERE), provenance]),
        )


def count_milliseconds(seconds: float) -> Milliseconds:
    """Milliseconds of a number of seconds, exactly as written: 0.1 s are exactly 100 ms."""
    if isinstance(seconds, int):
        return seconds * _MS
    ms = Decimal(repr(seconds)) * _MS
    return int(ms) if ms == ms.to_integral_value() else ms


def _make_limit(ttl: float | None, of: str) -> ClassLimit:
    if ttl is None:
        return ClassLimit(None, None, f"{of} has no limit")
    ms = count_milliseconds(ttl)
    return ClassLimit(ms, ttl, f"{of} may be {span(int(ms))} old ({ttl:.15g} s)")
