"""`sluice keys`: make the keys that bundles and registry entries are signed with."""

from __future__ import annotations

import re
from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import Annotated

import typer

from app.cli.output import console, print_json, shown, stop
from app.cli.policy.private_keys import new_key_or_stop, private_keys_or_stop, work_tree_of

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

cli = typer.Typer(
    name="keys",
    no_args_is_help=True,
    help="Make Ed25519 keys. A root key's public half goes into the setting policy.root_keys; root keys sign "
    "approvers' entries, approvers' keys sign bundles and all other entries.",
)
AsJson = Annotated[bool, typer.Option("--json", help="One JSON value on standard output.")]


@cli.command()
def new(
    name: Annotated[str, typer.Argument(help="Names the files: NAME.pem and NAME.pub.")],
    out: Annotated[Path, typer.Option(file_okay=False, help="Folder for them, outside any work tree.")],
    *,
    force: Annotated[bool, typer.Option("--force", help="Also inside a git work tree.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a private key, readable by you alone, and its public half.

    Nothing is overwritten, and a folder inside a git work tree is
    refused, where a key is one `git add` away from everybody.

    Exit codes: 0 made, 2 could not.

    Example: sluice keys new root --out ~/.sluice/keys
    """
    if not NAME.fullmatch(name):
        stop(f"{name!r} is no name for a key: letters, digits, dot, dash and underscore")
    tree = work_tree_of(out)
    if tree is not None and not force:
        stop(f"{out} lies in the git work tree {tree}: choose another folder, or give --force")
    key = new_key_or_stop(out, name)
    _say(key.public.text, key.keyid, as_json=as_json)
    if not as_json:
        console.print(f"private key: {shown(out / f'{name}.pem')}", soft_wrap=True, highlight=False)


@cli.command()
def public(
    pem: Annotated[Path, typer.Argument(metavar="PEM", help="A private key.")], as_json: AsJson = False
) -> None:
    """Show the public half of a private key, and its id."""
    (key,) = private_keys_or_stop([pem])
    _say(key.public.text, key.keyid, as_json=as_json)


def _say(text: str, keyid: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"public_key": text, "keyid": keyid})
        return
    console.print(f"public key:  {text}", soft_wrap=True, highlight=False)
    console.print(f"key id:      {keyid}", soft_wrap=True, highlight=False)
