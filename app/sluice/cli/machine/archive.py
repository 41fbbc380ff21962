"""`sluice archive run | check | restore`: the topics' records, kept in a folder or a bucket, found whole, and
brought back to a new cluster."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.adapters.archive.archive_store import StoreError, require_exclusive_writes
from sluice.adapters.archive.archiver import ArchivedInstallation, ArchiveLimits, Archiver, ArchiverProofs
from sluice.adapters.archive.manifest import ArchiveRefused
from sluice.adapters.archive.segment import ArchiveDamaged
from sluice.adapters.kafka.kafka_read import KafkaUnreachable, UnknownTopics
from sluice.adapters.kafka.kafka_topics import KafkaTopicError
from sluice.cli.ledger.archive_source import (
    ArchiveKeys,
    Noted,
    build_note,
    describe_signatures,
    get_installation_of,
    require_archive,
    require_signing_key,
    require_store,
    require_trust,
)
from sluice.cli.machine.topics import build_layout
from sluice.cli.output import (
    EXIT_FAULT,
    WELL,
    WRONG,
    clean,
    console,
    errors,
    listen,
    log_to_stderr,
    print_json,
    print_line,
    require_settings,
    stop,
)
from sluice.text.plurals import count_noun

if TYPE_CHECKING:
    from sluice.adapters.archive.archive_store import ArchiveStore
    from sluice.adapters.archive.archived_records import Archive
    from sluice.adapters.archive.manifest import ArchiveFinding, Manifest
    from sluice.adapters.archive.restore import Restored, Restorer
    from sluice.settings.reader import Settings

SHOWN = 50
_MB = 1024 * 1024

cli = typer.Typer(
    name="archive",
    no_args_is_help=True,
    help="Keep the topics' records in a folder or a bucket, check and restore them.",
)
From = Annotated[
    str | None,
    typer.Option("--from", metavar="PLACE", help="A folder or s3://BUCKET/PATH; else archive.location."),
]


@cli.command(name="run")
def run_command(
    to: Annotated[
        str | None,
        typer.Option(metavar="PLACE", help="A folder or s3://BUCKET/PATH; else archive.location."),
    ] = None,
    *,
    once: Annotated[
        bool, typer.Option("--once", help="End when all that lies on the broker now is kept.")
    ] = False,
    noted: Noted = None,
) -> None:
    """Follow the topics and keep their records, until stopped.

    Inputs, signed policy, all outputs and (archive.state) the workers' own
    topics go into compressed segments; a manifest names each segment with
    its SHA-256, each entry with that of the entry before. Kill it at any
    moment: it goes on where the manifest ends. Run one for each
    installation; a second one ends without harm.

    With archive.signing_key each entry is signed, and it goes on only behind
    entries that this key, or one of archive.public_keys, signed; behind an
    archive that is unsigned so far only where --noted names its end.

    Exit codes: 0 stopped, or --once and done; 2 a setting is wrong or the
    archive cannot be used; 3 the broker or the store went away: start it
    again.

    Example: sluice archive run --to /var/lib/sluice/archive
    """
    from sluice.bootstrap.observing import observe_archiver  # noqa: PLC0415 - only to run

    settings = require_settings()
    log_to_stderr(settings)
    store = require_store(settings, to)
    try:
        require_exclusive_writes(store)
        observed = observe_archiver(settings)
        archiver = build_archiver(settings, store, noted)
        if observed is not None:
            archiver.observer = observed.metrics
            listen(observed.listener, "archive")
        manifest = asyncio.run(_run(archiver, once=once))
    except (ArchiveRefused, UnknownTopics) as error:
        stop(str(error))
    except (StoreError, KafkaUnreachable) as error:
        stop(str(error), EXIT_FAULT)
    errors.print(
        f"{count_noun(archiver.written, 'record')} archived; the manifest ends at {describe_end(manifest)}",
        soft_wrap=True,
        highlight=False,
    )


async def _run(archiver: Archiver, *, once: bool) -> Manifest:
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, archiver.stop)
    return await archiver.run(once=once)


@cli.command(name="check")
def check_command(
    from_: From = None,
    *,
    noted: Noted = None,
    archive_key: ArchiveKeys = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object instead of lines.")] = False,
) -> None:
    """Read the whole archive, and compare every segment with the manifest.

    Each finding names the file, or the partition and its offsets. The last
    line is the manifest's end: note it where the archive's owner cannot
    write, and give it to a later check with --noted, which then also finds
    a manifest that was cut off or written anew as a whole. With a key, from
    --archive-key or archive.public_keys, entries must be signed by one.

    Exit codes: 0 whole, 1 something is wrong, 2 could not be read.

    Example: sluice archive check --from s3://audit/sluice --json
    """
    settings = require_settings()
    archive = require_archive(settings, from_, noted, archive_key)
    try:
        findings = list(archive.check())
    except StoreError as error:
        stop(str(error))
    manifest = archive.manifest
    records = sum(segment.count for part in manifest.segments.values() for segment in part)
    if json:
        print_json(
            {
                "whole": not findings,
                "records": records,
                "segments": sum(map(len, manifest.segments.values())),
                "end": {"number": manifest.number, "sha256": manifest.digest},
                "signatures": {
                    "checked": bool(manifest.keys),
                    "signed": manifest.signed,
                    "unsigned": manifest.unsigned,
                },
                "findings": [asdict(finding) for finding in findings],
            }
        )
    else:
        _print_findings(findings)
        word = "[bold red]Not whole:[/]" if findings else "[green]Whole:[/]"
        print_line(describe_signatures(manifest))
        print_line(f"{word} {count_noun(records, 'record')}; the manifest ends at {describe_end(manifest)}")
    raise typer.Exit(WRONG if findings else WELL)


@cli.command(name="restore")
def restore_command(
    from_: From = None,
    *,
    noted: Noted = None,
    archive_key: ArchiveKeys = None,
    most_filled: Annotated[
        int | None, typer.Option(min=0, help="Offsets without a record that may be filled in, in all.")
    ] = None,
) -> None:
    """Restore an installation on a cluster that does not have its topics.

    Topics get the names, offsets and times that they had, and the workers'
    group its offsets; then start workers with the settings and the signing
    key that they had. Prefix, app and partitions must be the same: ids and
    signatures name them. Nothing else may write meanwhile. If it is
    interrupted, delete the topics and begin anew.

    An archive that followed a running installation may hold a little more
    of one topic than of another: each partition is cut back to its last
    transaction that is there whole, with the inputs that it decided, and
    inputs behind it are decided again. Inputs that are decided and were
    never archived are named.

    Exit codes: 0 restored; 2 refused, nothing was written; 3 the broker or
    the store went away.

    Example: KAFKA_BOOTSTRAP_SERVERS=new:9092 sluice archive restore --from s3://audit/sluice
    """
    settings = require_settings()
    log_to_stderr(settings)
    archive = require_archive(settings, from_, noted, archive_key)
    try:
        archive.require_whole_manifest(get_installation_of(settings))
        restorer = _make_restorer(settings, archive, most_filled)
        restored = asyncio.run(restorer.run(settings.worker.app_id))
    except (ArchiveRefused, ArchiveDamaged) as error:
        stop(str(error))
    except (StoreError, KafkaUnreachable, KafkaTopicError) as error:
        stop(str(error), EXIT_FAULT)
    _print_cuts(restored)
    _print_lost_inputs(archive, restored)
    print_line(describe_signatures(archive.manifest), errors)
    print_line(f"{count_noun(restored.records, 'record')} restored", errors)


def _make_restorer(settings: Settings, archive: Archive, most_filled: int | None) -> Restorer:
    from sluice.adapters.archive.restore import (  # noqa: PLC0415 - only to restore
        MOST_FILLED,
        DecidedInputs,
        Restorer,
        StateReader,
    )
    from sluice.stream.engine.crash_guard import RESERVED_KEY, PartitionRecord  # noqa: PLC0415 - as above

    def read_state(value: bytes) -> tuple[int, dict[str, DecidedInputs]]:
        record = PartitionRecord.decode(value)
        return record.sequence, {
            topic: DecidedInputs(*position) for topic, position in record.positions.items()
        }

    return Restorer(
        settings.kafka.connection,
        archive,
        build_layout(settings),
        StateReader(RESERVED_KEY, read_state),
        settings.kafka.replication_factor,
        MOST_FILLED if most_filled is None else most_filled,
    )


def _print_cuts(restored: Restored) -> None:
    dropped = {number: cut.dropped for number, cut in restored.cuts.items() if cut.dropped}
    for number, count in dropped.items():
        lost = count_noun(count, "ledger record")
        print_line(f"partition {number}: {lost} without the state behind them left out", errors)
    if dropped:
        print_line(
            "their inputs are decided again: begin a new archive for the restored installation", errors
        )


def _print_lost_inputs(archive: Archive, restored: Restored) -> None:
    """Which decided inputs, and what else, was never archived."""
    lost = [
        f"partition {number}: what was decided of {base} from offset {end} to {cut.positions[base] - 1} is "
        "not in the archive, unless it was rolled back"
        for number, cut in restored.cuts.items()
        for base, end in cut.beyond.items()
    ]
    lost += [f"{finding.where}: {finding.message}" for finding in archive.manifest.findings]
    for line in lost[:SHOWN]:
        print_line(clean(line), errors)
    if len(lost) > SHOWN:
        errors.print(f"and {len(lost) - SHOWN} more", highlight=False)


def _print_findings(findings: list[ArchiveFinding]) -> None:
    for finding in findings[:SHOWN]:
        print_line(f"{finding.code}: {clean(finding.where)}: {clean(finding.message)}", console)
    if len(findings) > SHOWN:
        print_line(f"and {len(findings) - SHOWN} more; --json has all", console)


def describe_end(manifest: Manifest) -> str:
    """The last entry as `--noted` takes it."""
    return f"{manifest.number}:{manifest.digest}"


def build_archiver(settings: Settings, store: ArchiveStore, noted: str | None = None) -> Archiver:
    """An archiver of the settings' installation, not connected. `noted`: as `--noted` takes it. A key that
    cannot be used ends the command."""
    archive_settings = settings.archive
    trust, key = require_trust(settings, noted), require_signing_key(settings)
    if key is not None:
        trust = replace(trust, keys=(*trust.keys, key.public))
    topics = {
        name: topic
        for name, topic in build_layout(settings).topics().items()
        if topic.direction != "keys" and (archive_settings.state or topic.direction != "internal")
    }
    limits = ArchiveLimits(
        archive_settings.segment_mb * _MB,
        archive_settings.segment_age_s,
        archive_settings.held_mb * _MB,
        archive_settings.store_wait_s,
    )
    of = ArchivedInstallation(*get_installation_of(settings), topics)
    proofs = ArchiverProofs(trust, key, build_note(settings))
    return Archiver(settings.kafka.connection, of, store, limits, proofs=proofs)
