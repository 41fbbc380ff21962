"""An evaluation of actions, memory writes and retrievals on the screen, and as JSON."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rich.table import Table

from sluice.cli.output import clean, console
from sluice.offline.action_evaluation import JudgedAction
from sluice.offline.quality_evaluation import JudgedRetrieval
from sluice.offline.scores import (
    LABELS,
    ActionScore,
    SourceCounts,
    WriteScore,
    compute_macro,
    compute_means,
    compute_scores,
)
from sluice.offline.write_evaluation import JudgedWrite
from sluice.text.plurals import count_noun

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

COLOURS = {"harmful": "red", "benign": "green", "ambiguous": "yellow"}
J = TypeVar("J")
Scored = TypeVar("Scored", JudgedAction, JudgedWrite)


class KindReport(ABC, Generic[J]):
    """How the judged rows of one kind are shown. Each method takes all of them in the order of the panel."""

    @abstractmethod
    def write_fields(self, judged: Sequence[J]) -> dict[str, Any]:
        """Write their part of the JSON object."""

    @abstractmethod
    def write_row_fields(self, one: J) -> dict[str, Any]:
        """One row in JSON."""

    def print_rows(self, judged: Sequence[J]) -> None:
        """A line for each row, unless these lines belong to the totals."""

    @abstractmethod
    def print_totals(self, judged: Sequence[J], *, every: bool) -> None:
        """Tables of what they add up to. `every`: whether each row was asked for too."""

    def is_fault(self, one: J) -> bool:  # noqa: ARG002 - only retrievals are labelled with an outcome
        """Whether this row shows that the gate is wrong."""
        return False


class ScoreReport(KindReport[Scored]):
    """The report on rows labelled harmful or benign: shares for each source and their means over the
    sources."""

    score: type[SourceCounts]
    caught: str
    """What stands before the cause in the table of causes."""

    def write_fields(self, judged: Sequence[Scored]) -> dict[str, Any]:
        by_source = compute_scores(judged, self.score)
        sources = {name: score.write_fields() for name, score in by_source.items()}
        return {"sources": sources, "macro": compute_macro(by_source.values())}

    def write_row_fields(self, one: Scored) -> dict[str, Any]:
        place = {"id": one.row.id, "file": one.row.file, "label": one.row.label}
        return {**place, **self.describe_decision(one), "caught": one.caught}

    @abstractmethod
    def describe_decision(self, one: Scored) -> dict[str, Any]:
        """Describe the decision and its reason, as JSON."""

    def print_rows(self, judged: Sequence[Scored]) -> None:
        """Source, id, label, what was decided, and why."""
        for one in judged:
            label = f"[{COLOURS[one.row.label]}]{one.row.label}[/]"
            outcome = f"[bold]{one.outcome}[/]" if one.caught else one.outcome
            place = f"{clean(one.row.file)} {clean(one.row.id)}"
            console.print(f"{place} {label} {outcome} {self.explain(one)}", soft_wrap=True)

    @abstractmethod
    def explain(self, one: Scored) -> str:
        """Why it was decided, for a line; rich markup."""

    def print_totals(self, judged: Sequence[Scored], *, every: bool) -> None:  # noqa: ARG002 - as declared
        """A row for each source, one for their mean, and what caught how many."""
        by_source = compute_scores(judged, self.score)
        mean = compute_macro(by_source.values())
        console.print(_build_sources(by_source, mean))
        console.print(self.build_causes(by_source.values()))
        self.print_more(mean)
        left_out = sum(score.left_out for score in by_source.values())
        unreadable = sum(score.unreadable for score in by_source.values())
        console.print(f"Left out as ambiguous: {left_out}. Unreadable: {unreadable}.")

    def build_causes(self, found: Iterable[SourceCounts]) -> Table:
        """Build a table of how many rows of each label were caught by what."""
        caught: dict[str, Counter[str]] = {}
        for score in found:
            for cause, count in score.by.items():
                caught[cause] = caught.get(cause, Counter()) + count
        table = Table("rows", *LABELS)
        for cause, count in sorted(caught.items()):
            table.add_row(f"{self.caught} {clean(cause)}", *(str(count[label]) for label in LABELS))
        return table

    def print_more(self, mean: Mapping[str, float | None]) -> None:
        """Print what only this kind has."""


class ActionReport(ScoreReport[JudgedAction]):
    """The report on actions."""

    score, caught = ActionScore, "caught by"

    def describe_decision(self, one: JudgedAction) -> dict[str, Any]:
        return {"outcome": one.outcome, "gate": one.gate, "reason": one.reason}

    def explain(self, one: JudgedAction) -> str:
        return f"{one.gate or '-'} {'' if one.reason is None else clean(one.reason)}"

    def build_causes(self, found: Iterable[SourceCounts]) -> Table:
        found = list(found)
        escalated = sum((score.apart for score in found), Counter[str]())
        table = super().build_causes(found)
        table.add_row("escalated, not caught", *(str(escalated[label]) for label in LABELS))
        return table

    def write_fields(self, judged: Sequence[JudgedAction]) -> dict[str, Any]:
        fields, compared = super().write_fields(judged), _select_compared(judged)
        if compared:
            fields["macro"] |= compute_means([one.compute_choice() for one in compared.values()])
        return fields

    def print_totals(self, judged: Sequence[JudgedAction], *, every: bool) -> None:
        super().print_totals(judged, every=every)
        if compared := _select_compared(judged):
            console.print(_build_choices(compared))


def _select_compared(judged: Sequence[JudgedAction]) -> dict[str, ActionScore]:
    """The sources of which rows were compared with known actions."""
    return {name: one for name, one in compute_scores(judged, ActionScore).items() if one.compared}


def _build_choices(compared: Mapping[str, ActionScore]) -> Table:
    table = Table("sent on by similarity")
    for heading in ("of harmful", "of benign", "rows", "harmful among them"):
        table.add_column(heading, justify="right")
    for source, one in compared.items():
        harmful, benign, among = map(format_percent, one.compute_choice().values())
        table.add_row(clean(source), harmful, benign, str(one.sent_on.total()), among)
    table.add_section()
    harmful, benign, among = map(
        format_percent, compute_means([one.compute_choice() for one in compared.values()]).values()
    )
    table.add_row("macro average", harmful, benign, "", among)
    return table


class WriteReport(ScoreReport[JudgedWrite]):
    """The report on memory writes."""

    score, caught = WriteScore, "caught for"

    def write_fields(self, judged: Sequence[JudgedWrite]) -> dict[str, Any]:
        return {"memory_writes": super().write_fields(judged)}

    def describe_decision(self, one: JudgedWrite) -> dict[str, Any]:
        return {"action": one.outcome, "reason": one.reason, "by": one.by}

    def explain(self, one: JudgedWrite) -> str:
        return clean(one.reason)

    def print_more(self, mean: Mapping[str, float | None]) -> None:
        alone = [format_percent(mean[name]) for name in ("rejected_recall", "rejected_false_positive_rate")]
        console.print(f"Rejected alone, macro average: recall {alone[0]}, false positives {alone[1]}.")


class ItemReport(KindReport[JudgedRetrieval]):
    """The report on retrieved items, which are labelled with an outcome or a flag."""

    def write_fields(self, judged: Sequence[JudgedRetrieval]) -> dict[str, Any]:
        """How many agree, and each row that does not; nothing for a panel without retrievals."""
        if not judged:
            return {}
        agree = sum(one.agrees for one in judged)
        listed = [self.write_row_fields(one) for one in judged if not one.agrees]
        return {"retrievals": {"rows": len(judged), "agree": agree, "disagreements": listed}}

    def write_row_fields(self, one: JudgedRetrieval) -> dict[str, Any]:
        return {
            "id": one.row.id,
            "file": one.row.file,
            "label": one.row.label,
            "outcome": one.outcome,
            "flags_set": list(one.flags),
            "reason_codes": list(one.codes),
            "reason": one.reason,
        }

    def print_totals(self, judged: Sequence[JudgedRetrieval], *, every: bool) -> None:
        """How many rows of each label agree, and a line for each that does not; `every`: for each row."""
        console.print(_build_labels(judged))
        for one in judged:
            if every or not one.agrees:
                console.print(_write_line(one), soft_wrap=True)
        console.print(
            f"{sum(one.agrees for one in judged)} of {count_noun(len(judged), 'retrieval')} as labelled."
        )

    def is_fault(self, one: JudgedRetrieval) -> bool:
        return one.contradicts


def _build_sources(by_source: Mapping[str, SourceCounts], mean: Mapping[str, float | None]) -> Table:
    table = Table("source")
    for heading in ("harmful", "recall", "benign", "false pos.", "precision"):
        table.add_column(heading, justify="right")
    for source, score in by_source.items():
        table.add_row(
            clean(source),
            *_build_cells(score.compute_shares(), *(str(score.rows[name]) for name in LABELS)),
        )
    table.add_section()
    table.add_row("macro average", *_build_cells(mean, "", ""))
    return table


def _build_cells(shares: Mapping[str, float | None], harmful: str, benign: str) -> list[str]:
    recall, wrong, precision = (
        format_percent(shares[name]) for name in ("recall", "false_positive_rate", "precision")
    )
    return [harmful, recall, benign, wrong, precision]


def format_percent(part: float | None) -> str:
    """A share for people; "-" for none."""
    return "-" if part is None else f"{part:.1%}"


def _build_labels(items: Iterable[JudgedRetrieval]) -> Table:
    rows: Counter[str] = Counter()
    agree: Counter[str] = Counter()
    for one in items:
        rows[one.row.label] += 1
        agree[one.row.label] += one.agrees
    table = Table("retrievals labelled", "rows", "as labelled")
    for label, count in sorted(rows.items()):
        table.add_row(clean(label), str(count), str(agree[label]))
    return table


def _write_line(one: JudgedRetrieval) -> str:
    mark = "[green]as labelled[/]" if one.agrees else "[bold red]otherwise[/]"
    flags = ", ".join(one.flags) or "no flags"
    place = f"{clean(one.row.id)} {clean(one.row.tier)} {clean(one.row.label)}"
    reason = "" if one.reason is None else clean(one.reason)
    return f"{place} {mark}: {one.outcome} ({flags}) {reason}"
