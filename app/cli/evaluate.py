"""`sluice evaluate FILE...`: how much harm the gates catch, and how much that is harmless."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.evaluate_report import print_rows, print_scores
from app.cli.evaluate_writes import judged_under, print_write_rows, print_write_scores
from app.cli.output import print_json, settings_or_stop, stop
from app.core.actions.stages import default_stages
from app.core.clock import milliseconds_of
from app.core.errors import CoreError
from app.offline.envelope_files import PolicyFileError
from app.offline.evaluation import judged
from app.offline.panel import NotAPanel, Row
from app.offline.policy_files import unsigned_bundle
from app.offline.scores import macro, scores
from app.offline.write_evaluation import NotMeasured
from app.offline.write_panel import WriteRow, load_mixed
from app.offline.write_scores import write_scores
from app.settings import ROOT
from topics.records.memory import SourceType  # noqa: TC001 - Typer reads the annotations

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.core.bundles import Bundle
    from app.offline.evaluation import Judged
    from app.offline.scores import Score
    from app.offline.write_evaluation import JudgedWrite
    from app.offline.write_scores import WriteScore

SHIPPED = ROOT / "config" / "bundles" / "default.json"
AT = "2026-01-01T00:00:00.000Z"


def register(cli: typer.Typer) -> None:
    """Add the verb to the command."""
    cli.command(name="evaluate")(evaluate_command)


def evaluate_command(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="JSON lines of labelled tool calls and writes.")
    ],
    *,
    bundle: Annotated[Path, typer.Option(help="The bundle's source.")] = SHIPPED,
    source_type: Annotated[
        SourceType, typer.Option("--source-type", help="Of every memory write's source.")
    ] = "user",
    similarity: Annotated[
        bool | None,
        typer.Option("--similarity/--no-similarity", help="Ask the encoder; without, as the bundle says."),
    ] = None,
    rows: Annotated[bool, typer.Option("--rows", help="What came of each row, too.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")] = False,
) -> None:
    """Measure the gates on labelled tool calls and memory writes.

    A row is {"id", "file", "label": harmful | benign | ambiguous,
    "input": {"tool", "tool_description", "params", "agent",
    "rows_affected", "reversible"}}; file names its source. With "kind":
    "memory_write" it is a memory write, and "input" is {"text"}.

    Every row has a session of its own; every agent and tool is
    registered and nothing more is said of it. Mode is high_stakes unless
    the row names one, enforcement is on. A memory write has complete
    metadata and comes from a source that nobody has seen.

    An action is caught by a BLOCK of a gate that judges what the action
    does, so not by controls, registration, topology or tier_auth. An
    ESCALATE of such a gate is told apart and is not caught. A memory
    write is caught if it is quarantined or rejected for its content;
    rejected alone is told apart. What a bundle compares with is used
    without the texts of the row's own source, and no hosted model is
    asked. The macro average counts every source once. Ambiguous rows are
    left out.

    Exit codes: 0 measured, 2 could not.
    """
    try:
        panel = [row for file in files for row in load_mixed(file)]
        policy = unsigned_bundle(bundle)
        actions = _actions([row for row in panel if isinstance(row, Row)], policy)
        written = [row for row in panel if isinstance(row, WriteRow)]
        writes = judged_under(policy, written, source_type, similarity, milliseconds_of(AT))
    except (NotAPanel, PolicyFileError, CoreError, NotMeasured) as error:
        stop(str(error))
    except OSError as error:
        stop(f"cannot read {error.filename}: {error.strerror}")
    _report(actions, writes, rows=rows, json=json)


def _actions(rows: list[Row], bundle: Bundle) -> list[Judged]:
    stages = default_stages(settings_or_stop().policy.stages)
    return list(judged(rows, bundle, stages, milliseconds_of(AT)))


def _report(actions: list[Judged], writes: list[JudgedWrite], *, rows: bool, json: bool) -> None:
    """Each kind in a table of its own; of a panel of writes alone no empty one of actions."""
    by_source, of_writes = scores(actions), write_scores(writes)
    if json:
        listed = {"rows": [*map(_row, actions), *map(_write_row, writes)]} if rows else {}
        told = {**_fields(by_source), "memory_writes": _fields(of_writes)}
        print_json({**told, **listed})
        return
    if rows:
        print_rows(actions)
        print_write_rows(writes)
    if actions or not writes:
        print_scores(by_source, macro(by_source.values()))
    if writes:
        print_write_scores(of_writes, macro(of_writes.values()))


def _fields(by_source: Mapping[str, Score] | Mapping[str, WriteScore]) -> dict[str, Any]:
    sources = {name: score.fields() for name, score in by_source.items()}
    return {"sources": sources, "macro": macro(by_source.values())}


def _row(one: Judged) -> dict[str, Any]:
    return {
        **_place(one),
        "outcome": one.outcome,
        "gate": one.gate,
        "reason": one.reason,
        "caught": one.caught,
    }


def _write_row(one: JudgedWrite) -> dict[str, Any]:
    told = {"action": one.action, "reason": one.reason, "by": one.by}
    return {**_place(one), **told, "caught": one.caught}


def _place(one: Judged | JudgedWrite) -> dict[str, Any]:
    row = asdict(one.row)
    return {name: row[name] for name in ("id", "file", "label")}
