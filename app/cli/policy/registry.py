"""`sluice registry`: write entries of the registry, sign and publish them, see what is in force."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.output import IMPOSSIBLE, WRONG, console, print_json, shown, stop
from app.cli.policy.control import AsJson, Signed, publish_file, write_or_stop
from app.cli.policy.cosign import cosign
from app.cli.policy.private_keys import Keys, private_keys_or_stop
from app.cli.policy.registry_new import new
from app.cli.policy.registry_seen import list_entries, log, show
from app.core.foundation.errors import RegistryError
from app.core.trust.signing import checked_entries, signed_entries
from topics.catalog import REGISTRY

if TYPE_CHECKING:
    from app.core.registry.registry_entries import EntryFile

cli = typer.Typer(
    name="registry",
    no_args_is_help=True,
    help="Write, check, sign and publish entries of the registry, and see what is in force: agents, tools, "
    "organisations, freezes, facts, enforcement points, sources, recorded provenance, what is known bad, "
    "overrides, approvers. A root key "
    "signs approvers, an approver's key all others; another quality bundle for a tenant needs two approvers.",
)
cli.command(name="new")(new)
cli.command(name="list")(list_entries)
cli.command(name="show")(show)
cli.command(name="log")(log)
cli.command(name="cosign")(cosign)
Source = Annotated[
    Path, typer.Argument(metavar="FILE", help='{"entries": [{"kind", "id", "revision", "spec"}]}')
]


@cli.command()
def check(file: Source, as_json: AsJson = False) -> None:
    """Check every entry of a file as loading will.

    Exit codes: 0 all are well, 1 one is not, 2 the file cannot be read.
    """
    entries = _entries(file, as_json=as_json)
    if as_json:
        print_json({"entries": [_name(entry) for entry in entries]})
    else:
        console.print(f"[green]{len(entries)} entries are well[/]")


@cli.command()
def sign(
    file: Source,
    key: Keys,
    out: Annotated[Path, typer.Option(dir_okay=False, help="File for the signed entries.")],
    *,
    separately: Annotated[
        bool, typer.Option("--separately", help="Each entry takes effect alone, not all of them together.")
    ] = False,
) -> None:
    """Sign the entries of a file and write an envelope a line.

    All of them take effect together, in one change, but approvers' do so
    alone. Approvers belong in a file of their own, as only a root key
    signs them.

    Exit codes: 0 signed, 1 an entry is not valid, 2 could not.
    """
    keys = private_keys_or_stop(key)
    try:
        values = signed_entries(_entries(file, as_json=False), keys, separately=separately)
    except RegistryError as error:
        stop(f"{error}; --separately signs each alone", WRONG)
    write_or_stop(out, values)
    told = f"[green]signed {len(values)}[/] entries: {shown(out)}"
    console.print(told, soft_wrap=True, highlight=False)


@cli.command()
def publish(file: Signed, as_json: AsJson = False) -> None:
    """Publish signed entries, if every worker will take all of them: else say why and write nothing.

    Exit codes: 0 they are in force, 1 some are refused, 2 could not.
    """
    publish_file(file, REGISTRY, as_json=as_json)


def _entries(file: Path, *, as_json: bool) -> list[EntryFile]:
    try:
        return checked_entries(file.read_bytes())
    except OSError as error:
        stop(f"cannot read {file}: {error.strerror}", IMPOSSIBLE)
    except RegistryError as error:
        if as_json:
            print_json({"error": str(error)})
        stop(str(error), WRONG)


def _name(entry: EntryFile) -> str:
    return f"{entry.kind}/{entry.id}@{entry.revision}"
