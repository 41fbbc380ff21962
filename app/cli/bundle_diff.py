"""`sluice bundle diff`: what one revision of a bundle changes of another, and what of it got looser."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.bundle_named import NamedBundle, bundle_or_stop, tell_absent
from app.cli.control import AsJson  # noqa: TC001 - Typer reads the annotations
from app.cli.output import WELL, WRONG, console, print_json, shown, stop
from app.core.document_changes import document_changes
from app.core.retrieval.looser import Change, changes, looser
from app.core.retrieval.quality_bundle import QualityBundle

if TYPE_CHECKING:
    from collections.abc import Sequence

SHOWN = 200
"""Characters of a value on the terminal; --json has all."""
_HELP = "A bundle's source or signed file, or id@revision (or the id in force) on the broker."


def diff(
    before: Annotated[str, typer.Argument(metavar="A", help=_HELP)],
    after: Annotated[str, typer.Argument(metavar="B", help="The same, of the newer one.")],
    as_json: AsJson = False,
) -> None:
    """Show what B changes of A, and of a quality bundle what got looser.

    A quality bundle that is looser than the one in force counts with two
    approvers' signatures only: `sluice bundle cosign` adds the second.

    Exit codes: 0 nothing got looser, 1 something did, 2 could not.

    Example: sluice bundle diff sluice.quality next.json
    """
    tell_absent((before, after))
    old, new = bundle_or_stop(before), bundle_or_stop(after)
    changed, sentences = _compared(old, new)
    if as_json:
        print_json(
            {
                "before": _fields(old),
                "after": _fields(new),
                "changes": [one._asdict() for one in changed],
                "looser": list(sentences),
            }
        )
    else:
        _show(old, new, changed, sentences)
    raise typer.Exit(WRONG if sentences else WELL)


def _compared(old: NamedBundle, new: NamedBundle) -> tuple[Sequence[Change], Sequence[str]]:
    if isinstance(old.bundle, QualityBundle) and isinstance(new.bundle, QualityBundle):
        return changes(old.bundle, new.bundle), looser(old.bundle, new.bundle)
    if isinstance(old.bundle, QualityBundle) or isinstance(new.bundle, QualityBundle):
        stop("one is a policy bundle and the other a quality bundle")
    plain = document_changes(old.document, new.document)
    return [Change(one.path, one.before, one.after, looser=False) for one in plain], ()


def _fields(named: NamedBundle) -> dict[str, str]:
    return {"bundle": named.name, "hash": named.bundle.hash}


def _show(old: NamedBundle, new: NamedBundle, changed: Sequence[Change], sentences: Sequence[str]) -> None:
    console.print(f"{shown(old.name)} → {shown(new.name)}: {len(changed)} changes", highlight=False)
    for one in changed:
        mark = "[bold red]looser[/] " if one.looser else ""
        told = f"  {mark}{shown(one.path)}: {_value(one.before)} → {_value(one.after)}"
        console.print(told, soft_wrap=True, highlight=False)
    for sentence in sentences:
        console.print(f"[red]looser[/]: {shown(sentence)}", soft_wrap=True, highlight=False)
    if sentences:
        console.print("It counts with the signatures of two approvers only.", style="red")
    elif isinstance(new.bundle, QualityBundle):
        console.print("[green]nothing got looser[/]")


def _value(value: Any) -> str:
    text = "nothing" if value is None else json.dumps(value, ensure_ascii=False)
    return shown(text if len(text) <= SHOWN else f"{text[:SHOWN]}…")
