"""Gate 1, "fast_reject": what no model needs to be asked about (seed 001, Gate 1; p99 below 1 ms).

Three checks, in this order: forbidden targets of the organisation, irreversible actions above the row
threshold, the bundle's pattern library. Reversibility that neither the registry nor the bundle's default for
the action type knows counts as irreversible here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, Field

from sluice.core.actions.stage import PASSED, Detail, Gate, StageResult
from sluice.core.foundation.canonical import wire_int
from sluice_topics.records.base import LedgerCount, Severity  # noqa: TC001 - pydantic reads the annotations

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluice.core.actions.stage import ActionContext
    from sluice.detection.call_inspection import Hit, Inspection

LISTED_HITS = 16
"""The most hits that a verdict lists; `hits` says how many there were."""
_TEXT_END = "\x00"


class PatternFound(BaseModel):
    """A pattern that was hit: the JSON path of the text, and how it was found there ("plain", or the
    disguises that were seen through, outermost first)."""

    id: str
    reason: str
    severity: Severity
    path: str
    form: str


class FastRejectDetail(Detail):
    """The fields of the check that answered; none if all three passed. `hits` is the number of patterns
    found, given if the list does not show all of them."""

    targets: Annotated[list[str] | None, Field(title="forbidden target")] = None
    rows: LedgerCount | None = None
    threshold: Annotated[int | None, Field(title="rows at most")] = None
    patterns: Annotated[list[PatternFound] | None, Field(title="pattern")] = None
    hits: int | None = None
    inconclusive: Annotated[str | None, Field(title="not read to its end")] = None


class FastReject(Gate):
    """Blocks what is certainly forbidden; escalates what is doubtful or could not be read completely."""

    name = "fast_reject"
    detail = FastRejectDetail
    pauses = True

    def evaluate(self, context: ActionContext) -> StageResult:
        """Blocks with `forbidden_target`, `irreversible_rows` or `forbidden_pattern` and what was hit.

        Escalates with `suspicious_pattern` (only warnings) or `inconclusive` (a bound of reading was passed).
        """
        inspection = context.inspect()
        forbidden = context.plan.org.forbidden
        targets = forbidden.matches(_join(inspection.texts)) if forbidden.names else None
        if targets:
            return StageResult("block", f"forbidden_target: {targets[0]}", {"targets": targets})
        if context.plan.reversible is not True and context.rows > _threshold(context):
            return _too_many_rows(context)
        return _judge(inspection) if inspection.hits or inspection.inconclusive is not None else PASSED


def _judge(inspection: Inspection) -> StageResult:
    critical = next((hit for hit in inspection.hits if hit.severity == "critical"), None)
    if critical is not None:
        return StageResult("block", f"forbidden_pattern: {critical.id}", _detail(inspection))
    if inspection.inconclusive is not None:
        return StageResult("escalate", f"inconclusive: {inspection.inconclusive}", _detail(inspection))
    warning = next((hit for hit in inspection.hits if hit.severity == "warn"), None)
    if warning is not None:
        return StageResult("escalate", f"suspicious_pattern: {warning.id}", _detail(inspection))
    return StageResult("pass", detail=_detail(inspection))


def _join(texts: Iterable[str]) -> str:
    """Each text ends with a mark that no target matches, so that none is found across two of them."""
    return _TEXT_END.join((*texts, "")).casefold()


def _threshold(context: ActionContext) -> int:
    own = context.plan.org.irreversible_row_threshold
    return context.plan.bundle.irreversible_row_threshold if own is None else own


def _too_many_rows(context: ActionContext) -> StageResult:
    threshold = _threshold(context)
    detail: dict[str, Any] = {"rows": wire_int(context.rows), "threshold": threshold}
    return StageResult("block", f"irreversible_rows: {context.rows} above {threshold}", detail)


def _detail(inspection: Inspection) -> dict[str, Any]:
    detail: dict[str, Any] = {"patterns": [_name_hit(hit) for hit in inspection.hits[:LISTED_HITS]]}
    if len(inspection.hits) > LISTED_HITS:
        detail["hits"] = len(inspection.hits)
    if inspection.inconclusive is not None:
        detail["inconclusive"] = inspection.inconclusive
    return detail


def _name_hit(hit: Hit) -> dict[str, str]:
    return hit._asdict()
