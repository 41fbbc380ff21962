"""`sluice ledger verify | export`: is the ledger what the workers wrote?"""

from __future__ import annotations

import asyncio
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from sluice.adapters.archive.archive_evidence import verify_archived_ledger
from sluice.adapters.archive.archive_store import BUCKET_SCHEME, StoreError
from sluice.adapters.kafka.kafka_ledger import locate_heads, locate_record, read_ledger, verify_ledger
from sluice.cli.ledger.archive_source import ArchiveKeys, Noted, describe_signatures, require_archive
from sluice.cli.ledger.policy_there import find_absent_policy, find_absent_policy_in_archive
from sluice.cli.ledger.tree_heads import (
    check_proof_command,
    consistency_command,
    list_head_signers,
    prove_command,
    require_second_cluster,
    sign_heads_command,
)
from sluice.cli.ledger.verifying import (
    Cosigned,
    HeadFiles,
    HeadKeys,
    HeadOptions,
    VerdictKeys,
    WitnessCount,
    WitnessKeys,
    require_trust,
)
from sluice.cli.output import (
    CANNOT_READ,
    WELL,
    WRONG,
    clean,
    errors,
    print_json,
    print_parts,
    require_broker,
    require_settings,
    stop,
)
from sluice.cli.tables import LINES, build_table, fold
from sluice.text.plurals import count_noun
from sluice.verifier.export import NotAnExport, read_lines, write_line
from sluice.verifier.head_check import read_heads
from sluice.verifier.ledger_findings import describe_heads
from sluice.verifier.package_file import is_package
from sluice.verifier.proof_check import SignedBy
from sluice.verifier.verify import verify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import RenderableType
    from rich.table import Table

    from sluice.adapters.kafka.kafka_read import StoredRecord
    from sluice.settings.reader import Settings
    from sluice.verifier.head_check import HeadSources
    from sluice.verifier.ledger_findings import LedgerFinding, Report

SHOWN = 50
"""Findings on the screen; `--json` has all."""


def build_report_fields(report: Report) -> dict[str, Any]:
    """The report as JSON: {intact, records, partitions: {number: summary}, findings: [finding]}."""
    return {
        "intact": report.intact,
        "records": report.records,
        "heads": None if report.heads is None else asdict(report.heads),
        "partitions": {str(number): asdict(summary) for number, summary in report.partitions.items()},
        "findings": [asdict(finding) for finding in report.findings],
    }


def build_report_parts(report: Report) -> Iterator[RenderableType]:
    """A table of the partitions, the findings, and one sentence."""
    yield _build_partitions(report)
    if report.findings:
        yield _build_findings(report.findings[:SHOWN])
    if report.records:
        yield clean(describe_heads(report))
    yield _write_sentence(report)


def _build_partitions(report: Report) -> Table:
    rows = (
        map(clean, (number, summary.records, summary.first or "-", summary.last or "-", summary.head or "-"))
        for number, summary in report.partitions.items()
    )
    names = "partition", "records", "first", "last"
    return build_table(*names, *fold("head"), rows=rows, title="Ledger", box=LINES)


def _build_findings(findings: tuple[LedgerFinding, ...]) -> Table:
    cells = (
        (each.code, each.partition, each.sequence, each.topic, each.offset, each.message) for each in findings
    )
    rows = (["-" if cell in (None, "") else clean(cell) for cell in row] for row in cells)
    columns = fold("finding", "partition", "sequence", "topic", "offset", "what is wrong")
    return build_table(*columns, rows=rows, title="Findings", box=LINES)


def _write_sentence(report: Report) -> str:
    if not report.records:
        return "[yellow]The ledger holds no record: nothing was decided, or nothing was left.[/]"
    records = count_noun(report.records, "record")
    if report.intact:
        return f"[green]Intact:[/] {records} in {count_noun(len(report.partitions), 'chain')}."
    total = len(report.findings)
    rest = f" The first {SHOWN} are shown; --json has all." if total > SHOWN else ""
    return f"[bold red]Not intact:[/] {count_noun(total, 'finding')} in {records}.{rest}"


cli = typer.Typer(name="ledger", no_args_is_help=True, help="Verify the ledger, or export it for an auditor.")
cli.command(name="sign-heads")(sign_heads_command)
cli.command(name="prove")(prove_command)
cli.command(name="consistency")(consistency_command)
cli.command(name="check-proof")(check_proof_command)


@cli.command(name="verify")
def verify_command(  # noqa: PLR0913 - the command's options
    from_: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="PLACE", help="An export's file, or an archive, instead of the broker."
        ),
    ] = None,
    *,
    noted: Noted = None,
    verdict_key: VerdictKeys = None,
    archive_key: ArchiveKeys = None,
    head_key: HeadKeys = None,
    heads: HeadFiles = None,
    witness_key: WitnessKeys = None,
    witnesses: WitnessCount = None,
    cosigned: Cosigned = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")] = False,
) -> None:
    """Check every ledger record: hashes, links, numbers, places, ids.

    It reads the committed records of the ledger's topics, up to the ends
    that they have at the start. It shares no code with the worker. On a
    broker, and in an archive with the workers' state, it also looks whether
    the control topics still have the policy that was in force last. PLACE
    is the file of an export, or an archive: a folder or s3://BUCKET/PATH
    (sluice archive).

    Exit codes: 0 intact, 1 something is wrong (each finding says what and
    where), 2 could not be read.

    With a key, from --verdict-key or verdicts.public_keys, each record must
    have a proof that one of them signed it. An archive's entries must be
    signed where --archive-key or archive.public_keys names a key.

    Where there are tree heads (sluice ledger sign-heads), the ledger must
    be what they state: a cut-off end, a dropped partition and a chain that
    was written again are found. With a key, from --head-key or
    heads.public_keys, there must be heads, and each by one of the keys.
    --heads names a file of heads that was kept outside the broker. With
    --witness-key, witnesses (sluice witness) must have co-signed a head:
    --cosigned names their files.

    Example: sluice ledger verify --json | jq .findings
    """
    settings = require_settings()
    keys = (*settings.verdicts.public_keys, *(verdict_key or ()))
    signed_by = SignedBy(keys, settings.policy.installation) if keys else None
    signers = list_head_signers(settings, head_key or ())
    with require_trust():
        sources = HeadOptions(heads, witness_key, witnesses, cosigned).build_sources(signers)
        signatures = _Signatures(signed_by, sources)
        report = _verify(settings, from_, _ArchiveOptions(noted, archive_key), signatures)
    if json:
        print_json(build_report_fields(report))
    else:
        print_parts(build_report_parts(report))
    raise typer.Exit(WELL if report.intact else WRONG)


@cli.command(name="export")
def export_command(
    file: Annotated[Path, typer.Argument(help="The file to write; it must not exist.")],
) -> None:
    """Write tree heads and every ledger record to FILE, to verify without
    the broker.

    One JSON object a line: topic, partition, offset, timestamp (ms), key
    (base64) and value (the record's text).

    Example: sluice ledger export ledger.jsonl && sluice ledger verify --from ledger.jsonl
    """
    try:
        with file.open("x", encoding="utf-8") as out:
            kafka = require_settings().kafka
            heads = require_broker(locate_heads(kafka.connection, kafka.topic_prefix), CANNOT_READ)
            for head in heads:
                out.write(write_line(head, head.timestamp_ms or 0) + "\n")
            reading = read_ledger(
                kafka.connection, kafka.topic_prefix, lambda record: _write(out.write, record)
            )
            count = len(heads) + require_broker(reading, CANNOT_READ)
    except OSError as error:
        stop(f"cannot write {file}: {error.strerror}")
    errors.print(f"{count_noun(count, 'record')} written to {file}", soft_wrap=True)


def _write(write: Callable[[str], int], record: StoredRecord) -> None:
    write(write_line(locate_record(record), record.timestamp_ms) + "\n")


class _ArchiveOptions(NamedTuple):
    """What is known of an archive from elsewhere."""

    noted: str | None
    keys: list[str] | None


class _Signatures(NamedTuple):
    """Who may have signed records, and what the ledger is held against."""

    records: SignedBy | None
    heads: HeadSources


def _verify(
    settings: Settings, from_: str | None, of_archive: _ArchiveOptions, signatures: _Signatures
) -> Report:
    if from_ is None:
        return _verify_broker(settings, signatures)
    if from_.startswith(BUCKET_SCHEME) or Path(from_).is_dir():
        archive = require_archive(settings, from_, *of_archive)
        errors.print(describe_signatures(archive.manifest), soft_wrap=True, highlight=False)
        try:
            report = verify_archived_ledger(archive, settings.kafka.topic_prefix, *signatures)
            absent = asyncio.run(find_absent_policy_in_archive(settings, archive))
        except StoreError as error:
            stop(f"cannot read the archive: {error}")
        return replace(report, findings=(*report.findings, *absent))
    return _verify_file(Path(from_), signatures)


def _verify_file(file: Path, signatures: _Signatures) -> Report:
    try:
        if is_package(file):
            stop(f"{file} is an audit package: `sluice audit verify` checks it")
        heads = read_heads(file, signatures.heads)
        with file.open("rb") as lines:
            return verify(read_lines(lines), signatures.records, heads)
    except (OSError, NotAnExport) as error:
        stop(f"cannot read {file}: {error}")


def _verify_broker(settings: Settings, signatures: _Signatures) -> Report:
    kafka, second = settings.kafka, require_second_cluster(settings)
    if second is not None:
        elsewhere = require_broker(locate_heads(*second), "cannot read the second cluster: {}")
        signatures = signatures._replace(heads=replace(signatures.heads, second=elsewhere))
    report = require_broker(verify_ledger(kafka.connection, kafka.topic_prefix, *signatures), CANNOT_READ)
    absent = require_broker(find_absent_policy(settings), "cannot read the policy in force: {}")
    return replace(report, findings=(*report.findings, *absent))
