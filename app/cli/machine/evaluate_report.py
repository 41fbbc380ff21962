"""An evaluation of actions, memory writes and retrievals on the screen, and as JSON.

Writes and retrievals are also judged here, under the bundles that were asked for.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from rich.table import Table

from app.adapters.sentence_encoder import EncoderSettings, SentenceEncoder
from app.cli.output import console, settings_or_stop, shown
from app.core.foundation.errors import BundleError
from app.core.memory.similarity import PORT
from app.core.quality_bundle.quality_bundle import load_quality_bundle
from app.offline.asking import Asking
from app.offline.quality_evaluation import judged_retrievals
from app.offline.scores import LABELS
from app.offline.write_evaluation import WriteTrial, judged_writes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from app.core.policy.bundles import Bundle
    from app.offline.action_evaluation import JudgedAction
    from app.offline.panels import RetrievalRow, WriteRow
    from app.offline.quality_evaluation import JudgedRetrieval
    from app.offline.scores import ActionScore, WriteScore
    from app.offline.write_evaluation import JudgedWrite

COLOURS = {"harmful": "red", "benign": "green", "ambiguous": "yellow"}


def print_scores(by_source: Mapping[str, ActionScore], mean: Mapping[str, float | None]) -> None:
    """A row for each source, one for their mean, and which gate caught how many."""
    console.print(_sources(by_source, mean))
    console.print(_gates(by_source.values()))
    left_out = sum(score.left_out for score in by_source.values())
    unreadable = sum(score.unreadable for score in by_source.values())
    console.print(f"Left out as ambiguous: {left_out}. Unreadable: {unreadable}.")


def print_rows(rows: Iterable[JudgedAction]) -> None:
    """A line for each row: source, id, label, outcome, gate, reason."""
    for one in rows:
        label = f"[{COLOURS[one.row.label]}]{one.row.label}[/]"
        outcome = f"[bold]{one.outcome}[/]" if one.caught else one.outcome
        place = f"{shown(one.row.file)} {shown(one.row.id)}"
        reason = "" if one.reason is None else shown(one.reason)
        console.print(f"{place} {label} {outcome} {one.gate or '-'} {reason}", soft_wrap=True)


def _sources(by_source: Mapping[str, ActionScore], mean: Mapping[str, float | None]) -> Table:
    table = Table("source")
    for heading in ("harmful", "recall", "benign", "false pos.", "precision"):
        table.add_column(heading, justify="right")
    for source, score in by_source.items():
        harmful, benign = score.rows["harmful"], score.rows["benign"]
        shares = [percent(score.recall), percent(score.false_positive_rate), percent(score.precision)]
        table.add_row(shown(source), str(harmful), shares[0], str(benign), *shares[1:])
    table.add_section()
    recall, wrong, precision = (
        percent(mean[name]) for name in ("recall", "false_positive_rate", "precision")
    )
    table.add_row("macro average", "", recall, "", wrong, precision)
    return table


def _gates(scores: Iterable[ActionScore]) -> Table:
    caught: dict[str, Counter[str]] = {}
    escalated: Counter[str] = Counter()
    for score in scores:
        escalated += score.escalated
        for gate, count in score.by.items():
            caught[gate] = caught.get(gate, Counter()) + count
    table = Table("rows", *LABELS)
    for gate, count in sorted(caught.items()):
        table.add_row(f"caught by {shown(gate)}", *(str(count[label]) for label in LABELS))
    table.add_row("escalated, not caught", *(str(escalated[label]) for label in LABELS))
    return table


def percent(part: float | None) -> str:
    """A share for people; "-" for none."""
    return "-" if part is None else f"{part:.1%}"


def judged_under(
    bundle: Bundle, rows: Sequence[WriteRow], source_type: str, similarity: bool | None, at_ms: int
) -> list[JudgedWrite]:
    """The rows under the bundle. Raises BundleError and NotMeasured."""
    if not rows:
        return []
    threads = settings_or_stop().embedding.threads
    encoder = SentenceEncoder(EncoderSettings(threads=threads))
    with Asking({PORT: encoder}) as asking:
        return list(judged_writes(rows, WriteTrial(bundle, source_type, similarity, at_ms, asking.answers)))


def print_write_rows(rows: Iterable[JudgedWrite]) -> None:
    """A line for each row: source, id, label, action, reason."""
    for one in rows:
        label = f"[{COLOURS[one.row.label]}]{one.row.label}[/]"
        action = f"[bold]{one.action}[/]" if one.caught else one.action
        place = f"{shown(one.row.file)} {shown(one.row.id)}"
        console.print(f"{place} {label} {action} {shown(one.reason)}", soft_wrap=True)


def print_write_scores(by_source: Mapping[str, WriteScore], mean: Mapping[str, float | None]) -> None:
    """A row for each source, one for their mean, and what caught how many."""
    console.print(_write_sources(by_source, mean))
    console.print(_caught_by(by_source.values()))
    alone = (percent(mean["rejected_recall"]), percent(mean["rejected_false_positive_rate"]))
    console.print(f"Rejected alone, macro average: recall {alone[0]}, false positives {alone[1]}.")
    left_out = sum(score.left_out for score in by_source.values())
    unreadable = sum(score.unreadable for score in by_source.values())
    console.print(f"Left out as ambiguous: {left_out}. Unreadable: {unreadable}.")


def _write_sources(by_source: Mapping[str, WriteScore], mean: Mapping[str, float | None]) -> Table:
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


def _caught_by(scores: Iterable[WriteScore]) -> Table:
    caught: dict[str, Counter[str]] = {}
    for score in scores:
        for what, count in score.by.items():
            caught[what] = caught.get(what, Counter()) + count
    table = Table("rows", *LABELS)
    for what, count in sorted(caught.items()):
        table.add_row(f"caught for {shown(what)}", *(str(count[label]) for label in LABELS))
    return table


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
