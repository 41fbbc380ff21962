"""An evaluation of actions, memory writes and retrievals on the screen, and as JSON."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rich.table import Table

from sluice.cli.output import console, shown
from sluice.offline.action_evaluation import JudgedAction
from sluice.offline.quality_evaluation import JudgedRetrieval
from sluice.offline.scores import LABELS, ActionScore, SourceCounts, WriteScore, macro, means, scores
from sluice.offline.write_evaluation import JudgedWrite
from sluice.text.plurals import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

COLOURS = {"harmful": "red", "benign": "green", "ambiguous": "yellow"}
J = TypeVar("J")
Scored = TypeVar("Scored", JudgedAction, JudgedWrite)


class KindReport(ABC, Generic[J]):
    """How the judged rows of one kind are shown. Each method takes all of them in the order of the panel."""

    @abstractmethod
    def fields(self, judged: Sequence[J]) -> dict[str, Any]:
        """Their part of the JSON object."""

    @abstractmethod
    def row_fields(self, one: J) -> dict[str, Any]:
        """One row in JSON."""

    def print_rows(self, judged: Sequence[J]) -> None:
        """A line for each row, unless these lines belong to the totals."""

    @abstractmethod
    def print_totals(self, judged: Sequence[J], *, every: bool) -> None:
        """Tables of what they add up to. `every`: whether each row was asked for too."""

    def shows_fault(self, one: J) -> bool:  # noqa: ARG002 - only retrievals are labelled with an outcome
        """Whether this row shows that the gate is wrong."""
        return False


class ScoreReport(KindReport[Scored]):
    """Of rows labelled harmful or benign: shares for each source and their means over the sources."""

    score: type[SourceCounts]
    caught: str
    """What stands before the cause in the table of causes."""

    def fields(self, judged: Sequence[Scored]) -> dict[str, Any]:
        by_source = scores(judged, self.score)
        sources = {name: score.fields() for name, score in by_source.items()}
        return {"sources": sources, "macro": macro(by_source.values())}

    def row_fields(self, one: Scored) -> dict[str, Any]:
        place = {"id": one.row.id, "file": one.row.file, "label": one.row.label}
        return {**place, **self.decided(one), "caught": one.caught}

    @abstractmethod
    def decided(self, one: Scored) -> dict[str, Any]:
        """What was decided and why, as JSON."""

    def print_rows(self, judged: Sequence[Scored]) -> None:
        """Source, id, label, what was decided, and why."""
        for one in judged:
            label = f"[{COLOURS[one.row.label]}]{one.row.label}[/]"
            outcome = f"[bold]{one.outcome}[/]" if one.caught else one.outcome
            place = f"{shown(one.row.file)} {shown(one.row.id)}"
            console.print(f"{place} {label} {outcome} {self.why(one)}", soft_wrap=True)

    @abstractmethod
    def why(self, one: Scored) -> str:
        """Why it was decided, for a line; rich markup."""

    def print_totals(self, judged: Sequence[Scored], *, every: bool) -> None:  # noqa: ARG002 - as declared
        """A row for each source, one for their mean, and what caught how many."""
        by_source = scores(judged, self.score)
        mean = macro(by_source.values())
        console.print(_sources(by_source, mean))
        console.print(self.causes(by_source.values()))
        self.print_more(mean)
        left_out = sum(score.left_out for score in by_source.values())
        unreadable = sum(score.unreadable for score in by_source.values())
        console.print(f"Left out as ambiguous: {left_out}. Unreadable: {unreadable}.")

    def causes(self, found: Iterable[SourceCounts]) -> Table:
        """How many rows of each label were caught by what."""
        caught: dict[str, Counter[str]] = {}
        for score in found:
            for cause, count in score.by.items():
                caught[cause] = caught.get(cause, Counter()) + count
        table = Table("rows", *LABELS)
        for cause, count in sorted(caught.items()):
            table.add_row(f"{self.caught} {shown(cause)}", *(str(count[label]) for label in LABELS))
        return table

    def print_more(self, mean: Mapping[str, float | None]) -> None:
        """What only this kind has."""


class ActionReport(ScoreReport[JudgedAction]):
    """Of actions."""

    score, caught = ActionScore, "caught by"

    def decided(self, one: JudgedAction) -> dict[str, Any]:
        return {"outcome": one.outcome, "gate": one.gate, "reason": one.reason}

    def why(self, one: JudgedAction) -> str:
        return f"{one.gate or '-'} {'' if one.reason is None else shown(one.reason)}"

    def causes(self, found: Iterable[SourceCounts]) -> Table:
        found = list(found)
        escalated = sum((score.apart for score in found), Counter[str]())
        table = super().causes(found)
        table.add_row("escalated, not caught", *(str(escalated[label]) for label in LABELS))
        return table

    def fields(self, judged: Sequence[JudgedAction]) -> dict[str, Any]:
        told, compared = super().fields(judged), _compared(judged)
        if compared:
            told["macro"] |= means([one.choice() for one in compared.values()])
        return told

    def print_totals(self, judged: Sequence[JudgedAction], *, every: bool) -> None:
        super().print_totals(judged, every=every)
        if compared := _compared(judged):
            console.print(_choices(compared))


def _compared(judged: Sequence[JudgedAction]) -> dict[str, ActionScore]:
    """The sources of which rows were compared with known actions."""
    return {name: one for name, one in scores(judged, ActionScore).items() if one.compared}


def _choices(compared: Mapping[str, ActionScore]) -> Table:
    table = Table("sent on by similarity")
    for heading in ("of harmful", "of benign", "rows", "harmful among them"):
        table.add_column(heading, justify="right")
    for source, one in compared.items():
        harmful, benign, among = map(percent, one.choice().values())
        table.add_row(shown(source), harmful, benign, str(one.sent_on.total()), among)
    table.add_section()
    harmful, benign, among = map(percent, means([one.choice() for one in compared.values()]).values())
    table.add_row("macro average", harmful, benign, "", among)
    return table


class WriteReport(ScoreReport[JudgedWrite]):
    """Of memory writes."""

    score, caught = WriteScore, "caught for"

    def fields(self, judged: Sequence[JudgedWrite]) -> dict[str, Any]:
        return {"memory_writes": super().fields(judged)}

    def decided(self, one: JudgedWrite) -> dict[str, Any]:
        return {"action": one.outcome, "reason": one.reason, "by": one.by}

    def why(self, one: JudgedWrite) -> str:
        return shown(one.reason)

    def print_more(self, mean: Mapping[str, float | None]) -> None:
        alone = [percent(mean[name]) for name in ("rejected_recall", "rejected_false_positive_rate")]
        console.print(f"Rejected alone, macro average: recall {alone[0]}, false positives {alone[1]}.")


class ItemReport(KindReport[JudgedRetrieval]):
    """Of retrieved items, which are labelled with an outcome or a flag."""

    def fields(self, judged: Sequence[JudgedRetrieval]) -> dict[str, Any]:
        """How many agree, and each row that does not; nothing for a panel without retrievals."""
        if not judged:
            return {}
        agree = sum(one.agrees for one in judged)
        listed = [self.row_fields(one) for one in judged if not one.agrees]
        return {"retrievals": {"rows": len(judged), "agree": agree, "disagreements": listed}}

    def row_fields(self, one: JudgedRetrieval) -> dict[str, Any]:
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
        console.print(_labels(judged))
        for one in judged:
            if every or not one.agrees:
                console.print(_line(one), soft_wrap=True)
        console.print(
            f"{sum(one.agrees for one in judged)} of {counted(len(judged), 'retrieval')} as labelled."
        )

    def shows_fault(self, one: JudgedRetrieval) -> bool:
        return one.contradicts


def _sources(by_source: Mapping[str, SourceCounts], mean: Mapping[str, float | None]) -> Table:
    table = Table("source")
    for heading in ("harmful", "recall", "benign", "false pos.", "precision"):
        table.add_column(heading, justify="right")
    for source, score in by_source.items():
        table.add_row(shown(source), *_cells(score.shares(), *(str(score.rows[name]) for name in LABELS)))
    table.add_section()
    table.add_row("macro average", *_cells(mean, "", ""))
    return table


def _cells(shares: Mapping[str, float | None], harmful: str, benign: str) -> list[str]:
    recall, wrong, precision = (
        percent(shares[name]) for name in ("recall", "false_positive_rate", "precision")
    )
    return [harmful, recall, benign, wrong, precision]


def percent(part: float | None) -> str:
    """A share for people; "-" for none."""
    return "-" if part is None else f"{part:.1%}"


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
