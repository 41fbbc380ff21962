"""`sluice evaluate FILE...`: how much harm the gates catch, how much that is harmless, and how retrieved
items come out."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.machine.evaluate_report import (
    item_row,
    judged_items,
    judged_under,
    print_retrievals,
    print_rows,
    print_scores,
    print_write_rows,
    print_write_scores,
    retrieval_fields,
)
from app.cli.output import WRONG, print_json, stop
from app.core.actions.stages import shipped_stages
from app.core.foundation.clock import milliseconds_of
from app.core.foundation.errors import CoreError
from app.offline.action_evaluation import judged
from app.offline.panels import ActionRow, NotAPanel, RetrievalRow, WriteRow, load_mixed
from app.offline.policy_files import PolicyFileError, unsigned_bundle
from app.offline.scores import macro, scores, write_scores
from app.offline.write_evaluation import NotMeasured
from app.settings import ROOT
from topics.records.memory import SourceType  # noqa: TC001 - Typer reads the annotations

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.core.policy.bundles import Bundle
    from app.offline.action_evaluation import JudgedAction
    from app.offline.quality_evaluation import JudgedRetrieval
    from app.offline.scores import ActionScore, WriteScore
    from app.offline.write_evaluation import JudgedWrite

SHIPPED = ROOT / "config" / "bundles" / "default.json"
SHIPPED_QUALITY = ROOT / "config" / "quality" / "default.json"
AT = "2026-01-01T00:00:00.000Z"


def register(cli: typer.Typer) -> None:
    """Add the verb to the command."""
    cli.command(name="evaluate")(evaluate_command)


def evaluate_command(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="JSON lines of labelled rows of any kind.")
    ],
    *,
    bundle: Annotated[Path, typer.Option(help="The bundle's source.")] = SHIPPED,
    source_type: Annotated[
        SourceType, typer.Option("--source-type", help="The type of every memory write's source.")
    ] = "user",
    similarity: Annotated[
        bool | None,
        typer.Option(
            "--similarity/--no-similarity", help="Ask the encoder or not; by default as the bundle says."
        ),
    ] = None,
    rows: Annotated[bool, typer.Option("--rows", help="Show the result of each row too.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")] = False,
) -> None:
    """Measure the gates on labelled tool calls, memory writes and retrievals.

    A row is {"id", "file", "label": harmful | benign | ambiguous,
    "input": {"tool", "tool_description", "params", "agent",
    "rows_affected", "reversible"}}; file names its source. "kind":
    "memory_write" has "input" {"text"}; "retrieval" has {"item",
    "quality_bundle", "autonomy_tier"}, and is labelled with an outcome
    or "flag:" and a flag.

    Every row has its own session; every agent and tool is registered, but
    its entry says nothing more. Mode is high_stakes unless the row names
    one; enforcement is on. A memory write has complete metadata and comes
    from a new source.

    An action is caught by a BLOCK of a gate that judges what it does, not
    of a gate that judges who acts and who permits it. An ESCALATE is
    counted separately and is not caught. A memory write is caught if it is
    held or rejected for its content; rejected writes are also counted
    separately. A bundle's library is used without the row's own source,
    and no hosted model is asked. The macro average counts every source
    once, without ambiguous rows. Retrievals whose outcome differs from the
    label are listed.

    Exit codes: 0 measured, 1 a retrieval's outcome differs from its label
    under its own tables, 2 could not do it.
    """
    try:
        actions, writes, items = _judged(files, bundle, source_type, similarity)
    except (NotAPanel, PolicyFileError, CoreError, NotMeasured) as error:
        stop(str(error))
    except OSError as error:
        stop(f"cannot read {error.filename}: {error.strerror}")
    _report(actions, writes, items, rows=rows, json=json)
    if any(one.contradicts for one in items):
        raise typer.Exit(WRONG)


def _judged(
    files: list[Path], bundle: Path, source_type: SourceType, similarity: bool | None
) -> tuple[list[JudgedAction], list[JudgedWrite], list[JudgedRetrieval]]:
    panel = [row for file in files for row in load_mixed(file)]
    policy = unsigned_bundle(bundle)
    actions = _actions([row for row in panel if isinstance(row, ActionRow)], policy)
    written = [row for row in panel if isinstance(row, WriteRow)]
    writes = judged_under(policy, written, source_type, similarity, milliseconds_of(AT))
    items = judged_items([row for row in panel if isinstance(row, RetrievalRow)], SHIPPED_QUALITY)
    return actions, writes, items


def _actions(rows: list[ActionRow], bundle: Bundle) -> list[JudgedAction]:
    return list(judged(rows, bundle, shipped_stages(), milliseconds_of(AT)))


def _report(
    actions: list[JudgedAction],
    writes: list[JudgedWrite],
    items: list[JudgedRetrieval],
    *,
    rows: bool,
    json: bool,
) -> None:
    """Each kind in a table of its own; of a panel without actions no empty one of them."""
    by_source, of_writes = scores(actions), write_scores(writes)
    if json:
        listed = (
            {"rows": [*map(_row, actions), *map(_write_row, writes), *map(item_row, items)]} if rows else {}
        )
        fields = {**_fields(by_source), "memory_writes": _fields(of_writes), **retrieval_fields(items)}
        print_json({**fields, **listed})
        return
    if rows:
        print_rows(actions)
        print_write_rows(writes)
    if actions or not (writes or items):
        print_scores(by_source, macro(by_source.values()))
    if writes:
        print_write_scores(of_writes, macro(of_writes.values()))
    if items:
        print_retrievals(items, every=rows)


def _fields(by_source: Mapping[str, ActionScore] | Mapping[str, WriteScore]) -> dict[str, Any]:
    sources = {name: score.fields() for name, score in by_source.items()}
    return {"sources": sources, "macro": macro(by_source.values())}


def _row(one: JudgedAction) -> dict[str, Any]:
    return {
        **_place(one),
        "outcome": one.outcome,
        "gate": one.gate,
        "reason": one.reason,
        "caught": one.caught,
    }


def _write_row(one: JudgedWrite) -> dict[str, Any]:
    fields = {"action": one.action, "reason": one.reason, "by": one.by}
    return {**_place(one), **fields, "caught": one.caught}


def _place(one: JudgedAction | JudgedWrite) -> dict[str, Any]:
    row = asdict(one.row)
    return {name: row[name] for name in ("id", "file", "label")}
