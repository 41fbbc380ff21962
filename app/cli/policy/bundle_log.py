"""`sluice bundle log`: every revision that ever counted or was refused, with who signed it and why."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.output import console, print_json, shown, span
from app.cli.policy.control_topics import (
    AsJson,
    folded_or_stop,
)
from app.core.foundation.clock import rfc3339
from app.core.trust.change_log import change_log
from app.core.trust.signed_entries import APPROVER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.core.trust.change_log import LogLine

_COLOURS = {"in force": "green", "replaced": "dim", "refused": "red"}


def log(
    bundle_id: Annotated[str | None, typer.Argument(metavar="[ID]", help="Only this bundle.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the change log of bundles: when, which revision, by whom, why.

    The command reads the control topics and judges them as every worker
    does, so it also shows refused revisions with the reason. The hash and
    the rationale of a refused revision are only its claims.

    Exit codes: 0 shown, 2 could not do it.
    """
    print_log(change_log(folded_or_stop(), bundle_id), as_json=as_json)


def print_log(lines: Sequence[LogLine], *, as_json: bool) -> None:
    """The lines on the screen, or as one JSON value."""
    if as_json:
        print_json([_fields(line) for line in lines])
        return
    now_ms = time.time_ns() // 1_000_000
    for line in lines:
        _show(line, now_ms)
    if not lines:
        console.print("nothing of it was ever published")


def _fields(line: LogLine) -> dict[str, object]:
    fields = asdict(line)
    return {"at": rfc3339(fields.pop("at_ms")), **fields}


def signed_by(kind: str | None, approvers: Sequence[str]) -> str:
    """Whose signature counted. An approver's entry counts by a root key alone, and that has no name."""
    return "a root key" if kind == APPROVER and not approvers else " and ".join(approvers)


def _show(line: LogLine, now_ms: int) -> None:
    colour = _COLOURS[line.state]
    by = f" by {signed_by(line.kind, line.approvers)}" if line.state != "refused" or line.approvers else ""
    at = f"{rfc3339(line.at_ms)} ({span(max(0, now_ms - line.at_ms))} ago)"
    message = f"{at} [bold]{shown(line.name)}[/] [{colour}]{line.state}[/]{shown(by)}"
    console.print(message, soft_wrap=True, highlight=False)
    what = None if line.code is None else f"{line.code}: {line.message}"
    named = (("hash", line.hash), ("rationale", line.rationale), ("refused for", what))
    for name, value in (*named, *(("looser", one) for one in line.looser)):
        if value is not None:
            console.print(f"  {name}: {shown(value)}", soft_wrap=True, highlight=False)
