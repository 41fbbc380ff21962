"""Where a run takes place: broker, topics of its own, folder. Nothing of one run meets another's."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.adapters.kafka.kafka_topics import create
from app.demo.inputs.trust import ThrowawayTrust, publish_policy
from load.sites import policy
from topics.catalog import CATALOG, SESSIONS_CHANGELOG
from topics.layout import TopicLayout

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PARTITIONS = 8


@dataclass(frozen=True, slots=True)
class Site:
    """`settings` is the environment of a worker here; `began_ms`: when its policy was published."""

    bootstrap_servers: str
    prefix: str
    app_id: str
    folder: Path
    settings: dict[str, str]
    trust: ThrowawayTrust
    partitions: int = PARTITIONS
    began_ms: int = 0

    def real(self, base: str) -> str:
        """A topic's name on the broker."""
        return next(t.real_name(self.prefix, self.app_id) for t in CATALOG if t.name == base)

    @property
    def ledger(self) -> list[str]:
        """Real names of the ledger's topics."""
        return [self.real(topic.name) for topic in CATALOG if topic.ledger]

    @property
    def changelog(self) -> str:
        """Real name of the sessions' changelog."""
        return self.real(SESSIONS_CHANGELOG)


async def prepare(
    bootstrap_servers: str, folder: Path, name: str, stages: Sequence[str] = policy.STAGES
) -> Site:
    """Create the topics of a run called `name` (unique on this broker) and publish its policy."""
    prefix, trust, began_ms = f"{name}.", ThrowawayTrust(), time.time_ns() // 1_000_000
    await create(bootstrap_servers, TopicLayout(prefix, name, PARTITIONS), 1)
    await publish_policy(bootstrap_servers, prefix, policy.records(trust, began_ms, stages))
    settings = {
        "SLUICE_KAFKA__BOOTSTRAP_SERVERS": bootstrap_servers,
        "SLUICE_KAFKA__TOPIC_PREFIX": prefix,
        "SLUICE_KAFKA__PARTITIONS": str(PARTITIONS),
        "SLUICE_WORKER__APP_ID": name,
        "SLUICE_WORKER__HALT_ON_OFFSET_GAP": "true",
        **policy.environment(trust),
    }
    return Site(bootstrap_servers, prefix, name, folder, settings, trust, began_ms=began_ms)
