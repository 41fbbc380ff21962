"""The archiver and the head signer are killed under load, the archiver also between a segment and the entry
that names it, and each meets a second one; a witness co-signs what the signer left, and persons whose data
agents handle are erased meanwhile. Afterwards the archive is held against the topics, byte for byte, and
takes their place in reruns and in the verification of the ledger, and the ledger is held against all heads.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from typing import TYPE_CHECKING

from load.erasures import introduce
from load.inputs.publisher import Pace
from load.installations.command_process import start_command
from load.installations.fleet import RunFailed
from load.recomputation import figures
from load.recomputation.reruns import SEED, read_decision_settings
from load.scene import STALL_S, open_scene
from sluice.adapters.archive.archive_evidence import ArchiveEvidence, verify_archived_ledger
from sluice.adapters.archive.archive_store import FolderStore
from sluice.adapters.archive.archived_records import Archive
from sluice.adapters.kafka.kafka_ledger import verify_ledger
from sluice.adapters.kafka.kafka_read import open_reader
from sluice.adapters.kafka.kafka_rerun import rerun_sample
from sluice.cli.policy.key_files import make_private_key
from sluice.core.trust.tree_heads import open_head
from sluice.verifier.head_check import HeadSigners, HeadSources, Witnesses
from sluice_topics.catalog import CATALOG

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from load.erasures import Persons
    from load.installations.forked_process import ForkedProcess
    from load.installations.installation import RunScale, TestInstallation
    from load.recomputation.figures import RunFigure
    from load.scene import Bed
    from sluice.adapters.kafka.kafka_read import StoredRecord
    from sluice.verifier.ledger_findings import Report

WORKERS = 2
AGE_S = 0.3
WANDER_S = 0.8
LOOK_S = 0.001
ARCHIVER_REFUSED, SIGNER_REFUSED = 2, 1
MOST_RERUNS = 20_000
END_S = 60.0


class Follower:
    """A command that follows the topics of a run, of which one may run at a time."""

    def __init__(
        self,
        installation: TestInstallation,
        words: Sequence[str],
        settings: Mapping[str, str],
        count: Callable[[], int],
        refused_status: int,
    ) -> None:
        """`count`: what it has written so far; `refused_status`: with which one of two ends."""
        own = {key: value for key, value in os.environ.items() if not key.startswith(("SLUICE_", "KAFKA_"))}
        self.environment = {**own, **installation.settings, **settings}
        self.folder = installation.folder
        self._words = words
        self._count = count
        self._refused_status = refused_status
        self.killed = 0
        self.refused = 0

    def start(self, *more: str) -> ForkedProcess:
        """Start one."""
        log = self.folder / f"{'-'.join(self._words[:2])}.log"
        return start_command([*self._words, *more], self.environment, log)

    async def kill(self, rng: random.Random) -> None:
        """Kill one at a random moment after it wrote something."""
        await self.kill_after(self._count, rng.uniform(0, WANDER_S))

    async def kill_after(self, count: Callable[[], int], wait_s: float = 0) -> None:
        """Kill one so long after what `count` counts has become more."""
        process, before = self.start(), count()
        await self._wait_until(process, lambda: count() > before)
        await asyncio.sleep(wait_s)
        await self._end(process, signal.SIGKILL)
        self.killed += 1

    async def meet(self) -> None:
        """Start two at once: one of them must end, refused, and the other go on."""
        both = [self.start(), self.start()]
        until = time.monotonic() + STALL_S
        while all(process.poll() is None for process in both):
            if time.monotonic() > until:
                raise RunFailed(f"two of {self._words} wrote beside one another")
            await asyncio.sleep(0.05)
        statuses = [await self._end(process, signal.SIGTERM) for process in both]
        if sorted(statuses) != [0, self._refused_status]:
            raise RunFailed(f"two of {self._words} ended with {statuses}")
        self.refused += 1

    async def finish(self) -> None:
        """Take all that there is now."""
        status = await asyncio.to_thread(self.start("--once").wait, END_S)
        if status:
            raise RunFailed(f"the last of {self._words} ended with status {status}")

    async def _wait_until(self, process: ForkedProcess, holds: Callable[[], bool]) -> None:
        until = time.monotonic() + STALL_S
        while not holds():
            if process.poll() is not None:
                raise RunFailed(f"one of {self._words} ended with status {process.poll()}")
            if time.monotonic() > until:
                await self._end(process, signal.SIGKILL)
                raise RunFailed(f"one of {self._words} wrote nothing")
            await asyncio.sleep(LOOK_S)

    async def _end(self, process: ForkedProcess, how: signal.Signals) -> int:
        if process.poll() is None:
            process.send_signal(how)
        return await asyncio.to_thread(process.wait, END_S)


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


class Signers:
    """The head signers of a run, with a file of heads, and a witness of them."""

    def __init__(self, installation: TestInstallation) -> None:
        folder = installation.folder
        self.copy = folder / "heads.jsonl"
        self.key = make_private_key(folder / "heads.pem").public.text
        self.witness_key = make_private_key(folder / "witness.pem").public.text
        self.cosigned = folder / "cosigned.jsonl"
        settings = {
            "SLUICE_HEADS__SIGNING_KEY": str(folder / "heads.pem"),
            "SLUICE_HEADS__COPY_FILE": str(self.copy),
            "SLUICE_HEADS__INTERVAL_S": str(AGE_S),
        }
        self._installation = installation
        self.follower = Follower(installation, ["ledger", "sign-heads"], settings, self.count, SIGNER_REFUSED)

    def count(self) -> int:
        """Heads in the file."""
        return self.copy.read_bytes().count(b"\n") if self.copy.exists() else 0

    async def witness(self) -> None:
        """Let the witness co-sign the last head, by a proof from the one that it saw last."""
        last = self.count()
        envelopes = self.cosigned.read_bytes().splitlines() if self.cosigned.exists() else []
        first = read_number(envelopes[-1]) if envelopes else 1
        proof = str(self._installation.folder / f"growth-{last}.json")
        pem = str(self._installation.folder / "witness.pem")
        await self._run("ledger", "consistency", str(first), str(last), "--out", proof)
        await self._run("witness", proof, "--key", pem, "--seen", str(self.cosigned), "--head-key", self.key)

    async def _run(self, *words: str) -> None:
        log = self._installation.folder / "witness.log"
        status = await asyncio.to_thread(start_command(words, self.follower.environment, log).wait, END_S)
        if status:
            raise RunFailed(f"{words[:2]} ended with status {status}")

    async def verify(self) -> Report:
        """The ledger, held against the topic's heads, the file's and those that the witness co-signed."""
        signers = HeadSigners([self.key])
        witnesses = Witnesses([self.witness_key], 1)
        sources = HeadSources(signers, [self.copy], witnesses, [self.cosigned])
        return await verify_ledger(
            self._installation.bootstrap_servers, self._installation.prefix, None, sources
        )


def read_number(envelope: bytes) -> int:
    """The number of the head in it."""
    return open_head(envelope, 0)[1].number


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


async def check_heads(signers: Signers) -> list[RunFigure]:
    """The ledger against all heads, and how far they go."""
    report = await signers.verify()
    heads = report.heads
    signed = 0 if heads is None else heads.size
    return [
        figures.some("heads", 0 if heads is None else heads.count, "heads"),
        figures.exactly("heads_in_the_file", signers.count(), 0 if heads is None else heads.count, "heads"),
        figures.exactly("records_signed", signed, report.records, "records"),
        figures.none("head_findings", len(report.findings), "findings"),
        figures.exactly(
            "last_witnessed", 0 if heads is None else heads.witnessed or 0, signers.count(), "the last head"
        ),
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
