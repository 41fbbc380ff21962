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
    `input_retention_ms`: how long inputs are kept, -1 for ever."""

    prefix: str
    app_id: str
    partitions: int
    input_retention_ms: int = INPUT_RETENTION_MS

    def topics(self) -> dict[str, Topic]:
        """Each topic by its real name."""
        return {topic.real_name(self.prefix, self.app_id): self._set_retention(topic) for topic in CATALOG}

    def _set_retention(self, topic: Topic) -> Topic:
        is_input = topic.direction == "in"
        return replace(topic, retention_ms=self.input_retention_ms) if is_input else topic

    def count_partitions(self, topic: Topic) -> int:
        """How many partitions a topic has here."""
        return 1 if topic.single else self.partitions


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """A topic as the broker has it; `config` in Kafka's own names."""

    partitions: int
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TopicDifference:
    """A topic that is not as the catalog says; `mend` is a command, or why there is none; `why`: what a
    shorter retention would lose."""

    topic: str
    what: str
    expected: str
    actual: str
    mend: str
    why: str = ""


def compare_topics(
    layout: TopicLayout, found: Mapping[str, FoundTopic], bootstrap_servers: str
) -> list[TopicDifference]:
    """Every difference between the catalog and a broker. `found` by real name; other topics are no matter."""
    return [
        difference
        for name, topic in layout.topics().items()
        for difference in _compare_topic(
            name, topic, layout.count_partitions(topic), found.get(name), bootstrap_servers
        )
    ]


def _compare_topic(
    name: str, topic: Topic, partitions: int, found: FoundTopic | None, bootstrap_servers: str
) -> Iterator[TopicDifference]:
    if found is None:
        yield TopicDifference(name, "topic", "present", "missing", "sluice topics create")
        return
    if found.partitions != partitions:
        yield TopicDifference(
            name,
            "partitions",
            str(partitions),
            str(found.partitions),
            _mend_single() if topic.single else _mend_partitions(found.partitions),
        )
    for key, value in topic.config().items():
        actual = found.config.get(key, "")
        if actual != value and not (key == RETENTION and _is_longer(actual, topic.retention_ms)):
            mend = _mend_config(name, key, value, bootstrap_servers)
            yield TopicDifference(
                name, key, value, actual, mend, _explain_retention(topic) if key == RETENTION else ""
            )


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
