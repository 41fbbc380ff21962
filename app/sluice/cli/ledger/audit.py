"""`sluice audit export | verify`: the evidence of some decisions in one file, and whether it holds. The
verbs that answer an auditor's questions are in audit_questions.py."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from sluice.adapters.archive.audit_package import AuditPackage
from sluice.adapters.archive.package_plan import By, NothingSelected, Selection, plan_package
from sluice.adapters.archive.package_writer import PackageOrigin, PackageTooLarge, write_package
from sluice.adapters.archive.record_sources import ArchivedRecords, BrokerRecords
from sluice.cli.ledger import audit_questions
from sluice.cli.ledger.archive_source import (
    ArchiveKeys,
    EvidenceSource,
    Noted,
    adopt_package,
    describe_settings,
    describe_signatures,
    require_archive,
    require_source,
)
from sluice.cli.ledger.ledger import build_report_fields, build_report_parts
from sluice.cli.ledger.tree_heads import list_head_signers
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
    parse_moment,
    print_json,
    print_line,
    print_parts,
    require_settings,
    stop,
)
from sluice.text.plurals import count_noun
from sluice.verifier.head_check import HeadSigners
from sluice.verifier.package_check import PackageTrust, check_package
from sluice.verifier.package_file import PackageFile
from sluice.verifier.package_manifest import NotAPackage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice.adapters.archive.package_plan import PackagePlan
    from sluice.adapters.archive.package_writer import WrittenPackage
    from sluice.adapters.archive.record_sources import RecordSource
    from sluice.settings.reader import Settings
    from sluice.verifier.package_check import PackageReport

cli = typer.Typer(
    name="audit",
    no_args_is_help=True,
    help="Answer an auditor's questions; write the evidence of decisions into one file, and check it.",
)
audit_questions.register(cli)
Session = Annotated[str | None, typer.Option(metavar="ID", help="The records of this session.")]
Agent = Annotated[str | None, typer.Option(metavar="ID", help="The records that name this agent.")]
Decision = Annotated[str | None, typer.Option(metavar="ID", help="The records that name this id.")]
Since = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="The records from then on: an ISO time (UTC) or a span back: 2h, 7d."),
]


@cli.command(name="export")
def export_command(  # noqa: PLR0913 - the command's options
    out: Annotated[Path, typer.Option(metavar="FILE", help="The file to write; it must not exist.")],
    *,
    session: Session = None,
    agent: Agent = None,
    decision: Decision = None,
    since: Since = None,
    only_selected: Annotated[
        bool, typer.Option("--only-selected", help="Of other sessions the hashes alone, not the records.")
    ] = False,
    from_: EvidenceSource = None,
    noted: Noted = None,
    archive_key: ArchiveKeys = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a sentence.")] = False,
) -> None:
    """Write an audit package: records, their inputs, the policy, the tree
    heads, and what each rests on.

    Without --only-selected it holds whole partitions of the ledger, so that
    nothing can be missing: with --session and --decision the partition of
    the session, with --agent all, with --since all from then on. It ends at
    the newest tree head (sluice ledger sign-heads). The same ledger and
    selection give the same bytes.

    Exit codes: 0 written, 1 no record is of the selection, 2 could not be
    read or written.

    Example: sluice audit export --session s-17 --out s-17.zip
    """
    settings = require_settings()
    selection = require_selection(session, agent, decision, since, only_selected=only_selected)
    if selection is None:
        stop("name what to export: --session, --agent, --decision or --since")
    if out.exists():
        stop(f"{out} is there already")
    settings, source = _open_records(settings, from_, noted, archive_key)
    try:
        written = require_source(_write(settings, source, selection, out), CANNOT_READ)
    except NothingSelected as error:
        stop(f"{error}. What is newer must be signed first: `sluice ledger sign-heads`", WRONG)
    except PackageTooLarge as error:
        stop(str(error))
    except OSError as error:
        stop(f"cannot write {out}: {error.strerror}")
    if json:
        print_json(asdict(written))
    else:
        counts = f"{count_noun(written.records, 'record')}, {written.selected} of them selected"
        print_line(f"{clean(out)}: {counts}, {count_noun(written.inputs, 'input')}; digest {written.digest}")


_RootKeys = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY", help="Public root key of the policy, base64 (KEY@TIME: retired); beside the settings'."
    ),
]
_Digest = Annotated[str | None, typer.Option(metavar="SHA256", help="The digest that the export printed.")]
_Gone = Annotated[
    bool, typer.Option("--gone", help="Inputs may have been gone when it was made, as it states.")
]
_Processes = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Partitions checked at once; else one for each core.")
]


@cli.command(name="verify")
def verify_command(  # noqa: PLR0913 - the command's options
    file: Annotated[Path, typer.Argument(help="The package.")],
    *,
    root_key: _RootKeys = None,
    head_key: HeadKeys = None,
    verdict_key: VerdictKeys = None,
    witness_key: WitnessKeys = None,
    witnesses: WitnessCount = None,
    cosigned: Cosigned = None,
    heads: HeadFiles = None,
    noted: _Digest = None,
    session: Session = None,
    agent: Agent = None,
    decision: Decision = None,
    since: Since = None,
    only_selected: Annotated[
        bool, typer.Option("--only-selected", help="It may hold selected records alone.")
    ] = False,
    gone: _Gone = False,
    processes: _Processes = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")] = False,
) -> None:
    """Check an audit package: every byte of its file, records and chains,
    tree heads, inputs, policy and who signed it.

    It needs no broker, and shares no code with what wrote the package. With
    --session, --agent, --decision or --since it must be a package of that.

    Exit codes: 0 it holds, 1 something is wrong (each finding says what and
    where), 2 it could not be read.

    Example: sluice audit verify s-17.zip --root-key ROOT --head-key HEADS
    """
    settings = require_settings()
    asked = require_selection(session, agent, decision, since)
    with require_trust():
        heads_outside = HeadOptions(heads, witness_key, witnesses, cosigned)
        trust = PackageTrust(
            root_keys=(*_list_root_keys(settings), *(root_key or ())),
            sources=heads_outside.build_sources(_find_signers(settings, head_key or ())),
            verdict_keys=(*settings.verdicts.public_keys, *(verdict_key or ())),
            installation=settings.policy.installation or None,
            noted=noted,
            selection=None if asked is None else (asked.by, asked.value),
            takes_selected=only_selected,
            takes_gone=gone,
        )
        report = _check(file, trust, processes or os.cpu_count() or 1)
    _print_report(report, json=json)
    raise typer.Exit(WELL if report.report.intact else WRONG)


def require_selection(
    session: str | None,
    agent: str | None,
    decision: str | None,
    since: str | None,
    *,
    only_selected: bool = False,
) -> Selection | None:
    """What the options choose; None: nothing. Two at once end the command."""
    since_ms = parse_moment(since, "--since")
    options: tuple[tuple[By, str | int | None], ...] = (
        ("session", session),
        ("agent", agent),
        ("decision", decision),
        ("since", since_ms),
    )
    named = [(by, value) for by, value in options if value is not None]
    if len(named) > 1:
        stop("give one of --session, --agent, --decision and --since")
    if not named:
        return None
    if only_selected and since_ms is not None:
        stop("--only-selected leaves other sessions out, and --since takes all of them")
    by, value = named[0]
    return Selection(by, value, only_selected)


class _Opened(NamedTuple):
    settings: Settings
    source: RecordSource


def _open_records(
    settings: Settings, from_: str | None, noted: str | None, keys: Sequence[str] | None
) -> _Opened:
    kafka = settings.kafka
    if from_ is None:
        return _Opened(settings, BrokerRecords(kafka.connection, kafka.topic_prefix, settings.worker.app_id))
    archive = require_archive(settings, from_, noted, keys)
    if isinstance(archive, AuditPackage):
        settings = adopt_package(settings, archive)
    else:
        errors.print(describe_signatures(archive.manifest), soft_wrap=True, highlight=False)
    return _Opened(settings, ArchivedRecords(archive))


async def _write(settings: Settings, source: RecordSource, selection: Selection, out: Path) -> WrittenPackage:
    origin = PackageOrigin(
        settings.policy.installation,
        settings.kafka.topic_prefix,
        settings.worker.app_id,
        describe_settings(settings),
    )
    plan: PackagePlan = await plan_package(source, origin.prefix, selection)
    return await write_package(source, plan, origin, out)


def _list_root_keys(settings: Settings) -> list[str]:
    retired = settings.policy.retired_root_keys
    return [*settings.policy.root_keys, *(f"{key}@{at.isoformat()}" for key, at in retired.items())]


def _find_signers(settings: Settings, keys: Sequence[str]) -> HeadSigners | None:
    signers = list_head_signers(settings, keys)
    return None if signers is None else HeadSigners(signers.keys, settings.policy.installation or None)


def _check(file: Path, trust: PackageTrust, processes: int) -> PackageReport:
    """On a terminal a bar moves while partitions are checked."""
    columns = TextColumn("checking"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    try:
        package = PackageFile(file)
        with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bars:
            task = bars.add_task("", total=sum(each.stored_bytes for each in package.manifest.segments))
            return check_package(package, trust, processes, lambda count: bars.advance(task, count))
    except (OSError, NotAPackage) as error:
        stop(f"cannot read {file}: {error}")


def _print_report(report: PackageReport, *, json: bool) -> None:
    if json:
        fields = {"digest": report.manifest.digest, "selected": report.selected}
        print_json(build_report_fields(report.report) | fields | {"statements": report.statements})
        return
    print_parts(build_report_parts(report.report))
    for statement in report.statements:
        print_line(clean(statement))
