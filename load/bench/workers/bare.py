"""The yardstick: a bare aiokafka transactional loop, one producer per partition, nothing decided.

It writes per event one output of the worker's size, per session and batch one state record of the worker's
size, and the offsets, in one transaction. `python -m load.bench.workers.bare` runs until it is terminated.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiokafka
import orjson
import uvloop

from sluice.core.foundation.input_record import verdict_id
from sluice_topics.catalog import ACTIONS

HEADERS = 13
ID_HEADER = "ce_id"
Answered = Callable[[int, int], tuple[bytes, list[tuple[str, bytes]]]]
"""Value and headers of the output for an input's partition and offset."""


async def transact(
    producer: Any, tp: aiokafka.TopicPartition, records: list[Any], arguments: argparse.Namespace
) -> None:
    """One batch of one partition."""
    state = b"s" * arguments.state_bytes
    await producer.begin_transaction()
    futures = [
        *await send(
            producer,
            arguments.output,
            tp.partition,
            [(r.key, *arguments.answered(tp.partition, r.offset)) for r in records],
        ),
        *await send(
            producer, arguments.state, tp.partition, [(key, state, []) for key in {r.key for r in records}]
        ),
    ]
    await asyncio.gather(*futures)
    await producer.send_offsets_to_transaction({tp: records[-1].offset + 1}, arguments.group)
    await producer.commit_transaction()


def filler(arguments: argparse.Namespace) -> Answered:
    """Every output alike, of the worker's size."""
    header = [(f"x-header-{n:02d}", b"h" * (arguments.header_bytes // HEADERS)) for n in range(HEADERS)]
    output = b"o" * arguments.output_bytes
    return lambda *_: (output, header)


def verdicts(template: Path) -> Answered:
    """A verdict that a worker wrote, under the id of the input."""
    answer_template = json.loads(template.read_text())
    body, headers = (
        answer_template["body"],
        [(name, value.encode("latin-1")) for name, value in answer_template["headers"]],
    )

    def answer(partition: int, offset: int) -> tuple[bytes, list[tuple[str, bytes]]]:
        name = verdict_id(f"{ACTIONS}:{partition}:{offset}")
        changed = [(key, name.encode() if key == ID_HEADER else value) for key, value in headers]
        return orjson.dumps({**body, "verdict_id": name}), changed

    return answer


async def send(producer: Any, topic: str, partition: int, records: list[Any]) -> list[Any]:
    """The records in as few batches as fit."""
    futures, builder = [], producer.create_batch()
    for key, value, headers in records:
        if builder.append(key=key, value=value, timestamp=None, headers=headers) is None:
            futures.append(await producer.send_batch(builder, topic, partition=partition))
            builder = producer.create_batch()
            builder.append(key=key, value=value, timestamp=None, headers=headers)
    futures.append(await producer.send_batch(builder, topic, partition=partition))
    return futures


async def own(consumer: Any, tp: aiokafka.TopicPartition, arguments: argparse.Namespace) -> None:
    """Serve one partition."""
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=arguments.bootstrap,
        transactional_id=f"{arguments.group}-{tp.partition}",
        acks="all",
        max_batch_size=786_432,
        max_request_size=4_194_304,
    )
    await producer.start()
    while True:
        fetched = await consumer.getmany(tp, timeout_ms=100, max_records=arguments.max_batch)
        records = list(fetched.get(tp, ()))
        if records and arguments.linger_ms:
            await asyncio.sleep(arguments.linger_ms / 1000)
            more = await consumer.getmany(tp, timeout_ms=0, max_records=arguments.max_batch)
            records += more.get(tp, ())
        if records:
            await transact(producer, tp, records, arguments)


async def run(arguments: argparse.Namespace) -> None:
    """All partitions, until cancelled."""
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=arguments.bootstrap,
        group_id=None,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        fetch_max_wait_ms=100,
    )
    await consumer.start()
    parts = [aiokafka.TopicPartition(arguments.input, number) for number in range(arguments.partitions)]
    consumer.assign(parts)
    await asyncio.gather(*(own(consumer, tp, arguments) for tp in parts))


def main() -> None:
    """Arguments: see the options."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bootstrap", "group", "input", "output", "state"):
        parser.add_argument(f"--{name}", required=True)
    for name, default in (("partitions", 8), ("max-batch", 1024), ("output-bytes", 0), ("state-bytes", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--header-bytes", type=int, default=0)
    parser.add_argument("--linger-ms", type=float, default=0)
    parser.add_argument("--answer", type=Path, help="a worker's verdict, to answer a gateway with")
    arguments = parser.parse_args()
    arguments.answered = filler(arguments) if arguments.answer is None else verdicts(arguments.answer)
    uvloop.run(run(arguments))


if __name__ == "__main__":
    main()
