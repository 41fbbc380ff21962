"""The archiver is killed under load, also between a segment and the entry that names it, and meets a second
one. Afterwards the archive is held against the topics, byte for byte, and takes their place in reruns and in
the verification of the ledger.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from typing import TYPE_CHECKING

from load.inputs.publisher import Pace
from load.installations.command_process import start_command
from load.installations.fleet import RunFailed
from load.recomputation import figures
from load.recomputation.reruns import SEED, read_decision_settings
from load.scene import STALL_S, open_scene
from sluice.adapters.archive.archive_evidence import ArchiveEvidence, verify_archived_ledger
from sluice.adapters.archive.archive_store import FolderStore
from sluice.adapters.archive.archived_records import Archive
from sluice.adapters.kafka.kafka_read import open_reader
from sluice.adapters.kafka.kafka_rerun import rerun_sample
from sluice_topics.catalog import CATALOG

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

    from load.installations.forked_process import ForkedProcess
    from load.installations.installation import RunScale, TestInstallation
    from load.recomputation.figures import RunFigure
    from load.scene import Bed
    from sluice.adapters.kafka.kafka_read import StoredRecord

WORKERS = 2
AGE_S = 0.3
WANDER_S = 0.8
LOOK_S = 0.001
REFUSED = 2
MOST_RERUNS = 20_000
END_S = 60.0


class Archivists:
    """The archivers of a run, on one folder."""

    def __init__(self, installation: TestInstallation) -> None:
        self.folder = installation.folder / "archive"
        self._installation = installation
        own = {key: value for key, value in os.environ.items() if not key.startswith(("SLUICE_", "KAFKA_"))}
        self._environment = {
            **own,
            **installation.settings,
            "SLUICE_ARCHIVE__SEGMENT_AGE_S": str(AGE_S),
        }
        self.killed = 0
        self.killed_within_an_entry = 0
        self.refused = 0

    def start(self, *more: str) -> ForkedProcess:
        """Start one."""
        words = ["archive", "run", "--to", str(self.folder), *more]
        return start_command(words, self._environment, self._installation.folder / "archiver.log")

    def count_entries(self) -> int:
        """Entries of the manifest."""
        return _count_files(self.folder / "manifest")

    def count_segments(self) -> int:
        """Files of segments, named by an entry or not."""
        return _count_all(self.folder / "segments")

    async def kill(self, rng: random.Random) -> None:
        """Kill one at a random moment behind its first entry."""
        process, before = self.start(), self.count_entries()
        await self._wait_until(process, lambda: self.count_entries() > before)
        await asyncio.sleep(rng.uniform(0, WANDER_S))
        await self._end(process, signal.SIGKILL)
        self.killed += 1

    async def kill_within_an_entry(self) -> None:
        """Kill one as soon as a segment lies there that no entry names."""
        process, before = self.start(), self.count_segments()
        await self._wait_until(process, lambda: self.count_segments() > before)
        entries = self.count_entries()
        await self._end(process, signal.SIGKILL)
        self.killed += 1
        self.killed_within_an_entry += self.count_entries() == entries

    async def meet(self) -> None:
        """Start two at once: one of them must end, refused, and the other go on."""
        both = [self.start(), self.start()]
        until = time.monotonic() + STALL_S
        while all(process.poll() is None for process in both):
            if time.monotonic() > until:
                raise RunFailed("two archivers wrote beside one another")
            await asyncio.sleep(0.05)
        statuses = [await self._end(process, signal.SIGTERM) for process in both]
        if sorted(statuses) != [0, REFUSED]:
            raise RunFailed(f"two archivers ended with {statuses}")
        self.refused += 1

    async def finish(self) -> None:
        """Archive all that there is now."""
        status = await asyncio.to_thread(self.start("--once").wait, END_S)
        if status:
            raise RunFailed(f"the last archiver ended with status {status}")

    async def _wait_until(self, process: ForkedProcess, holds: Callable[[], bool]) -> None:
        until = time.monotonic() + STALL_S
        while not holds():
            if process.poll() is not None:
                raise RunFailed(f"an archiver ended with status {process.poll()}")
            if time.monotonic() > until:
                await self._end(process, signal.SIGKILL)
                raise RunFailed("an archiver wrote nothing")
            await asyncio.sleep(LOOK_S)

    async def _end(self, process: ForkedProcess, how: signal.Signals) -> int:
        if process.poll() is None:
            process.send_signal(how)
        return await asyncio.to_thread(process.wait, END_S)


async def archive(bed: Bed, scale: RunScale) -> list[RunFigure]:
    """Kills of the archiver and a rival, while two workers decide."""
    name = "archive"
    installation, rng = await bed.installation(name), bed.rng(name)
    archivists = Archivists(installation)
    traffic = bed.traffic(installation, name, scale, slow=0)
    async with open_scene(installation, traffic, Pace(scale.rate, plenty=scale.plenty), WORKERS) as scene:
        for number in range(max(scale.kills, scale.mid_commit_kills)):
            if number < scale.kills:
                await archivists.kill(rng)
            if number < scale.mid_commit_kills:
                await archivists.kill_within_an_entry()
        await archivists.meet()
        await scene.finish(scale.events)
    await archivists.finish()
    return [
        figures.exactly("kills", archivists.killed, scale.kills + scale.mid_commit_kills, "archivers"),
        figures.some("killed_within_an_entry", archivists.killed_within_an_entry, "archivers"),
        figures.exactly("rivals_refused", archivists.refused, 1, "archivers"),
        *await compare(installation, archivists.folder),
    ]


async def compare(installation: TestInstallation, folder: Path) -> list[RunFigure]:
    """The archive against the topics, and in their place."""
    stored = Archive(FolderStore(folder))
    began = time.process_time()
    damages = list(stored.check())
    check_s = time.process_time() - began
    archived = [
        record for part in stored.manifest.segments for batch in stored.read_part(part) for record in batch
    ]
    names = [topic.real_name(installation.prefix, installation.app_id) for topic in CATALOG]
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
            "reruns_not_identical", sum(rerun.status != "identical" for rerun in reruns), "decisions"
        ),
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
