"""`sluice mcp pins`: what servers' tools looked like when they were accepted, and what changed."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluice.adapters.mcp.pins import Pins, PinsError, compute_digest, list_servers
from sluice.cli.output import WRONG, clean, console, make_visible, print_json, stop
from sluice.cli.tables import build_table
from sluice.core.registry.keys import PublicKey, UnusableKeyError

if TYPE_CHECKING:
    from sluice.core.registry.keys import SigningKey

PINS = Path("~/.sluice/mcp")
Folder = Annotated[
    Path, typer.Option("--pins", file_okay=False, help="Folder of what the servers' tools looked like.")
]

cli = typer.Typer(
    name="pins", no_args_is_help=True, help="What servers' tools looked like, and what changed."
)
AsJson = Annotated[bool, typer.Option("--json", help="One JSON value on standard output.")]


@cli.command(name="list")
def listpins_or_stop(folder: Folder = PINS, as_json: AsJson = False) -> None:
    """List each server's tools: accepted, or held back because they are new or changed.

    Exit codes: 0 all are accepted, 1 some are held back, 2 could not do it.
    """
    rows = []
    for server in list_servers(folder.expanduser()):
        pins = Pins(folder.expanduser(), server)
        unaccepted, accepted = pins.read_held(), pins.read_recorded()
        rows += [
            (server, key, "accepted", compute_digest(accepted[key]))
            for key in sorted(accepted.keys() - unaccepted)
        ]
        rows += [
            (server, key, "changed" if key in accepted else "new", compute_digest(unaccepted[key]))
            for key in sorted(unaccepted)
        ]
    if as_json:
        print_json([dict(zip(("server", "name", "state", "digest"), row, strict=True)) for row in rows])
    else:
        console.print(
            build_table("server", "what", "state", "digest", rows=(map(clean, row) for row in rows))
        )
    raise typer.Exit(WRONG if any(row[2] != "accepted" for row in rows) else 0)


@cli.command()
def accept(
    server: Annotated[str, typer.Argument(help="The server's name.")],
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]…", help="tool/NAME, or instructions; none: all.")
    ] = None,
    *,
    folder: Folder = PINS,
    key: Annotated[Path | None, typer.Option(help="PEM: sign the pins with it.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Show what is held back of a server, and after a yes let agents see it.

    Exit codes: 0 accepted, 1 nothing is held or the answer was no, 2 could not do it.
    """
    pins = require_pins(folder, server, key)
    try:
        unaccepted, accepted = pins.read_held(), pins.read_accepted()
        keys = names or sorted(unaccepted)
        if not keys:
            stop(f"{server}: nothing is held back", WRONG)
        if missing := sorted(set(keys) - unaccepted.keys()):
            stop(f"{server}: {clean(', '.join(missing))}: nothing of this name is held")
        for name in keys:
            _print_change(name, accepted.get(name), unaccepted[name])
        if not yes and not typer.confirm(f"Shall agents see {clean(', '.join(keys))} of {server} like this?"):
            raise typer.Exit(WRONG)
        pins.accept({shown: unaccepted[shown] for shown in keys})
    except PinsError as error:
        stop(str(error))
    except OSError as error:
        stop(f"cannot write the pins: {error.strerror}")
    console.print(f"[green]accepted[/] {clean(', '.join(keys))} of {clean(server)}", highlight=False)


def _print_change(key: str, before: Any, after: Any) -> None:
    """Line by line, with what cannot be seen made visible."""
    console.print(f"[bold]{clean(key)}[/] {compute_digest(after)}", highlight=False, soft_wrap=True)
    old, new = ([] if definition is None else _write_lines(definition) for definition in (before, after))
    for line in difflib.unified_diff(old, new, "accepted", "held", lineterm="", n=2):
        console.print(make_visible(line), soft_wrap=True)


def _write_lines(definition: Any) -> list[str]:
    return json.dumps(definition, ensure_ascii=False, indent=2, sort_keys=True).split("\n")


def require_pins(folder: Path, server: str, key: Path | None) -> Pins:
    try:
        return Pins(folder.expanduser(), server, None if key is None else _read_key(key))
    except PinsError as error:
        stop(str(error))


def _read_key(file: Path) -> SigningKey | PublicKey:
    """A private key, or the public half that `sluice keys new` writes."""
    if file.suffix != ".pub":
        return require_private_key(file)
    try:
        return PublicKey.from_text(file.read_text(encoding="ascii").strip())
    except (OSError, UnicodeDecodeError, UnusableKeyError) as error:
        stop(f"{file}: no public key: {error}")


def require_private_key(file: Path) -> SigningKey:
    from sluice.cli.policy.key_files import require_private_keys  # noqa: PLC0415 - brings all of policy with it

    return require_private_keys([file])[0]
