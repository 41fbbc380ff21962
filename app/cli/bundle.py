"""`sluice bundle`: check a bundle, sign it, publish it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from app.cli.bundle_test import cases_command
from app.cli.control import AsJson, Signed, publish_file, write_or_stop
from app.cli.output import IMPOSSIBLE, WRONG, console, errors, print_json, shown, stop
from app.cli.private_keys import Keys, private_keys_or_stop
from app.core.bundles import load_bundle
from app.core.cases import run_cases
from app.core.errors import BundleError
from app.core.trust.signing import signed_bundle
from app.offline.bundle_source import whole_bundle
from topics.catalog import BUNDLES, BY_NAME

if TYPE_CHECKING:
    from app.core.bundles import Bundle

cli = typer.Typer(
    name="bundle",
    no_args_is_help=True,
    help="Check, sign and publish policy bundles. A published bundle is in force in every worker within a "
    "moment, if an approver signed it and its revision is newer.",
)
cli.command(name="test")(cases_command)
Source = Annotated[Path, typer.Argument(metavar="FILE", help="A bundle; what it includes lies beside it.")]


@cli.command()
def check(file: Source, as_json: AsJson = False) -> None:
    """Check a bundle as loading will: fields, patterns and rules, and its own cases.

    Exit codes: 0 it is well, 1 it is not, 2 the file cannot be read.
    """
    bundle = _checked(_document(file, as_json=as_json), as_json=as_json)
    failures = [str(failure) for failure in run_cases(bundle)]
    name = f"{bundle.id}@{bundle.revision}"
    if as_json:
        print_json({"bundle": name, "hash": bundle.hash, "cases": len(bundle.cases), "failures": failures})
    else:
        for failure in failures:
            errors.print(shown(failure), soft_wrap=True)
        told = f"[red]{len(failures)} fail[/]" if failures else "[green]all pass[/]"
        console.print(f"{shown(name)} {bundle.hash}, {len(bundle.cases)} cases: {told}", soft_wrap=True)
    if failures:
        raise typer.Exit(WRONG)


@cli.command()
def sign(
    file: Source,
    key: Keys,
    out: Annotated[Path, typer.Option(dir_okay=False, help="File for the signed bundle.")],
) -> None:
    """Sign the whole bundle, with everything that it includes, and write the envelope.

    Exit codes: 0 signed, 1 the bundle is not valid, 2 could not.
    """
    keys = private_keys_or_stop(key)
    document = _document(file, as_json=False)
    bundle = _checked(document, as_json=False)
    value = signed_bundle(document, keys)
    if len(value) > BY_NAME[BUNDLES].max_message_bytes:
        stop(f"signed it has {len(value)} bytes, at most {BY_NAME[BUNDLES].max_message_bytes} count", WRONG)
    write_or_stop(out, [value])
    told = f"[green]signed[/] {shown(bundle.id)}@{bundle.revision} {bundle.hash}: {shown(out)}"
    console.print(told, soft_wrap=True, highlight=False)


@cli.command()
def publish(file: Signed, as_json: AsJson = False) -> None:
    """Publish a signed bundle, if every worker will take it: else say why and write nothing.

    Checked against what the topics hold now: signature and signer,
    revision, fields, rules, cases.

    Exit codes: 0 it is in force, 1 it is refused, 2 could not.
    """
    publish_file(file, BUNDLES, as_json=as_json)


def _document(file: Path, *, as_json: bool) -> bytes:
    try:
        return whole_bundle(file)
    except OSError as error:
        stop(f"cannot read {error.filename or file}: {error.strerror}", IMPOSSIBLE)
    except BundleError as error:
        _not_valid(error, as_json=as_json)


def _checked(document: bytes, *, as_json: bool) -> Bundle:
    try:
        return load_bundle(document)
    except BundleError as error:
        _not_valid(error, as_json=as_json)


def _not_valid(error: BundleError, *, as_json: bool) -> NoReturn:
    if as_json:
        print_json({"error": str(error)})
    stop(str(error), WRONG)
