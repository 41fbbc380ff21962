"""`python -m load.bounds`: what a session and an agent keep stays within its bounds under 100 000 values.

One worker on a broker of its own. Outcomes of trusted and untrusted results bring so many values into one
session, an outcome of up to 512 of them at a time, and so many uses of different destinations come to one
agent's table, from more tools than it has room for. Then every state that the changelog ever had is read:
bytes of the session's index, counts of each tool's role and of the agent. Figures in build/bounds.json; exit
status 1 when one misses its goal.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hashlib
import itertools
import json
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaProducer

from load import ROOT
from load.inputs.task_traffic import sign_outcome
from load.installations.fleet import Fleet
from load.installations.installation import gather
from load.installations.neutral_policy import TENANT
from load.installations.quality_policy import POINT
from load.installations.task_policy import CONTACTS, INBOX, PAYERS, PREFIX
from load.recomputation import figures
from load.recomputation.stored_sessions import PARTITION_KEY, VALUES, list_sizes
from load.recomputation.task_recount import MOST_INDEX_BYTES, SETTLED
from load.scene import Bed, wait_until_decided
from sluice.broker import locate
from sluice.broker.local import Layout
from sluice.core.state.usual import KEY_PREFIX, MOST_OF_AGENT, MOST_OF_ROLE, AgentName, Lesson, record_use
from sluice_topics.catalog import ACTIONS, DESTINATION_USES, OUTCOMES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping

    from aiokafka.structs import RecordMetadata

    from load.installations.installation import Evidence, TestInstallation
    from load.recomputation.figures import RunFigure
    from load.scene import Ends
    from sluice.adapters.kafka.kafka_read import StoredRecord

NAME = "bounds"
VALUES_IN_ALL = 100_000
SIZES = (512, 64, 512, 5, 512, 1)
"""Values of one outcome after another."""
OF_ONE_USE = 64
TOOLS = 12
"""More than fit into an agent's table, each with all of its role."""
SESSION, AGENT = f"{PREFIX}bounds", AgentName(TENANT, PAYERS[0])


async def push_values(bed: Bed, values: int) -> list[RunFigure]:
    """So many values through one session, and so many uses through one agent's table."""
    installation = await bed.installation(NAME, with_people=False)
    fleet = Fleet(installation, 0.0)
    watching = asyncio.create_task(fleet.watch())
    try:
        fleet.spawn(0)
        began = time.monotonic()
        await _publish(
            installation, values, lambda ends: wait_until_decided(installation, ends, fleet, fleet.check)
        )
        took = time.monotonic() - began
        await fleet.close()
    finally:
        watching.cancel()
        fleet.kill_all()
    return [*_check(await gather(installation), values), figures.report("seconds", round(took, 1), "s")]


async def _publish(
    installation: TestInstallation, values: int, decided: Callable[[Ends], Awaitable[None]]
) -> None:
    """Actions, then their outcomes and uses; `decided` waits until all before these ends is decided."""
    ends: Ends = {}
    producer = AIOKafkaProducer(bootstrap_servers=installation.bootstrap_servers, enable_idempotence=True)
    lists = list(_list_prints(values))
    async with producer:

        async def send(base: str, key: str, messages: Iterable[Mapping[str, Any]]) -> list[RecordMetadata]:
            topic = installation.real(base)
            sent = [
                await producer.send(topic, json.dumps(message).encode(), key.encode()) for message in messages
            ]
            placed = [await sending for sending in sent]
            for metadata in placed:
                ends[topic, metadata.partition] = max(
                    ends.get((topic, metadata.partition), 0), metadata.offset + 1
                )
            return placed

        actions = [_make_action(number) for number in range(len(lists))]
        places = await send(ACTIONS, SESSION, actions)
        await decided(ends)
        parts_of_outcomes = zip(actions, places, lists, strict=True)
        await send(OUTCOMES, SESSION, (_make_outcome(installation, *parts) for parts in parts_of_outcomes))
        uses = [_make_use(number) for number in range(values // OF_ONE_USE)]
        await send(DESTINATION_USES, AGENT.key(), uses)
        await decided(ends)


def _list_prints(values: int) -> Iterator[list[str]]:
    """Fingerprints of different values, in lists of different lengths."""
    drawn = 0
    for size in itertools.cycle(SIZES):
        if drawn >= values:
            return
        numbers = range(drawn, min(drawn + size, values))
        yield [base64.b64encode(number.to_bytes(16, "little")).decode() for number in numbers]
        drawn += size


def _make_action(number: int) -> dict[str, Any]:
    return {
        "action_id": f"b-{number}",
        "agent_id": AGENT.agent,
        "session_id": SESSION,
        "toolName": (CONTACTS, INBOX)[number % 2],
        "parameters": {},
        "rows_affected": 0,
        "mode": "high_stakes",
    }


def _make_outcome(
    installation: TestInstallation, action: dict[str, Any], placed: RecordMetadata, prints: list[str]
) -> dict[str, Any]:
    digest = "sha256:" + hashlib.sha256(json.dumps(action).encode()).hexdigest()
    where = {"topic": ACTIONS, "partition": placed.partition, "offset": placed.offset}
    outcome = {
        "action_id": action["action_id"],
        "session_id": SESSION,
        "rows_affected": 0,
        "reported_by": POINT,
        "values": {"fingerprints": prints, "truncated": False},
        "action_digest": digest,
        "input": {**where, "timestamp": placed.timestamp, "digest": digest},
    }
    return sign_outcome(outcome, installation.trust.reviewer, installation.audience)


def _make_use(number: int) -> dict[str, Any]:
    """A use of destinations that nobody used before; every tenth is that before it again."""
    first = (number - (number % 10 == 9)) * OF_ONE_USE
    prints = [f"{first + index:032x}" for index in range(OF_ONE_USE)]
    lesson = Lesson(f"load.tool-{number // 10 % TOOLS}", {"destination": prints})
    return record_use(AGENT, lesson, f"b-{number}", time.time_ns() // 1_000_000).body


def _check(evidence: Evidence, values: int) -> list[RunFigure]:
    sizes = [*list_sizes(evidence.changelog, SESSION.encode(), VALUES)]
    records = [json.loads(record.value or b"null") for record in evidence.ledger]
    settled = sum(record["schema"] == SETTLED and not record["early"] for record in records)
    of_role, of_agent, size = _list_most_counts(evidence.changelog)
    usual: dict[bytes | None, int] = {}
    for stored_record in evidence.usual:
        usual[stored_record.key] = json.loads(stored_record.value or b"null")["times"]
    retained = sum(times > 0 for times in usual.values())
    return [
        figures.exactly("outcomes", settled, len([*_list_prints(values)]), "outcomes"),
        figures.report("values", values, "values"),
        figures.some("index_versions", len(sizes), "states"),
        figures.require_at_most("index_bytes", max(sizes, default=0), MOST_INDEX_BYTES, "bytes"),
        figures.require_at_least("index_in_use", max(sizes, default=0), MOST_INDEX_BYTES // 4, "bytes"),
        figures.exactly("uses", len(evidence.uses), values // OF_ONE_USE, "records"),
        figures.require_at_most("counts_of_a_role", of_role, MOST_OF_ROLE, "counts"),
        figures.require_at_most("counts_of_the_agent", max(of_agent), MOST_OF_AGENT, "counts"),
        figures.report("bytes_of_the_agent", size, "bytes"),
        figures.exactly("counts_told_to_workers", retained, of_agent[-1], "counts"),
    ]


def _list_most_counts(changelog: Iterable[StoredRecord]) -> tuple[int, list[int], int]:
    """The most counts that a tool's role had after a transaction, those of the agent after each, and the
    bytes of all in the end."""
    sizes: dict[bytes, int] = {}
    roles: Counter[bytes] = Counter()
    most, of_agent = 0, [0]
    for record in changelog:
        if record.key is not None and record.key.startswith(KEY_PREFIX):
            role = record.key.rpartition(b",")[0]
            roles[role] -= record.key in sizes
            sizes.pop(record.key, None)
            if record.value is not None:
                roles[role] += 1
                sizes[record.key] = len(record.key) + len(record.value)
        elif record.key == PARTITION_KEY and sizes:
            most = max([most, *roles.values()])
            of_agent.append(len(sizes))
    return most, of_agent, sum(sizes.values())


def main() -> None:
    """Push and read on a broker of its own."""
    parser = argparse.ArgumentParser(prog="python -m load.bounds", description=__doc__)
    parser.add_argument("--values", type=int, default=VALUES_IN_ALL)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bounds.json")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="sluice-bounds-"))
    broker = locate.start_broker(Layout(folder / "kafka", folder / "kafka" / "data", locate.JARS))
    try:
        run_figures = asyncio.run(
            push_values(Bed(broker, folder, 1, f"{time.time_ns() // 10**6 % 10**9}"), options.values)
        )
    finally:
        broker.close()
    shutil.rmtree(folder)
    figures.write(options.out, run_figures)
    print(figures.table(run_figures), flush=True)
    if not all(figure.holds for figure in run_figures):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
