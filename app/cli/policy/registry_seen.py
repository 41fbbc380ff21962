"""`sluice registry list | show | log`: what is in force, since when, and who signed it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer
from rich.table import Column, Table

from app.cli.output import WRONG, console, print_json, shown, stop
from app.cli.policy.bundle_history import print_log, signed_by
from app.cli.policy.control_topics import (
    AsJson,
    folded_or_stop,
)
from app.core.foundation.clock import rfc3339
from app.core.trust.change_log import change_log, entries_in_force
from topics.catalog import REGISTRY

if TYPE_CHECKING:
    from app.core.trust.fold import Folded
    from app.core.trust.revisions import Accepted

Named = Annotated[
    str | None,
    typer.Argument(metavar="[NAME]", help="KIND/ID, or an ID of any kind; KIND/ID@REVISION is one revision."),
]
_REVISION = re.compile(r"@[0-9]+")
LIFTED = "lifted"


def list_entries(
    kind: Annotated[str | None, typer.Argument(metavar="[KIND]", help="agent, tool, org, freeze, …")] = None,
    as_json: AsJson = False,
) -> None:
    """List the entries in force: the newest revision of each, since when, and who signed it.

    An entry whose newest revision says `"active": false` is lifted.

    Exit codes: 0 shown, 2 could not do it.
    """
    found = entries_in_force(folded_or_stop(REGISTRY), REGISTRY)
    found = sorted(
        (one for one in found if kind in (None, one.kind)), key=lambda one: (one.kind, one.said.id)
    )
    if as_json:
        print_json([_fields(one) for one in found])
    elif found:
        console.print(_table(found))
    else:
        console.print("nothing is in force" if kind is None else f"no {shown(kind)} is in force")


def show(name: Named = None, as_json: AsJson = False) -> None:
    """Show the entry in force under a name, whole, with the hash that decisions record.

    It also shows since when the entry is in force, who signed it, and its
    earlier revisions.

    Exit codes: 0 shown, 1 no entry of this name, 2 could not do it.

    Example: sluice registry show agent/example-operator
    """
    if name is None:
        stop("give a name: KIND/ID, or an ID; `sluice registry list` shows them")
    folded = folded_or_stop(REGISTRY)
    found = _named(folded, name)
    if not found:
        stop(f"{name}: nothing of this name is in force; `sluice registry list` shows what is", WRONG)
    if as_json:
        print_json([_fields(one) | {"spec": one.document["spec"]} for one in found])
        return
    for one in found:
        _show(one, folded)


def log(name: Named = None, as_json: AsJson = False) -> None:
    """Show the change log of entries: when, which revision, by whom, and what was refused and why.

    Exit codes: 0 shown, 2 could not do it.
    """
    lines = change_log(folded_or_stop(REGISTRY), None, REGISTRY)
    if name is not None:
        lines = tuple(one for one in lines if name in _names(one.name))
    print_log(lines, as_json=as_json)


def _named(folded: Folded, name: str) -> list[Accepted]:
    """In force under this name; with a revision that one, whether it is in force or not."""
    if _REVISION.search(name):
        return [one for one in folded.entries.values() if name == one.key]
    return [one for one in entries_in_force(folded, REGISTRY) if name in _names(one.key)]


def _names(key: str) -> tuple[str, str, str]:
    """ "kind/id@revision", "kind/id" and "id" of an entry."""
    whole = key.rpartition("@")[0] or key
    return key, whole, whole.partition("/")[2]


def _is_lifted(one: Accepted) -> bool:
    return one.document["spec"].get("active") is False


def _fields(one: Accepted) -> dict[str, Any]:
    return {
        "name": one.key,
        "state": LIFTED if _is_lifted(one) else "in force",
        "since": rfc3339(one.at_ms),
        "approvers": sorted(one.approvers),
        "keys": sorted(one.signers),
        "hash": one.hash,
        "offset": one.arrival.offset,
    }


def _table(found: list[Accepted]) -> Table:
    """Names fold, nothing else does."""
    columns = (Column(name, no_wrap=True) for name in ("since", "by"))
    table = Table(Column("entry", overflow="fold"), *columns, box=None, pad_edge=False)
    for one in found:
        state = f" [yellow]{LIFTED}[/]" if _is_lifted(one) else ""
        since = rfc3339(one.at_ms).partition(".")[0].replace("T", " ")
        table.add_row(f"{shown(one.key)}{state}", since, shown(signed_by(one.kind, sorted(one.approvers))))
    return table


def _show(one: Accepted, folded: Folded) -> None:
    in_force = one.hash in {each.hash for each in entries_in_force(folded, REGISTRY)}
    state = LIFTED if _is_lifted(one) else "in force" if in_force else "replaced"
    by = shown(signed_by(one.kind, sorted(one.approvers)))
    console.print(
        f"[bold]{shown(one.key)}[/] {state} since {rfc3339(one.at_ms)}, signed by {by}", soft_wrap=True
    )
    console.print(f"  {one.hash}", highlight=False, soft_wrap=True)
    for line in orjson.dumps(one.document["spec"], option=orjson.OPT_INDENT_2).decode().splitlines():
        console.print(f"  {shown(line)}", highlight=False, soft_wrap=True)
    others = [each for each in folded.entries.values() if _names(each.key)[1] == _names(one.key)[1]]
    for each in sorted(others, key=lambda other: other.said.revision):
        if each.hash != one.hash:
            message = f"  revision {each.said.revision} since {rfc3339(each.at_ms)}"
            console.print(message, highlight=False, soft_wrap=True)
