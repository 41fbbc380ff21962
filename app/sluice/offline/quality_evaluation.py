"""What the quality gate makes of a panel's retrieved items: each under the tables of its row."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from sluice.core.foundation.strict import first_error
from sluice.core.metadata.provenance import ProvenanceState, find_form_fault
from sluice.core.quality_bundle.lookup import Lookup, count_milliseconds
from sluice.core.retrieval.dimensions import FUTURE, ItemFacts, judge, read_confidence
from sluice.offline.panels import RowTables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sluice.core.quality_bundle.quality_bundle import QualityBundle
    from sluice.offline.panels import RetrievalRow

UNREADABLE = "unreadable"
_OLDEST_SECONDS = 10**15
"""Thirty million years: an age beyond it is over every limit, and a number that people can still read."""
_REMEMBERED = 256
"""Rows of one file mostly share their tables."""


@dataclass(frozen=True, slots=True)
class JudgedRetrieval:
    """A row and what came of it. `outcome` is "unreadable" where the row's tables are none; `reason` says why
    an item did not pass, or what cannot be read."""

    row: RetrievalRow
    outcome: str
    flags: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    reason: str | None = None

    @property
    def agrees(self) -> bool:
        """Whether it came out as the row's label says."""
        return self.row.is_agreeing(self.outcome, self.flags)

    @property
    def contradicts(self) -> bool:
        """Whether it came out otherwise under the row's own tables: then the gate is wrong."""
        return self.row.bundle is not None and not self.agrees


def judge_retrievals(rows: Iterable[RetrievalRow], shipped: QualityBundle) -> Iterator[JudgedRetrieval]:
    """Each row under its own tables, `shipped` where it brings none. Rollout is left out."""
    for row in rows:
        try:
            lookup, schemes = _choose_tables(row, shipped)
        except ValidationError as error:
            yield JudgedRetrieval(row, UNREADABLE, reason=first_error(error, "$.input.quality_bundle"))
        else:
            quality = judge(lookup, row.tier, _read_facts(row, schemes))
            yield JudgedRetrieval(row, quality.outcome, quality.flags, quality.codes, quality.reason)


def _choose_tables(row: RetrievalRow, shipped: QualityBundle) -> tuple[Lookup, frozenset[str]]:
    if row.bundle is None:
        return shipped.lookup, shipped.schemes
    return _read_bundle(json.dumps(row.bundle, sort_keys=True))


@lru_cache(maxsize=_REMEMBERED)
def _read_bundle(bundle: str) -> tuple[Lookup, frozenset[str]]:
    tables = RowTables.model_validate(json.loads(bundle))
    return Lookup(tables.build_tables()), frozenset(tables.provenance_schemes)


def _read_facts(row: RetrievalRow, schemes: frozenset[str]) -> ItemFacts:
    """Read the facts of a row: an age in place of a timestamp, and whether the hash verified."""
    item = row.item
    content_class = item.get("content_class")
    age_ms, age_problem = _compute_age(item.get("freshness_age_seconds"))
    confidence, problem = read_confidence(item.get("confidence_score"))
    return ItemFacts(
        content_class if isinstance(content_class, str) else None,
        age_ms,
        age_problem,
        confidence,
        problem,
        _read_state(item, schemes),
        row.tool,
    )


def _compute_age(seconds: Any) -> tuple[int | None, str | None]:
    """Compute an age, up to the next millisecond: what is older than a limit by less stays older."""
    if seconds is None:
        return None, "missing"
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None, "malformed: not a number"
    bounded = max(-_OLDEST_SECONDS, min(seconds, _OLDEST_SECONDS))
    age_ms = int(Decimal(count_milliseconds(bounded)).to_integral_value(ROUND_CEILING))
    return age_ms, FUTURE if seconds < 0 else None


def _read_state(item: dict[str, Any], schemes: frozenset[str]) -> ProvenanceState:
    uri = item.get("provenance_uri")
    if uri is None or uri == "":
        return ProvenanceState("missing", "no provenance_uri")
    item_id = item.get("item_id")
    fault = find_form_fault(uri, schemes, item_id if isinstance(item_id, str) else "")
    if fault is not None:
        return fault
    if item.get("provenance_hash_verified") is True:
        return ProvenanceState("verified", "the row says that the hash verified")
    return ProvenanceState("unverified", "the row says that the hash did not verify")
