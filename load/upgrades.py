"""A rolling upgrade under load: workers of an earlier commit, then of both, then of this tree alone.

Topics are created by the earlier one, and what this tree adds by this one. While both run, either is killed,
and one goes back to the earlier code: each takes over what the other has written.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from typing import TYPE_CHECKING

from load import ROOT
from load.inputs.publisher import Pace
from load.installations.fleet import RunFailed
from load.installations.forked_process import list_paths
from load.installations.installation import PARTITIONS, gather
from load.interruptions import kill_busy
from load.recomputation import figures
from load.recomputation.run_findings import findings
from load.scene import open_scene
from sluice.adapters.kafka import kafka_topics
from sluice_topics.layout import TopicLayout

if TYPE_CHECKING:
    from pathlib import Path

    from load.installations.installation import Evidence, RunScale
    from load.recomputation.figures import RunFigure
    from load.scene import Bed, Scene

NAME = "upgrade"
EARLIER = "aa16434948f8b96859fa6686a70b4458992e736f"
WORKERS = 2
CREATE_S = 60.0


class HistoryAbsent(RunFailed):
    """The checkout has no history in which the earlier commit could be found."""


def extract(commit: str, folder: Path) -> Path:
    """The tree of a commit, in a new folder. Raises HistoryAbsent."""
    git = shutil.which("git") or "git"
    archive = folder.with_suffix(".tar")
    try:
        subprocess.run(
            [git, "-C", str(ROOT), "archive", "-o", str(archive), commit, "app", "load", "topics", "config"],
            check=True,
            capture_output=True,
        )
    except (OSError, subprocess.CalledProcessError) as absent:
        raise HistoryAbsent(f"git archive {commit}: no such commit in this checkout") from absent
    shutil.unpack_archive(archive, folder)
    archive.unlink()
    return folder


async def upgrade(bed: Bed, scale: RunScale) -> list[RunFigure]:
    """Workers of two versions side by side; where there is no history, it says so and does nothing."""
    try:
        earlier = await asyncio.to_thread(extract, EARLIER, bed.folder / "earlier")
    except HistoryAbsent as absent:
        print(f"  {absent}")
        return [figures.report("skipped", 1, "runs")]
    await asyncio.to_thread(_create_topics, earlier, bed)
    name = bed.installation_name(NAME)
    layout = TopicLayout(f"{name}.", name, PARTITIONS)
    added = await kafka_topics.create(bed.broker.bootstrap_servers, layout, bed.replication)
    installation = await bed.installation(NAME)
    async with open_scene(
        installation,
        bed.traffic(installation, NAME, scale),
        Pace(scale.rate, plenty=scale.plenty),
        WORKERS,
        tree=earlier,
    ) as scene:
        await scene.calm()
        await _replace(scene, 0, None)
        for _ in range(scale.kills):
            for slot in range(WORKERS):
                await _kill(scene, slot)
        await _replace(scene, 0, earlier)
        await _replace(scene, 0, None)
        await _replace(scene, 1, None)
        await scene.finish(scale.events)
    evidence = await gather(installation)
    return [
        figures.report("topics_added", sum(added.values()), "topics"),
        *_count_versions(evidence),
        figures.require_at_least("kills", scene.fleet.tally.killed, WORKERS * scale.kills, "workers"),
        *await findings(scene.fleet.tally, evidence, ("moved",)),
    ]


def _create_topics(tree: Path, bed: Bed) -> None:
    """As `sluice topics create` of that tree does."""
    name = bed.installation_name(NAME)
    own = {key: value for key, value in os.environ.items() if not key.startswith(("SLUICE_", "KAFKA_"))}
    settings = {
        "SLUICE_KAFKA__BOOTSTRAP_SERVERS": bed.broker.bootstrap_servers,
        "SLUICE_KAFKA__TOPIC_PREFIX": f"{name}.",
        "SLUICE_KAFKA__PARTITIONS": str(PARTITIONS),
        "SLUICE_WORKER__APP_ID": name,
    }
    words = [sys.executable, "-m", "sluice", "topics", "create"]
    environment = {**own, **list_paths(tree), **settings}
    done = subprocess.run(
        words, cwd=tree, env=environment, capture_output=True, text=True, check=False, timeout=CREATE_S
    )
    if done.returncode:
        raise RunFailed(f"the earlier version could not create its topics:\n{done.stderr[-2000:]}")


async def _replace(scene: Scene, slot: int, tree: Path | None) -> None:
    """Stop a worker in good order and start one of that tree (None: ours); both workers decide then."""
    await scene.fleet.remove(slot)
    if tree is None:
        scene.fleet.trees.pop(slot)
    else:
        scene.fleet.trees[slot] = tree
    scene.fleet.spawn(slot)
    await _decide_both(scene)


async def _kill(scene: Scene, slot: int) -> None:
    await kill_busy(scene, slot)
    await _decide_both(scene)


async def _decide_both(scene: Scene) -> None:
    for slot in range(WORKERS):
        await scene.busy(slot)
    await scene.calm()


def _count_versions(evidence: Evidence) -> list[RunFigure]:
    """Records of each version, and partitions and sessions whose records are of both."""
    records: dict[str, int] = defaultdict(int)
    sessions: dict[str, set[str]] = defaultdict(set)
    partitions: dict[int, set[str]] = defaultdict(set)
    for record in evidence.ledger:
        body = json.loads(record.value or b"null")
        version = str(body.get("decider_version"))
        records[version] += 1
        partitions[record.partition].add(version)
        if session := body.get("session_id"):
            sessions[session].add(version)
    both = sum(len(versions) == len(records) for versions in partitions.values())
    return [
        figures.exactly("versions", len(records), 2, "versions"),
        figures.some("records_of_the_rarer_version", min(records.values()), "records"),
        figures.exactly("partitions_of_both", both, len(partitions), "partitions"),
        figures.some(
            "sessions_of_both", sum(len(versions) > 1 for versions in sessions.values()), "sessions"
        ),
    ]
