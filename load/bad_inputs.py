"""Bad inputs among good ones: none is lost, none stops the worker or holds up its neighbours.

Malformed inputs of every kind: neighbours are the inputs just before and just after a malformed one in its
partition. Where the broker took all three in one batch (one broker time), both must be answered by one
transaction or by two that follow each other: the changelog has one partition record (key "p:") per
transaction, whose `sequence` says where it ended. And of the times from input to verdict, the 99th percentile
of those that follow a malformed input (also a megabyte of it) may exceed that of the others by the time for
which a batch gathers, not by more.

Poison: an input that kills every worker that evaluates it is denied unread after exactly three crashes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from load.inputs.malformed_inputs import kinds_by_topic
from load.inputs.publisher import Pace
from load.inputs.traffic import Traffic
from load.installations.approvers import is_of_people
from load.installations.installation import MALFORMED, POISON, Mix, gather
from load.installations.task_policy import is_of_tasks
from load.recomputation import figures
from load.recomputation.input_answers import account
from load.recomputation.reruns import execute_again
from load.recomputation.run_findings import bites, integrity
from load.recomputation.stored_sessions import PARTITION_KEY
from load.scene import open_scene
from sluice_topics.catalog import ACTIONS, MEMORY_WRITES, VERDICTS

if TYPE_CHECKING:
    from load.installations.installation import Evidence, RunScale, TrafficRecord
    from load.recomputation.figures import RunFigure
    from load.recomputation.input_answers import AnswerAccount, Answered
    from load.scene import Bed, Scene

LEAST_KINDS = 200
TICK_S = 0.5  # bursts, so that neighbours reach the broker in one batch
GATHERING_MS = 100  # the setting linger_max_ms


async def malformed(bed: Bed, scale: RunScale) -> list[RunFigure]:
    """One worker; nothing is asked in the actions' sessions, which alone would part neighbours."""
    name = "malformed"
    installation = await bed.installation(name)
    every = kinds_by_topic()
    mix = Mix(sessions=scale.sessions, slow=0.0, apart=True, malformed_every=scale.malformed_every)
    names = f"{name}-{bed.salt}"
    traffic = Traffic(bed.rng(name), names, mix, installation.trust.reviewer, every, installation.audience)
    traffic.tasks = bed.make_tasks(installation, name, mix)
    events = max(scale.events, (sum(map(len, every.values())) + 1) * scale.malformed_every)
    async with open_scene(installation, traffic, Pace(scale.malformed_rate, TICK_S), 1) as scene:
        await scene.finish(events)
    evidence = await gather(installation)
    answers = account(evidence)
    tally = scene.fleet.tally
    return [
        *_check_malformed(answers),
        *_neighbours(evidence, answers),
        figures.none("stopped_workers", sum(tally.exits.values()) - tally.exits[0], "workers"),
        *integrity(evidence, answers),
        *bites(tally, evidence, ()),
        *await execute_again(evidence),
    ]


def _check_malformed(answers: AnswerAccount) -> list[RunFigure]:
    unreadable = [answered for answered in answers.inputs.values() if answered.kind.startswith(MALFORMED)]
    silent = sum(len(answered.letters) != 1 or bool(answered.decisions) for answered in unreadable)
    return [
        figures.report("malformed_inputs", len(unreadable), "inputs"),
        figures.require_at_least(
            "malformed_kinds", len({answered.kind for answered in unreadable}), LEAST_KINDS, "kinds"
        ),
        figures.none("malformed_without_one_dead_letter", silent, "inputs"),
    ]


def _neighbours(evidence: Evidence, answers: AnswerAccount) -> list[RunFigure]:
    transactions = Transactions.read(evidence)
    pairs = [pair for pair in _pairs(answers) if pair[0].decisions and pair[1].decisions]
    together = [pair for pair in pairs if pair[0].record.timestamp_ms == pair[1].record.timestamp_ms]
    apart = [transactions.number(after) - transactions.number(before) for before, after in together]
    latencies = _latencies(evidence)
    after_malformed = {_place(after) for _, after in pairs}
    held_up = _p99([ms for coordinates, ms in latencies.items() if coordinates in after_malformed])
    usual = _p99([ms for coordinates, ms in latencies.items() if coordinates not in after_malformed])
    # Against the others of the same run: of some 200 neighbours the 99th percentile is the third worst, and
    # on a machine that is busy with other things a fixed bound alone measures the machine.
    return [
        figures.some("neighbours", len(apart), "pairs"),
        figures.require_at_most("neighbours_apart", max(apart, default=0), 1, "batches"),
        figures.report("p99_of_others", usual, "ms"),
        figures.report("p99_after_malformed", held_up, "ms"),
        figures.require_at_most("p99_held_up", held_up - usual, max(GATHERING_MS, usual), "ms"),
    ]


def _place(answered: Answered) -> tuple[int, int]:
    return answered.record.partition, answered.record.offset


def _latencies(evidence: Evidence) -> dict[tuple[int, int], int]:
    """ms between broker time of an action and of its verdict, by partition and offset."""
    return {
        (record.partition, body["input"]["offset"]): record.timestamp_ms - body["input"]["timestamp"]
        for record in evidence.ledger
        if record.topic.endswith(VERDICTS)
        and not (is_of_people(record.key) or is_of_tasks(record.key))
        and (body := orjson.loads(record.value or b"null"))
    }


def _p99(values: list[int]) -> int:
    return sorted(values)[int(len(values) * 0.99)]


def _pairs(answers: AnswerAccount) -> list[tuple[Answered, Answered]]:
    """Inputs before and after a malformed one."""
    by_partition: dict[int, list[Answered]] = defaultdict(list)
    for (topic, partition, _), answered in sorted(answers.inputs.items(), key=lambda item: item[0]):
        if topic == ACTIONS:
            by_partition[partition].append(answered)
    return [
        (before, after)
        for inputs in by_partition.values()
        for before, middle, after in zip(inputs, inputs[1:], inputs[2:], strict=False)
        if middle.kind.startswith(MALFORMED)
    ]


@dataclass(frozen=True, slots=True)
class Transactions:
    """Last ledger number of each transaction, by partition."""

    ends: dict[int, list[int]]

    @classmethod
    def read(cls, evidence: Evidence) -> Transactions:
        """From the changelog's partition records."""
        ends: dict[int, list[int]] = defaultdict(list)
        for record in evidence.changelog:
            if record.key == PARTITION_KEY:
                ends[record.partition].append(orjson.loads(record.value or b"null")["sequence"])
        return cls(ends)

    def number(self, answered: Answered) -> int:
        """Which transaction of its partition answered an input."""
        return bisect_left(self.ends[answered.record.partition], answered.decisions[0]["sequence"])


CRASHES = 3
POISONS = 2
MOST_HELD = 2  # with the fewer inputs, or nothing would be evicted
DENIED = {ACTIONS: "BLOCK", MEMORY_WRITES: "reject"}
SLOW = 0.03
CALMER = 3  # fewer inputs: after the second crash all suspects of all partitions are tried one by one


async def poison(bed: Bed, scale: RunScale) -> list[RunFigure]:
    """A poisonous action, then a poisonous memory write, in the middle of ordinary traffic."""
    name = "poison"
    installation = await bed.installation(name)
    installation.settings["SLUICE_MEMORY__MAX_QUARANTINE_SIZE"] = str(MOST_HELD)
    traffic = bed.traffic(installation, name, scale, slow=SLOW)
    async with open_scene(installation, traffic, Pace(scale.rate / CALMER, plenty=scale.plenty), 1) as scene:
        for crashes, event in enumerate((traffic.poison(), traffic.poisonous_write()), 1):
            await _take(scene, event, crashes * CRASHES)
        await scene.finish(scale.events // CALMER)
    evidence = await gather(installation)
    answers = account(evidence)
    return [
        figures.exactly("crashes", scene.fleet.tally.killed, POISONS * CRASHES, "workers"),
        figures.exactly("poison_denied_unread", _count_denied(answers), POISONS, "inputs"),
        *integrity(evidence, answers, denied_unread=POISONS),
        *bites(scene.fleet.tally, evidence, ("kills_in_flight",)),
        *await execute_again(evidence),
    ]


async def _take(scene: Scene, event: TrafficRecord, crashes: int) -> None:
    """Publish a poisonous input and return when the workers have got over it, with so many crashes in all."""
    await scene.busy(0)
    await scene.publisher.insert(event)
    await scene.wait_until(lambda: scene.fleet.tally.killed >= crashes, f"{crashes} crashes are seen")
    await scene.calm()


def _count_denied(answers: AnswerAccount) -> int:
    """Poisonous inputs with one unread denial and one dead letter."""
    return sum(
        answered.kind == POISON
        and answered.unread
        and len(answered.letters) == 1
        and [each.get("outcome") or each.get("action") for each in answered.decisions]
        == [DENIED[answered.topic]]
        for answered in answers.inputs.values()
    )
