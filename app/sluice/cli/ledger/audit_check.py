"""`sluice audit check`: whether a report of an auditor's question holds."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from sluice.cli.ledger.audit_report import SIGNATURE
from sluice.cli.ledger.tree_heads import list_head_signers
from sluice.cli.output import WELL, WRONG, clean, print_json, print_line, require_settings, stop
from sluice.text.plurals import count_noun
from sluice.verifier.proof_check import UnusableKey
from sluice.verifier.report_check import check_report

SHOWN = 50
"""Findings on the screen; `--json` has all."""


def check_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The report's page.")],
    *,
    signature: Annotated[
        Path | None, typer.Option(metavar="FILE", help=f"Its signature; else FILE{SIGNATURE}.")
    ] = None,
    key: Annotated[
        list[str], typer.Option(metavar="KEY", help="Public key, base64, of who may have signed the report.")
    ],
    head_key: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="Public key, base64, whose tree heads count; beside the settings'."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object instead of lines.")] = False,
) -> None:
    """Check a report of an auditor's question, without a broker and with
    code that did not make it.

    It checks the signature over the page, the proof of every record by the
    tree head, that each row is of its record, and that the table shows the
    rows of the evidence. Counts, control records and inputs without a
    record are in no chain: the signature alone covers them.

    Exit codes: 0 it holds, 1 it does not (each finding says where), 2 a
    file cannot be read.

    Example: sluice audit check overrides.html --key KEY --head-key KEY
    """
    envelope = signature or Path(f"{file}{SIGNATURE}")
    try:
        signers = list_head_signers(require_settings(), head_key or ())
        result = check_report(file.read_bytes(), envelope.read_bytes(), key, signers)
    except UnusableKey as error:
        stop(str(error))
    except OSError as error:
        stop(f"cannot read {error.filename}: {error.strerror}")
    if json:
        print_json({"holds": result.holds, **asdict(result), "head_keys": signers is not None})
        raise typer.Exit(WELL if result.holds else WRONG)
    for finding in result.findings[:SHOWN]:
        print_line(f"[bold red]{clean(finding.where)}:[/] {clean(finding.message)}")
    counts = f"{count_noun(result.rows, 'row')}, {result.proven} of them proven by tree head {result.head}"
    unchecked = "" if signers else " No head key was given: who signed the head was not checked."
    word = "[green]It holds:[/]" if result.holds else "[bold red]It does not hold:[/]"
    print_line(f"{word} {counts}.{unchecked}")
    raise typer.Exit(WELL if result.holds else WRONG)
