"""`sluice policy import`: policies of a document's passages, for a person to edit, include and sign."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import Annotated

import orjson
import typer

from sluice.cli.output import WRONG, clean, console, print_json, stop
from sluice.cli.policy.control_topics import AsJson  # noqa: TC001 - Typer reads the annotations
from sluice.offline.policy_documents import DocumentError, propose_policies, read_document
from sluice.text.plurals import count_noun

cli = typer.Typer(no_args_is_help=True, add_completion=False)


@cli.callback()
def policy() -> None:
    """Make policies of a document.

    Use it when the rules for agents stand in a written policy, and a first
    draft for a bundle is wanted.
    """


@cli.command("import")
def import_document(
    document: Annotated[
        Path, typer.Argument(metavar="FILE", dir_okay=False, help="Markdown, text, HTML or PDF.")
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A file that does not exist yet.")],
    *,
    name: Annotated[
        str | None, typer.Option(help="How policies cite the document; else the file's name.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every passage, not only those that oblige or forbid.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Split a document into passages and propose a policy for each that obliges or forbids something.

    Each policy cites the document, the place and the document's digest.
    It escalates, may concern every tool, and is judged by the grader.
    Edit the file: delete what is no rule for agents, name tools in
    `appliesToTools`, write a `condition` in CEL where one can be written.
    A bundle takes it by `"include": ["OUT"]`.

    Exit codes: 0 proposed, 1 no passage obliges, 2 could not do it.
    """
    if out.exists():
        stop(f"{clean(out)} exists")
    try:
        read = read_document(document, name)
        policies = propose_policies(read, everything=everything)
    except (DocumentError, OSError) as error:
        stop(str(error))
    passages = count_noun(len(read.passages), "passage")
    if not policies:
        stop(f"none of {passages} obliges or forbids; --all takes every one", WRONG)
    out.write_bytes(orjson.dumps({"policies": policies}, option=orjson.OPT_INDENT_2) + b"\n")
    if as_json:
        print_json(policies)
        return
    message = (
        f"[green]proposed {count_noun(len(policies), 'policy', 'policies')}[/] of {passages}: {clean(out)}"
    )
    console.print(f"{message}; next: edit it, and include it in a bundle", soft_wrap=True, highlight=False)
