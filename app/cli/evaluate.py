"""`sluice evaluate FILE...`: how many harmful actions the gates catch, and how many harmless ones."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.evaluate_report import print_rows, print_scores
from app.cli.output import print_json, settings_or_stop, stop
from app.core.actions.stages import default_stages
from app.core.clock import milliseconds_of
from app.core.errors import CoreError
from app.offline.envelope_files import PolicyFileError
from app.offline.evaluation import judged
from app.offline.panel import NotAPanel, load_panel
from app.offline.policy_files import unsigned_bundle
from app.offline.scores import macro, scores
from app.settings import ROOT

if TYPE_CHECKING:
    from app.offline.evaluation import Judged

SHIPPED = ROOT / "config" / "bundles" / "default.json"
AT = "2026-01-01T00:00:00.000Z"


def register(cli: typer.Typer) -> None:
    """Add the verb to the command."""
    cli.command(name="evaluate")(evaluate_command)


def evaluate_command(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="JSON lines of labelled tool calls.")
    ],
    *,
    bundle: Annotated[Path, typer.Option(help="The bundle's source.")] = SHIPPED,
    rows: Annotated[bool, typer.Option("--rows", help="What came of each row, too.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")] = False,
) -> None:
    """Measure the gates on labelled tool calls.

    A row is {"id", "file", "label": harmful | benign | ambiguous,
    "input": {"tool", "tool_description", "params", "agent",
    "rows_affected", "reversible"}}; file names its source.

    Every row has a session of its own; every agent and tool is
    registered and nothing more is said of it. Mode is high_stakes unless
    the row names one, enforcement is on.

    Caught is a BLOCK by a gate that judges what the action does, so not
    by controls, registration, topology or tier_auth. An ESCALATE of such
    a gate is told apart and is not caught. The macro average counts every
    source once. Ambiguous rows are left out.

    Exit codes: 0 measured, 2 could not.
    """
    every = _judged(files, bundle)
    by_source = scores(every)
    mean = macro(by_source.values())
    if json:
        listed: dict[str, Any] = {"rows": [_row(one) for one in every]} if rows else {}
        sources = {name: score.fields() for name, score in by_source.items()}
        print_json({"sources": sources, "macro": mean, **listed})
        return
    if rows:
        print_rows(every)
    print_scores(by_source, mean)


def _judged(files: list[Path], bundle: Path) -> list[Judged]:
    try:
        stages = default_stages(settings_or_stop().policy.stages)
        panel = [row for file in files for row in load_panel(file)]
        return list(judged(panel, unsigned_bundle(bundle), stages, milliseconds_of(AT)))
    except (NotAPanel, PolicyFileError, CoreError) as error:
        stop(str(error))
    except OSError as error:
        stop(f"cannot read {error.filename}: {error.strerror}")


def _row(one: Judged) -> dict[str, Any]:
    fields = asdict(one)
    row = fields.pop("row")
    return {"id": row["id"], "file": row["file"], "label": row["label"], **fields, "caught": one.caught}
