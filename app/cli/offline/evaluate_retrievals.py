"""The retrievals of `sluice evaluate`: judged, and on the screen."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from rich.table import Table

from app.cli.output import console, shown
from app.core.foundation.errors import BundleError
from app.core.quality_bundle.quality_bundle import load_quality_bundle
from app.offline.quality_evaluation import judged_retrievals

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from app.offline.panels import RetrievalRow
    from app.offline.quality_evaluation import JudgedRetrieval


def judged_items(rows: Sequence[RetrievalRow], bundle: Path) -> list[JudgedRetrieval]:
    """The rows, under this quality bundle where they bring no tables. Raises BundleError and OSError."""
    if not rows:
        return []
    try:
        return list(judged_retrievals(rows, load_quality_bundle(bundle.read_bytes())))
    except BundleError as error:
        raise BundleError(f"{bundle}: {error}") from None


def print_retrievals(items: Iterable[JudgedRetrieval], *, every: bool) -> None:
    """How many rows of each label agree, and a line for each that does not; `every`: for each row."""
    judged = list(items)
    console.print(_labels(judged))
    for one in judged:
        if every or not one.agrees:
            console.print(_line(one), soft_wrap=True)
    console.print(f"{sum(one.agrees for one in judged)} of {len(judged)} retrievals as labelled.")


def retrieval_fields(items: Sequence[JudgedRetrieval]) -> dict[str, Any]:
    """The same for programs, each row that disagrees with it; nothing of a panel without retrievals."""
    if not items:
        return {}
    agree = sum(one.agrees for one in items)
    listed = [item_row(one) for one in items if not one.agrees]
    return {"retrievals": {"rows": len(items), "agree": agree, "disagreements": listed}}


def item_row(one: JudgedRetrieval) -> dict[str, Any]:
    """A row and what came of it."""
    return {
        "id": one.row.id,
        "file": one.row.file,
        "label": one.row.label,
        "outcome": one.outcome,
        "flags_set": list(one.flags),
        "reason_codes": list(one.codes),
        "reason": one.reason,
    }


def _labels(items: Iterable[JudgedRetrieval]) -> Table:
    rows: Counter[str] = Counter()
    agree: Counter[str] = Counter()
    for one in items:
        rows[one.row.label] += 1
        agree[one.row.label] += one.agrees
    table = Table("retrievals labelled", "rows", "as labelled")
    for label, count in sorted(rows.items()):
        table.add_row(shown(label), str(count), str(agree[label]))
    return table


def _line(one: JudgedRetrieval) -> str:
    mark = "[green]as labelled[/]" if one.agrees else "[bold red]otherwise[/]"
    flags = ", ".join(one.flags) or "no flags"
    place = f"{shown(one.row.id)} {shown(one.row.tier)} {shown(one.row.label)}"
    reason = "" if one.reason is None else shown(one.reason)
    return f"{place} {mark}: {one.outcome} ({flags}) {reason}"
