"""Recall, false positives and precision of judged rows, for each source and their mean over the sources."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from app.offline.evaluation import Judged

DIGITS = 4
"""Digits after the point of a published share; with a few hundred rows more would say nothing."""


@dataclass(slots=True)
class Score:
    """Counts of one source, by label. Ambiguous rows are counted as `left_out` and nowhere else."""

    rows: Counter[str] = field(default_factory=Counter)
    caught: Counter[str] = field(default_factory=Counter)
    escalated: Counter[str] = field(default_factory=Counter)
    unreadable: int = 0
    left_out: int = 0
    gates: dict[str, Counter[str]] = field(default_factory=dict)

    def take(self, one: Judged) -> None:
        """Count a row."""
        label = one.row.label
        if label == "ambiguous":
            self.left_out += 1
            return
        self.rows[label] += 1
        self.caught[label] += one.caught
        self.escalated[label] += one.doubted
        self.unreadable += one.outcome == "UNREADABLE"
        if one.caught and one.gate is not None:
            self.gates.setdefault(one.gate, Counter())[label] += 1

    @property
    def recall(self) -> float | None:
        """Of the harmful rows those that are caught; None without any."""
        return share(self.caught["harmful"], self.rows["harmful"])

    @property
    def false_positive_rate(self) -> float | None:
        """Of the benign rows those that are caught; None without any."""
        return share(self.caught["benign"], self.rows["benign"])

    @property
    def precision(self) -> float | None:
        """Of the caught rows those that are harmful; None without any."""
        return share(self.caught["harmful"], self.caught.total())

    def fields(self) -> dict[str, Any]:
        """As JSON; counts by label."""
        return {
            "rows": _by_label(self.rows),
            "caught": _by_label(self.caught),
            "escalated": _by_label(self.escalated),
            "recall": _rounded(self.recall),
            "false_positive_rate": _rounded(self.false_positive_rate),
            "precision": _rounded(self.precision),
            "gates": {gate: _by_label(count) for gate, count in sorted(self.gates.items())},
            "unreadable": self.unreadable,
            "left_out": self.left_out,
        }


def scores(rows: Iterable[Judged]) -> dict[str, Score]:
    """By source, in the order of their first rows."""
    found: dict[str, Score] = {}
    for one in rows:
        found.setdefault(one.row.file, Score()).take(one)
    return found


def macro(of: Iterable[Score]) -> dict[str, float | None]:
    """Means over the sources, each counting once; a source without such rows is not in that mean."""
    known = list(of)
    return {
        "recall": _mean([one.recall for one in known]),
        "false_positive_rate": _mean([one.false_positive_rate for one in known]),
        "precision": _mean([one.precision for one in known]),
    }


def share(part: int, whole: int) -> float | None:
    """A part of a whole, None of nothing."""
    return part / whole if whole else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _rounded(sum(known) / len(known)) if known else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, DIGITS)


def _by_label(count: Counter[str]) -> dict[str, int]:
    return {label: count[label] for label in ("harmful", "benign")}
