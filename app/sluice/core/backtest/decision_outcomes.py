"""The outcomes of decisions, so that two decisions on one input can be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.core.actions.resolution import SCHEMA as RESOLVED
from sluice.core.actions.verdict import SCHEMA as VERDICT
from sluice.core.decide.kinds import ANSWERS, DECISIONS
from sluice.core.memory.memory_record import SCHEMA as MEMORY
from sluice.core.retrieval.quality_record import SCHEMA as QUALITY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Recorded = Mapping[str, Any]

REFUSED = "REFUSED"
"""In place of an outcome where the input gets no decision."""
LETS_PASS = frozenset({"ALLOW", "allow", "pass", "flag"})
OUTCOME_FIELDS = {
    VERDICT: ("outcome", "shadowOutcome"),
    RESOLVED: ("outcome", "shadowOutcome"),
    MEMORY: ("action", "shadowAction"),
    QUALITY: ("outcome", "would_have_been"),
}
"""By schema the fields with the published outcome and with the one that shadow mode or flag-only hides."""


class DescribedDecision(NamedTuple):
    """A decision's id, its kind in a word, the published outcome, and the one that it hides."""

    id: str
    kind: str
    published: str
    hidden: str | None

    @property
    def outcome(self) -> str:
        """In words."""
        return self.published if self.hidden is None else f"{self.published} (shadow: {self.hidden})"

    @property
    def lets_pass(self) -> tuple[bool, bool]:
        """Whether the published and the real outcome let the input pass."""
        return self.published in LETS_PASS, (self.hidden or self.published) in LETS_PASS


def describe_decision(record: Mapping[str, Any]) -> DescribedDecision | None:
    """What a record decided; None for a record that decides nothing."""
    schema = record["schema"]
    if schema not in OUTCOME_FIELDS:
        return None
    published, hidden = OUTCOME_FIELDS[schema]
    return DescribedDecision(
        record[ANSWERS[schema].id_field], DECISIONS[schema].word, record[published], record.get(hidden)
    )


def pair_decisions(
    recorded: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]]:
    """The decisions on an input then and now, by their ids; None where there is none. A resolved verdict
    that only the one has is left out: the question was asked only then, or only now."""
    then_by_id = {d.id: record for record in recorded if (d := describe_decision(record)) is not None}
    now_by_id = {d.id: record for record in now if (d := describe_decision(record)) is not None}
    for name in {**then_by_id, **now_by_id}:
        pair = then_by_id.get(name), now_by_id.get(name)
        if None not in pair or RESOLVED not in {record["schema"] for record in pair if record is not None}:
            yield pair


def has_changed(recorded: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> bool:
    """Whether any decision on an input has another outcome."""
    return any(
        name_outcome(describe_any(then)) != name_outcome(describe_any(after))
        for then, after in pair_decisions(recorded, now)
    )


def describe_any(record: Mapping[str, Any] | None) -> DescribedDecision | None:
    return None if record is None else describe_decision(record)


def name_outcome(described: DescribedDecision | None) -> str:
    return REFUSED if described is None else described.outcome


def find_gate(then: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> str:
    """What decides the stricter of the two: the candidate's, unless it lets pass."""
    described = describe_any(now)
    stricter = then if now is None or (described is not None and all(described.lets_pass)) else now
    if stricter is None:
        return "-"
    if "gateResults" not in stricter:
        return find_reason(stricter) or "-"
    failed = [result["gate"] for result in stricter["gateResults"] if not result["passed"]]
    if not failed:
        return (find_reason(stricter) or "-").partition(":")[0]
    return str(failed[-1] if stricter["outcome"] == "BLOCK" else failed[0])


def find_reason(record: Mapping[str, Any] | None) -> str | None:
    """A verdict's reason, a memory decision's code, the first code of an item's decision."""
    if record is None:
        return None
    if record["schema"] == QUALITY:
        return next(iter(record["reason_codes"]), None)
    if record["schema"] == MEMORY:
        return str(record["reason"]).partition(":")[0]
    reason: str | None = record["blockReason"]
    return reason
