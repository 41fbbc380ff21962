"""The catalog laid out on one broker: real names and partition count, and how far a broker differs. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sluice_topics.catalog import CATALOG, INPUT_RETENTION_MS, KEEP

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sluice_topics.catalog import Topic

RETENTION = "retention.ms"


@dataclass(frozen=True, slots=True)
class TopicLayout:
    """What the settings add to the catalog. `partitions`: of every topic but the single ones;
    `input_retention_ms`: how long inputs are kept, -1 for ever; `only`: topics by their names in the catalog,
    all where empty."""

    prefix: str
    app_id: str
    partitions: int
    input_retention_ms: int = INPUT_RETENTION_MS
    only: frozenset[str] = frozenset()

    def topics(self) -> dict[str, Topic]:
        """Each topic by its real name."""
        return {
            topic.real_name(self.prefix, self.app_id): self._set_retention(topic)
            for topic in CATALOG
            if not self.only or topic.name in self.only
        }

    def _set_retention(self, topic: Topic) -> Topic:
        is_input = topic.direction == "in"
        return replace(topic, retention_ms=self.input_retention_ms) if is_input else topic

    def count_partitions(self, topic: Topic) -> int:
        """How many partitions a topic has here."""
        return 1 if topic.single else self.partitions


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """A topic as the broker has it; `config` in Kafka's own names; `replicas`: the fewest of a partition, 0
    where nobody asked."""

    partitions: int
    config: Mapping[str, str]
    replicas: int = 0


@dataclass(frozen=True, slots=True)
class TopicDifference:
    """A topic that is not as the catalog says; `mend` is a command, or why there is none; `why`: what it
    costs. `is_risk`: processes run on it all the same."""

    topic: str
    what: str
    expected: str
    actual: str
    mend: str
    why: str = ""
    is_risk: bool = False


def compare_topics(
    layout: TopicLayout, existing: Mapping[str, FoundTopic], bootstrap_servers: str
) -> list[TopicDifference]:
    """Every difference between the catalog and a broker. `existing` by real name; others are no matter."""
    return [
        difference
        for name, topic in layout.topics().items()
        for difference in _compare_topic(
            name, topic, layout.count_partitions(topic), existing.get(name), bootstrap_servers
        )
    ]


def _compare_topic(
    name: str, topic: Topic, partitions: int, existing: FoundTopic | None, bootstrap_servers: str
) -> Iterator[TopicDifference]:
    if existing is None:
        yield TopicDifference(name, "topic", "present", "missing", "sluice topics create")
        return
    if existing.partitions != partitions:
        yield TopicDifference(
            name,
            "partitions",
            str(partitions),
            str(existing.partitions),
            _mend_single() if topic.single else _mend_partitions(existing.partitions),
        )
    for key, value in topic.config().items():
        actual = existing.config.get(key, "")
        if actual != value and not (key == RETENTION and _is_longer(actual, topic.retention_ms)):
            mend = _mend_config(name, key, value, bootstrap_servers)
            why = _explain_retention(topic) if key == RETENTION else _COSTS.get(key, "")
            yield TopicDifference(name, key, value, actual, mend, why)


_COSTS = {
    "message.timestamp.type": (
        "a record has the time that its producer claims: an agent can date an input back, past a freeze"
    ),
    "compression.type": (
        "the bound on sizes then holds for packed records, and a worker has to hold many times as much"
    ),
    "max.message.bytes": (
        "where it is smaller, a large record is refused, and a worker that has to write one stops; "
        "where it is larger, an input can be larger than a worker is made for"
    ),
    "retention.bytes": "records are deleted however young they are, as soon as there are many",
    "cleanup.policy": "compaction takes records that readers rely on, and deletion takes state",
    "segment.ms": "a key that is erased lies on the broker for longer",
    "min.compaction.lag.ms": "a key that is erased lies on the broker for longer",
    "max.compaction.lag.ms": "a key that is erased lies on the broker for longer, or for ever",
    "file.delete.delay.ms": "a key that is erased lies on the broker's disk for longer",
}
MIN_REPLICAS = "min.insync.replicas"
UNCLEAN = "unclean.leader.election.enable"
SAFE_REPLICAS = 2
"""That many brokers must have a record before it counts as written."""


def list_risks(
    layout: TopicLayout, existing: Mapping[str, FoundTopic], replication: int, bootstrap_servers: str
) -> list[TopicDifference]:
    """What the loss of a broker would cost on these topics. `replication`: the factor that is asked for."""
    return [
        risk
        for name in layout.topics()
        if name in existing
        for risk in _list_topic_risks(name, existing[name], replication, bootstrap_servers)
    ]


def _list_topic_risks(
    name: str, existing: FoundTopic, replication: int, bootstrap_servers: str
) -> Iterator[TopicDifference]:
    replicas = existing.replicas
    if 0 < replicas < replication:
        mend = "kafka-reassign-partitions.sh with more replicas, or a new topic prefix"
        why = f"{replicas} of {replication} brokers have it, and what is on those alone is lost with them"
        yield TopicDifference(name, "replicas", str(replication), str(replicas), mend, why, is_risk=True)
    insync = int(existing.config.get(MIN_REPLICAS) or 0)
    if replicas > SAFE_REPLICAS and 0 < insync < SAFE_REPLICAS:
        mend = _mend_config(name, MIN_REPLICAS, str(SAFE_REPLICAS), bootstrap_servers)
        why = "a record counts as written when one broker has it: a decision can be lost with that broker"
        yield TopicDifference(name, MIN_REPLICAS, str(SAFE_REPLICAS), str(insync), mend, why, is_risk=True)
    if 1 < replicas <= insync:
        mend = _mend_config(name, MIN_REPLICAS, str(replicas - 1), bootstrap_servers)
        why = "one broker that is away stops every write to this topic, and so every decision"
        yield TopicDifference(name, MIN_REPLICAS, str(replicas - 1), str(insync), mend, why, is_risk=True)
    if replicas > 1 and existing.config.get(UNCLEAN) == "true":
        mend = _mend_config(name, UNCLEAN, "false", bootstrap_servers)
        why = "a broker that lacks committed records may become leader, and they are gone"
        yield TopicDifference(name, UNCLEAN, "false", "true", mend, why, is_risk=True)


def _is_longer(actual: str, retention_ms: int) -> bool:
    """Whether the broker keeps a topic for longer than is asked for: that loses nothing."""
    return retention_ms != KEEP and actual.lstrip("-").isdigit() and not 0 <= int(actual) < retention_ms


def _explain_retention(topic: Topic) -> str:
    """What is lost where the broker deletes the records of a topic sooner than is asked for."""
    if topic.ledger:
        return "the ledger is kept for ever: no check can tell what retention took from what somebody deleted"
    if topic.direction == "control":
        return "signed policy is kept for ever: workers do not start on less than was in force"
    if topic.direction == "in":
        return (
            "an input that is gone cannot be executed again, nor approved; if fewer days are enough, set "
            "kafka.input_retention_days"
        )
    return "readers of this topic rely on what was written within that time"


def _mend_partitions(actual: int) -> str:
    return (
        "a partition count cannot be changed under existing sessions, since their partition follows from it: "
        f"set SLUICE_KAFKA__PARTITIONS={actual} if all topics have {actual}, or use a new topic prefix"
    )


def _mend_single() -> str:
    return "this topic has one partition, so that its records have one order: use a new topic prefix"


def _mend_config(name: str, key: str, value: str, bootstrap_servers: str) -> str:
    return (
        f"kafka-configs.sh --bootstrap-server {bootstrap_servers} --alter "
        f"--entity-type topics --entity-name {name} --add-config {key}={value}"
    )
