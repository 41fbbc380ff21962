"""`sluice bundle log`: every revision that ever counted or was refused, with who signed it and why."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.control import AsJson  # noqa: TC001 - Typer reads the annotations
from app.cli.control_read import folded_or_stop
from app.cli.output import console, print_json, shown
from app.core.clock import rfc3339
from app.core.trust.change_log import change_log

if TYPE_CHECKING:
    from app.core.trust.change_log import LogLine

_COLOURS = {"in force": "green", "replaced": "dim", "refused": "red"}


def log(
    bundle_id: Annotated[str | None, typer.Argument(metavar="[ID]", help="Of this bundle only.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the change log of bundles: when, which revision, by whom, why.

    Read from the control topics, and judged as every worker judges them:
    what was refused is here with the reason. Of a refused revision the
    hash and the rationale are only what it claims.

    Exit codes: 0 shown, 2 could not.
    """
    lines = change_log(folded_or_stop(), bundle_id)
    if as_json:
        print_json([_fields(line) for line in lines])
        return
    for line in lines:
        _show(line)
    if not lines:
        console.print("no revision of it" if bundle_id else "no bundle was ever published")


def _fields(line: LogLine) -> dict[str, object]:
    fields = asdict(line)
    return {"at": rfc3339(fields.pop("at_ms")), **fields}


def _show(line: LogLine) -> None:
    colour = _COLOURS[line.state]
    by = f" by {' and '.join(line.approvers)}" if line.approvers else ""
    told = f"{rfc3339(line.at_ms)} [bold]{shown(line.name)}[/] [{colour}]{line.state}[/]{shown(by)}"
    console.print(told, soft_wrap=True, highlight=False)
    what = None if line.code is None else f"{line.code}: {line.message}"
    named = (("hash", line.hash), ("rationale", line.rationale), ("refused for", what))
    for name, value in (*named, *(("looser", one) for one in line.looser)):
        if value is not None:
            console.print(f"  {name}: {shown(value)}", soft_wrap=True, highlight=False)
