"""`sluice bundle`: check a bundle of policy or of quality, sign it, publish it."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import Annotated

import typer

from app.cli.bundle_diff import diff
from app.cli.bundle_file import BundlePath, document_or_stop, loaded_or_stop
from app.cli.bundle_log import log
from app.cli.bundle_new import new
from app.cli.bundle_test import cases_command
from app.cli.control import AsJson, Signed, publish_file, write_or_stop
from app.cli.cosign import cosign
from app.cli.output import WRONG, console, errors, print_json, shown, stop
from app.cli.private_keys import Keys, private_keys_or_stop
from app.core.any_bundle import case_count, is_quality, run_own_cases
from app.core.trust.signing import signed_bundle, signed_quality_bundle
from topics.catalog import BUNDLES, BY_NAME

cli = typer.Typer(
    name="bundle",
    no_args_is_help=True,
    help="Write, check, compare, sign and publish bundles of policy and of quality. A published bundle is in "
    "force in every worker within a moment, if an approver signed it and its revision is newer; a quality "
    "bundle that is looser than the one in force needs a second approver.",
)
cli.command(name="test")(cases_command)
cli.command(name="new")(new)
cli.command(name="diff")(diff)
cli.command(name="log")(log)
cli.command(name="cosign")(cosign)


@cli.command()
def check(file: BundlePath, as_json: AsJson = False) -> None:
    """Check a bundle as loading will: its fields, what they hold together, and its own cases.

    Exit codes: 0 it is well, 1 it is not, 2 the file cannot be read.
    """
    bundle = loaded_or_stop(document_or_stop(file, as_json=as_json), as_json=as_json)
    failures = [str(failure) for failure in run_own_cases(bundle)]
    name, cases = f"{bundle.id}@{bundle.revision}", case_count(bundle)
    if as_json:
        print_json({"bundle": name, "hash": bundle.hash, "cases": cases, "failures": failures})
    else:
        for failure in failures:
            errors.print(shown(failure), soft_wrap=True)
        told = f"[red]{len(failures)} fail[/]" if failures else "[green]all pass[/]"
        console.print(f"{shown(name)} {bundle.hash}, {cases} cases: {told}", soft_wrap=True)
    if failures:
        raise typer.Exit(WRONG)


@cli.command()
def sign(
    file: BundlePath,
    key: Keys,
    out: Annotated[Path, typer.Option(dir_okay=False, help="File for the signed bundle.")],
) -> None:
    """Sign the whole bundle, with everything that it includes, and write the envelope.

    With several keys each signs; `cosign` adds a signature later.

    Exit codes: 0 signed, 1 the bundle is not valid, 2 could not.
    """
    keys = private_keys_or_stop(key)
    document = document_or_stop(file)
    bundle = loaded_or_stop(document)
    signed = signed_quality_bundle if is_quality(document) else signed_bundle
    value = signed(document, keys)
    if len(value) > BY_NAME[BUNDLES].max_message_bytes:
        stop(f"signed it has {len(value)} bytes, at most {BY_NAME[BUNDLES].max_message_bytes} count", WRONG)
    write_or_stop(out, [value])
    told = f"[green]signed[/] {shown(bundle.id)}@{bundle.revision} {bundle.hash}: {shown(out)}"
    console.print(told, soft_wrap=True, highlight=False)


@cli.command()
def publish(file: Signed, as_json: AsJson = False) -> None:
    """Publish a signed bundle, if every worker will take it: else say why and write nothing.

    Checked against what the topics hold now: signatures and signers,
    revision, fields, rules, cases, and a second approver where a quality
    bundle gets looser.

    Exit codes: 0 it is in force, 1 it is refused, 2 could not.
    """
    publish_file(file, BUNDLES, as_json=as_json)
