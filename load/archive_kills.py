"""The archiver and the head signer are killed under load, the archiver also between a segment and the entry
that names it, and each meets a second one; a witness co-signs what the signer left, and persons whose data
agents handle are erased meanwhile. Afterwards the archive is held against the topics, byte for byte, and
takes their place in reruns and in the verification of the ledger, and the ledger is held against all heads.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from typing import TYPE_CHECKING

from load.erasures import introduce
from load.head_signers import AGE_S, Follower, Signers, check_heads
from load.inputs.publisher import Pace
from load.recomputation import figures
from load.recomputation.reruns import SEED, read_decision_settings
from load.scene import open_scene
from sluice.adapters.archive.archive_evidence import ArchiveEvidence, verify_archived_ledger
from sluice.adapters.archive.archive_store import FolderStore
from sluice.adapters.archive.archived_records import Archive
from sluice.adapters.kafka.kafka_read import open_reader
from sluice.adapters.ledger_reruns import rerun_sample
from sluice_topics.catalog import CATALOG

if TYPE_CHECKING:
    from pathlib import Path

    from load.erasures import Persons
    from load.installations.installation import RunScale, TestInstallation
    from load.recomputation.figures import RunFigure
    from load.scene import Bed
    from sluice.adapters.kafka.kafka_read import StoredRecord

WORKERS = 2
ARCHIVER_REFUSED = 2
MOST_RERUNS = 20_000


class Archivists:
    """The archivers of a run, on one folder."""

    def __init__(self, installation: TestInstallation) -> None:
        self.folder = installation.folder / "archive"
        words = ["archive", "run", "--to", str(self.folder)]
        settings = {"SLUICE_ARCHIVE__SEGMENT_AGE_S": str(AGE_S)}
        self.follower = Follower(installation, words, settings, self.count_entries, ARCHIVER_REFUSED)
        self.killed_within_an_entry = 0

    def count_entries(self) -> int:
        """Entries of the manifest."""
        return _count_files(self.folder / "manifest")

    def count_segments(self) -> int:
        """Files of segments, named by an entry or not."""
        return _count_all(self.folder / "segments")

    async def kill_within_an_entry(self) -> None:
        """Kill one as soon as a segment lies there that no entry names."""
        entries = self.count_entries()
        await self.follower.kill_after(self.count_segments)
        self.killed_within_an_entry += self.count_entries() == entries


async def archive(bed: Bed, scale: RunScale) -> list[RunFigure]:
    """Kills of the archiver and of the head signer, and rivals, while two workers decide."""
    name = "archive"
    installation, rng = await bed.installation(name), bed.rng(name)
    archivists, signers = Archivists(installation), Signers(installation)
    persons = await introduce(installation)
    traffic = bed.traffic(installation, name, scale, slow=0)
    async with open_scene(installation, traffic, Pace(scale.rate, plenty=scale.plenty), WORKERS) as scene:
        living = asyncio.create_task(persons.live(scene.publisher, rng, min(2, scale.kills)))
        for number in range(max(scale.kills, scale.mid_commit_kills)):
            if number < scale.kills:
                await asyncio.gather(archivists.follower.kill(rng), signers.follower.kill(rng))
                await signers.witness()
            if number < scale.mid_commit_kills:
                await archivists.kill_within_an_entry()
        await asyncio.gather(archivists.follower.meet(), signers.follower.meet(), living)
        await scene.finish(scale.events)
    await signers.follower.finish()
    await signers.witness()
    await archivists.follower.finish()
    kills = scale.kills + scale.mid_commit_kills
    return [
        figures.exactly("kills", archivists.follower.killed, kills, "archivers"),
        figures.some("killed_within_an_entry", archivists.killed_within_an_entry, "archivers"),
        figures.exactly("rivals_refused", archivists.follower.refused, 1, "archivers"),
        figures.exactly("signers_killed", signers.follower.killed, scale.kills, "head signers"),
        figures.exactly("signers_refused", signers.follower.refused, 1, "head signers"),
        *await check_heads(signers),
        *await compare(installation, archivists.folder, persons),
    ]


async def compare(installation: TestInstallation, folder: Path, persons: Persons) -> list[RunFigure]:
    """The archive against the topics, and in their place."""
    stored = Archive(FolderStore(folder))
    began = time.process_time()
    damages = list(stored.check())
    check_s = time.process_time() - began
    archived = [
        record for part in stored.manifest.segments for batch in stored.read_part(part) for record in batch
    ]
    names = [
        topic.real_name(installation.prefix, installation.app_id)
        for topic in CATALOG
        if topic.direction != "keys"  # what an archive kept of a key, no erasure could destroy
    ]
    async with open_reader(installation.bootstrap_servers, names, "beginning") as reader:
        there = [record async for batch in reader.to_end() for record in batch]
    times = Counter(map(_locate, archived))
    by_place = {_locate(record): record for record in archived}
    report = verify_archived_ledger(stored, installation.prefix)
    source = ArchiveEvidence(stored, installation.prefix)
    reruns = await rerun_sample(source, read_decision_settings(installation), MOST_RERUNS, SEED)
    files = [segment for part in stored.manifest.segments.values() for segment in part]
    segments, count = len(files), max(1, len(archived))
    return [
        figures.some("records", len(there), "records"),
        figures.none("lost", sum(_locate(record) not in by_place for record in there), "records"),
        figures.none("doubled", sum(count > 1 for count in times.values()), "records"),
        figures.none("invented", len(times.keys() - set(map(_locate, there))), "records"),
        figures.none(
            "differing", sum(by_place.get(_locate(record), record) != record for record in there), "records"
        ),
        figures.none("damages", len(damages), "findings"),
        figures.none("chain_errors", len(report.findings), "findings"),
        figures.some("entries", stored.manifest.number, "entries"),
        figures.some("segments", segments, "segments"),
        figures.report("segments_left_by_kills", _count_all(folder / "segments") - segments, "segments"),
        figures.report("raw_bytes", round(sum(file.raw_bytes for file in files) / count), "B/record"),
        figures.report("stored_bytes", round(sum(file.stored_bytes for file in files) / count), "B/record"),
        figures.report("check_cpu", round(1e6 * check_s / count, 1), "µs/record"),
        figures.some("reruns_identical", sum(rerun.status == "identical" for rerun in reruns), "decisions"),
        figures.none(
            "reruns_not_identical",
            sum(rerun.status not in {"identical", "erased"} for rerun in reruns),
            "decisions",
        ),
        *persons.compare(archived, reruns),
    ]


def _locate(record: StoredRecord) -> tuple[str, int, int]:
    return record.topic, record.partition, record.offset


def _count_all(folder: Path) -> int:
    return sum(len(files) for _, _, files in os.walk(folder))


def _count_files(folder: Path) -> int:
    try:
        return len(os.listdir(folder))  # noqa: PTH208 - asked a thousand times a second
    except FileNotFoundError:
        return 0
