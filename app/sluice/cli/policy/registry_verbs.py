"""`sluice registry`: write entries of the registry, sign and publish them, see what is in force."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli.output import WRONG, clean, console, print_json, require_bytes, stop
from sluice.cli.policy.control_topics import AsJson, publish_values
from sluice.cli.policy.freeze import stop_for_unknown_subjects
from sluice.cli.policy.key_files import (
    Keys,
    Signed,
    cosign,
    require_envelopes,
    require_private_keys,
    write_or_stop,
)
from sluice.cli.policy.policy_loss import accept_loss
from sluice.cli.policy.registry_lookup import list_entries, log, show
from sluice.cli.policy.registry_new import new
from sluice.cli.policy.registry_propose import propose
from sluice.core.foundation.errors import RegistryError
from sluice.core.trust.signing import check_entries, sign_entries
from sluice.text.plurals import count_noun
from sluice_topics.catalog import REGISTRY

if TYPE_CHECKING:
    from sluice.core.registry.registry_entries import EntryFile

cli = typer.Typer(
    name="registry",
    no_args_is_help=True,
    help="Write, check, sign and publish entries of the registry, and see what is in force: agents, tools, "
    "organisations, freezes, facts, enforcement points, sources, recorded provenance, what is known bad, "
    "overrides, accepted losses, approvers. A root key "
    "signs approvers, an approver's key all others; another quality bundle for a tenant needs two approvers.",
)
cli.command(name="new")(new)
cli.command(name="propose")(propose)
cli.command(name="list")(list_entries)
cli.command(name="show")(show)
cli.command(name="log")(log)
cli.command(name="cosign")(cosign)
cli.command(name="accept-loss")(accept_loss)
Source = Annotated[
    Path, typer.Argument(metavar="FILE", help='{"entries": [{"kind", "id", "revision", "spec"}]}')
]


@cli.command()
def check(file: Source, as_json: AsJson = False) -> None:
    """Check every entry of a file as loading does.

    Exit codes: 0 all are valid, 1 one is not, 2 the file cannot be read.
    """
    entries = _read_entries(file, as_json=as_json)
    if as_json:
        print_json({"entries": [_name_entry(entry) for entry in entries]})
    else:
        console.print(f"[green]{count_noun(len(entries), 'entry is', 'entries are')} well[/]")


@cli.command()
def sign(
    file: Source,
    key: Keys,
    out: Annotated[Path, typer.Option(dir_okay=False, help="File for the signed entries.")],
    *,
    separately: Annotated[
        bool,
        typer.Option("--separately", help="Let each entry take effect by itself instead of all together."),
    ] = False,
) -> None:
    """Sign the entries of a file and write one envelope per line.

    All entries take effect together, in one change; approvers' entries take
    effect one by one. Keep approvers in their own file, because only a root
    key signs them.

    Exit codes: 0 signed, 1 an entry is not valid, 2 could not do it.
    """
    keys = require_private_keys(key)
    try:
        values = sign_entries(_read_entries(file, as_json=False), keys, separately=separately)
    except RegistryError as error:
        stop(f"{error}; --separately signs each alone", WRONG)
    write_or_stop(out, values)
    message = f"[green]signed {count_noun(len(values), 'entry', 'entries')}[/]: {clean(out)}"
    console.print(message, soft_wrap=True, highlight=False)


@cli.command()
def publish(
    file: Signed,
    *,
    yes: Annotated[
        bool, typer.Option("--yes", help="Publish a freeze even if nobody knows its subject.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Publish signed entries if every worker will accept all of them; otherwise say why and write nothing.

    A freeze of a subject that nobody knows is refused too: it would freeze
    nothing. See `sluice freeze`.

    Exit codes: 0 they are in force, 1 some are refused, 2 could not do it.
    """
    values = require_envelopes(file)
    if not yes:
        stop_for_unknown_subjects(values)
    publish_values(values, REGISTRY, as_json=as_json)


def _read_entries(file: Path, *, as_json: bool) -> list[EntryFile]:
    try:
        return check_entries(require_bytes(file))
    except RegistryError as error:
        if as_json:
            print_json({"error": str(error)})
        stop(str(error), WRONG)


def _name_entry(entry: EntryFile) -> str:
    return f"{entry.kind}/{entry.id}@{entry.revision}"
