"""The workers' sessions, as their changelog on a broker has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.partitioner import murmur2

from sluice.adapters.kafka.kafka_consumers import Connection, read_batches_since
from sluice.adapters.kafka.kafka_read import make_unreachable
from sluice.core.state.session import session_key

if TYPE_CHECKING:
    from sluice.client.kafka_connection import KafkaCluster


async def has_state(cluster: KafkaCluster, changelog: str, partitions: int, session_id: str) -> bool:
    """Whether a session lives: its partition's changelog has its state. `changelog`: the topic's name on the
    broker. Raises KafkaUnreachable."""
    key = session_key(session_id)
    part = TopicPartition(changelog, int(murmur2(session_id.encode()) & 0x7FFFFFFF) % partitions)
    reading, asking = (Connection(cluster, isolation) for isolation in ("read_committed", "read_uncommitted"))
    lives = False
    try:
        async for batch in read_batches_since(await reading.connect(), await asking.connect(), part, 0):
            present = [message.value is not None for message in batch if message.key == key]
            lives = present[-1] if present else lives
    except KafkaError as error:
        raise make_unreachable(cluster, error) from error
    finally:
        await reading.close()
        await asking.close()
    return lives
