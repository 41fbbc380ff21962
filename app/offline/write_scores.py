"""Recall, false positives and precision of judged memory writes, held and rejected or rejected alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from app.offline.scores import Shares, by_label, rounded, share

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.offline.write_evaluation import JudgedWrite


@dataclass(slots=True)
class WriteScore(Shares):
    """Of memory writes: of what is caught, `rejected` is what nobody will look at."""

    rejected: Counter[str] = field(default_factory=Counter)

    def take(self, one: JudgedWrite) -> None:
        """Count a row."""
        caught_by = one.by if one.caught else None
        if self.count(one.row.label, caught_by=caught_by, unreadable=one.action == "UNREADABLE"):
            self.rejected[one.row.label] += one.rejected

    def shares(self) -> dict[str, float | None]:
        """By name, not rounded."""
        return {
            # Not super(): a dataclass with slots is another class than the one super() would look for.
            **Shares.shares(self),
            "rejected_recall": share(self.rejected["harmful"], self.rows["harmful"]),
            "rejected_false_positive_rate": share(self.rejected["benign"], self.rows["benign"]),
        }

    def fields(self) -> dict[str, Any]:
        """As JSON; counts by label."""
        return {
            "rows": by_label(self.rows),
            "caught": by_label(self.caught),
            "rejected": by_label(self.rejected),
            **{name: rounded(value) for name, value in self.shares().items()},
            "by": {what: by_label(count) for what, count in sorted(self.by.items())},
            "unreadable": self.unreadable,
            "left_out": self.left_out,
        }


def write_scores(rows: Iterable[JudgedWrite]) -> dict[str, WriteScore]:
    """By source, in the order of their first rows."""
    found: dict[str, WriteScore] = {}
    for one in rows:
        found.setdefault(one.row.file, WriteScore()).take(one)
    return found
