"""The memory writes of `sluice evaluate`: judged, and on the screen."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rich.table import Table

from app.adapters.sentence_encoder import EncoderSettings, SentenceEncoder
from app.cli.offline.evaluate_report import COLOURS, percent
from app.cli.output import console, settings_or_stop, shown
from app.core.memory.similarity import PORT
from app.offline.asking import Asking
from app.offline.scores import LABELS
from app.offline.write_evaluation import WriteTrial, judged_writes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from app.core.policy.bundles import Bundle
    from app.offline.panels import WriteRow
    from app.offline.scores import WriteScore
    from app.offline.write_evaluation import JudgedWrite


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
    console.print(_sources(by_source, mean))
    console.print(_caught_by(by_source.values()))
    alone = (percent(mean["rejected_recall"]), percent(mean["rejected_false_positive_rate"]))
    console.print(f"Rejected alone, macro average: recall {alone[0]}, false positives {alone[1]}.")
    left_out = sum(score.left_out for score in by_source.values())
    unreadable = sum(score.unreadable for score in by_source.values())
    console.print(f"Left out as ambiguous: {left_out}. Unreadable: {unreadable}.")


def _sources(by_source: Mapping[str, WriteScore], mean: Mapping[str, float | None]) -> Table:
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
