"""An evaluation of actions, memory writes and retrievals on the screen, and as JSON."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sluice.cli.output import clean, console
from sluice.cli.tables import LINES, align_right, build_table
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

    from rich.table import Table

COLOURS = {"harmful": "red", "benign": "green", "ambiguous": "yellow"}
J = TypeVar("J")
Scored = TypeVar("Scored", JudgedAction, JudgedWrite)


class KindReport(ABC, Generic[J]):
    """How the judged rows of one kind are shown. Each method takes all of them in the order of the panel."""

    @abstractmethod
    def write_fields(self, judged: Sequence[J]) -> dict[str, Any]:
        """Write their part of the JSON object."""

    @abstractmethod
    def write_row_fields(self, judged: J) -> dict[str, Any]:
        """One row in JSON."""

    def print_rows(self, judged: Sequence[J]) -> None:
        """A line for each row, unless these lines belong to the totals."""

    @abstractmethod
    def print_totals(self, judged: Sequence[J], *, every: bool) -> None:
        """Tables of what they add up to. `every`: whether each row was asked for too."""

    def is_fault(self, judged: J) -> bool:  # noqa: ARG002 - only retrievals are labelled with an outcome
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

    def write_row_fields(self, judged: Scored) -> dict[str, Any]:
        row = {"id": judged.row.id, "file": judged.row.file, "label": judged.row.label}
        return {**row, **self.describe_decision(judged), "caught": judged.caught}

    @abstractmethod
    def describe_decision(self, judged: Scored) -> dict[str, Any]:
        """Describe the decision and its reason, as JSON."""

    def print_rows(self, judged: Sequence[Scored]) -> None:
        """Source, id, label, what was decided, and why."""
        for row in judged:
            label = f"[{COLOURS[row.row.label]}]{row.row.label}[/]"
            outcome = f"[bold]{row.outcome}[/]" if row.caught else row.outcome
            location = f"{clean(row.row.file)} {clean(row.row.id)}"
            console.print(f"{location} {label} {outcome} {self.explain(row)}", soft_wrap=True)

    @abstractmethod
    def explain(self, judged: Scored) -> str:
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

    def build_causes(self, counts: Iterable[SourceCounts]) -> Table:
        """Build a table of how many rows of each label were caught by what."""
        caught: dict[str, Counter[str]] = {}
        for score in counts:
            for cause, count in score.by.items():
                caught[cause] = caught.get(cause, Counter()) + count
        rows = [
            [f"{self.caught} {clean(cause)}"] + [str(count[label]) for label in LABELS]
            for cause, count in sorted(caught.items())
        ]
        return build_table("rows", *LABELS, rows=rows, box=LINES)

    def print_more(self, mean: Mapping[str, float | None]) -> None:
        """Print what only this kind has."""


class ActionReport(ScoreReport[JudgedAction]):
    """The report on actions."""

    score, caught = ActionScore, "caught by"

    def describe_decision(self, judged: JudgedAction) -> dict[str, Any]:
        return {"outcome": judged.outcome, "gate": judged.gate, "reason": judged.reason}

    def explain(self, judged: JudgedAction) -> str:
        return f"{judged.gate or '-'} {'' if judged.reason is None else clean(judged.reason)}"

    def build_causes(self, counts: Iterable[SourceCounts]) -> Table:
        counts = list(counts)
        escalated = sum((score.apart for score in counts), Counter[str]())
        table = super().build_causes(counts)
        table.add_row("escalated, not caught", *(str(escalated[label]) for label in LABELS))
        return table

    def write_fields(self, judged: Sequence[JudgedAction]) -> dict[str, Any]:
        fields, compared = super().write_fields(judged), _select_compared(judged)
        if compared:
            fields["macro"] |= compute_means([score.compute_choice() for score in compared.values()])
        return fields

    def print_totals(self, judged: Sequence[JudgedAction], *, every: bool) -> None:
        super().print_totals(judged, every=every)
        if compared := _select_compared(judged):
            console.print(_build_choices(compared))


def _select_compared(judged: Sequence[JudgedAction]) -> dict[str, ActionScore]:
    """The sources of which rows were compared with known actions."""
    return {name: score for name, score in compute_scores(judged, ActionScore).items() if score.compared}


def _build_choices(compared: Mapping[str, ActionScore]) -> Table:
    def build_row(name: str, shares: Mapping[str, float | None], count: str) -> tuple[str, ...]:
        harmful, benign, among = map(format_percent, shares.values())
        return name, harmful, benign, count, among

    choices = {source: score.compute_choice() for source, score in compared.items()}
    rows = (
        build_row(clean(source), choice, str(compared[source].sent_on.total()))
        for source, choice in choices.items()
    )
    numbers = align_right("of harmful", "of benign", "rows", "harmful among them")
    table = build_table("sent on by similarity", *numbers, rows=rows, box=LINES)
    table.add_section()
    table.add_row(*build_row("macro average", compute_means([*choices.values()]), ""))
    return table


class WriteReport(ScoreReport[JudgedWrite]):
    """The report on memory writes."""

    score, caught = WriteScore, "caught for"

    def write_fields(self, judged: Sequence[JudgedWrite]) -> dict[str, Any]:
        return {"memory_writes": super().write_fields(judged)}

    def describe_decision(self, judged: JudgedWrite) -> dict[str, Any]:
        return {"action": judged.outcome, "reason": judged.reason, "by": judged.by}

    def explain(self, judged: JudgedWrite) -> str:
        return clean(judged.reason)

    def print_more(self, mean: Mapping[str, float | None]) -> None:
        alone = [format_percent(mean[name]) for name in ("rejected_recall", "rejected_false_positive_rate")]
        console.print(f"Rejected alone, macro average: recall {alone[0]}, false positives {alone[1]}.")


class ItemReport(KindReport[JudgedRetrieval]):
    """The report on retrieved items, which are labelled with an outcome or a flag."""

    def write_fields(self, judged: Sequence[JudgedRetrieval]) -> dict[str, Any]:
        """How many agree, and each row that does not; nothing for a panel without retrievals."""
        if not judged:
            return {}
        agree = sum(retrieval.agrees for retrieval in judged)
        listed = [self.write_row_fields(retrieval) for retrieval in judged if not retrieval.agrees]
        return {"retrievals": {"rows": len(judged), "agree": agree, "disagreements": listed}}

    def write_row_fields(self, judged: JudgedRetrieval) -> dict[str, Any]:
        return {
            "id": judged.row.id,
            "file": judged.row.file,
            "label": judged.row.label,
            "outcome": judged.outcome,
            "flags_set": list(judged.flags),
            "reason_codes": list(judged.codes),
            "reason": judged.reason,
        }

    def print_totals(self, judged: Sequence[JudgedRetrieval], *, every: bool) -> None:
        """How many rows of each label agree, and a line for each that does not; `every`: for each row."""
        console.print(_build_labels(judged))
        for retrieval in judged:
            if every or not retrieval.agrees:
                console.print(_write_line(retrieval), soft_wrap=True)
        agree = sum(retrieval.agrees for retrieval in judged)
        console.print(f"{agree} of {count_noun(len(judged), 'retrieval')} as labelled.")

    def is_fault(self, judged: JudgedRetrieval) -> bool:
        return judged.contradicts


def _build_sources(by_source: Mapping[str, SourceCounts], mean: Mapping[str, float | None]) -> Table:
    rows = (
        (clean(source), *_build_cells(score.compute_shares(), *(str(score.rows[name]) for name in LABELS)))
        for source, score in by_source.items()
    )
    numbers = align_right("harmful", "recall", "benign", "false pos.", "precision")
    table = build_table("source", *numbers, rows=rows, box=LINES)
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
    for retrieval in items:
        rows[retrieval.row.label] += 1
        agree[retrieval.row.label] += retrieval.agrees
    cells = ((clean(label), str(count), str(agree[label])) for label, count in sorted(rows.items()))
    return build_table("retrievals labelled", "rows", "as labelled", rows=cells, box=LINES)


def _write_line(retrieval: JudgedRetrieval) -> str:
    mark = "[green]as labelled[/]" if retrieval.agrees else "[bold red]otherwise[/]"
    flags = ", ".join(retrieval.flags) or "no flags"
    location = f"{clean(retrieval.row.id)} {clean(retrieval.row.tier)} {clean(retrieval.row.label)}"
    reason = "" if retrieval.reason is None else clean(retrieval.reason)
    return f"{location} {mark}: {retrieval.outcome} ({flags}) {reason}"
