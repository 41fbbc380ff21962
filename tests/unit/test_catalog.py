"""The catalog is the only list of topics, and a broker is held to it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice_topics import records
from sluice_topics.access import ROLES, list_access
from sluice_topics.asyncapi import list_public_topics
from sluice_topics.catalog import (
    ADMITTED,
    BY_NAME,
    CATALOG,
    MAX_INPUT_VALUE_BYTES,
    SERVED,
    SESSIONS_CHANGELOG,
    SUBJECT_KEYS,
    TREE_HEADS,
    Topic,
    get_wire_schema,
)
from sluice_topics.layout import FoundTopic, TopicDifference, TopicLayout, compare_topics, list_risks
from sluice_topics.records import DsseEnvelope, ProposedAction, Verdict

LAYOUT = TopicLayout(prefix="dev.", app_id="sluice-1", partitions=8)
BROKER = "127.0.0.1:9092"
DAY_MS = 24 * 3600 * 1000


def make_wanted() -> dict[str, FoundTopic]:
    return {
        name: FoundTopic(LAYOUT.count_partitions(topic), topic.config())
        for name, topic in LAYOUT.topics().items()
    }


def only_difference(found: dict[str, FoundTopic]) -> TopicDifference:
    (difference,) = compare_topics(LAYOUT, found, BROKER)
    return difference


def test_every_record_is_on_exactly_one_topic_but_envelopes_that_carry_every_kind_of_policy() -> None:
    placed = [
        record.__name__ for topic in CATALOG for record in topic.records if topic.direction != "control"
    ]
    assert sorted([*placed, "DsseEnvelope"]) == sorted(records.__all__)
    control = [topic for topic in CATALOG if topic.direction == "control"]
    assert [topic.records for topic in control] == [(DsseEnvelope,)] * len(control)


def test_no_topic_is_said_twice() -> None:
    assert len(BY_NAME) == len(CATALOG)


@pytest.mark.parametrize("topic", CATALOG, ids=lambda topic: topic.name)
def test_the_ledger_is_kept_for_ever_and_every_topic_that_is_not_compacted_has_the_brokers_time(
    topic: Topic,
) -> None:
    config = topic.config()
    assert not topic.ledger or config["retention.ms"] == "-1"
    assert ("message.timestamp.type" in config) == (topic.cleanup == "delete" or topic.direction == "keys")


def test_every_output_but_released_content_and_heads_is_of_the_ledger() -> None:
    outputs = {topic.name for topic in CATALOG if topic.direction == "out"}
    assert outputs - {topic.name for topic in CATALOG if topic.ledger} == {ADMITTED, SERVED, TREE_HEADS}


def test_the_broker_lets_a_full_input_through_with_room_for_key_and_headers() -> None:
    assert all(
        topic.max_message_bytes > MAX_INPUT_VALUE_BYTES for topic in CATALOG if topic.direction != "keys"
    )


def test_the_prefix_names_topics_and_the_app_names_its_changelog() -> None:
    assert "dev.gate.actions.proposed" in LAYOUT.topics()
    assert LAYOUT.topics()["sluice-1-sessions-changelog"] == BY_NAME[SESSIONS_CHANGELOG]


def test_only_ledger_records_say_their_schema() -> None:
    assert get_wire_schema(Verdict) == "sluice/verdict/v1"
    assert get_wire_schema(ProposedAction) is None


def test_a_broker_as_the_catalog_says_has_no_difference() -> None:
    assert compare_topics(LAYOUT, make_wanted() | {"of.others": FoundTopic(1, {})}, BROKER) == []


def test_a_missing_topic_is_named_with_the_command_that_makes_it() -> None:
    found = make_wanted()
    del found["dev.gate.verdicts"]
    assert only_difference(found) == TopicDifference(
        "dev.gate.verdicts", "topic", "present", "missing", "sluice topics create"
    )


def test_another_partition_count_is_named_and_no_command_would_mend_it() -> None:
    found = make_wanted()
    found["dev.gate.outcomes"] = replace(found["dev.gate.outcomes"], partitions=4)
    difference = only_difference(found)
    assert (difference.what, difference.expected, difference.actual) == ("partitions", "8", "4")
    assert "cannot be changed under existing sessions" in difference.mend


def test_a_control_topic_has_one_partition_and_is_never_compacted() -> None:
    """Its records need one order, and a later record under a key must not take the earlier one away."""
    found = make_wanted()
    assert BY_NAME["gate.bundles"].config()["cleanup.policy"] == "delete"
    found["dev.gate.bundles"] = replace(found["dev.gate.bundles"], partitions=8)
    difference = only_difference(found)
    assert (difference.what, difference.expected, difference.actual) == ("partitions", "1", "8")


@pytest.mark.parametrize(
    ("key", "actual"),
    [
        ("cleanup.policy", "compact"),
        ("retention.ms", "1000"),
        ("retention.bytes", "1000000"),
        ("max.message.bytes", "1048588"),
        ("message.timestamp.type", "CreateTime"),
    ],
)
def test_another_configuration_is_named_with_the_command_that_sets_it(key: str, actual: str) -> None:
    found = make_wanted()
    wanted = found["dev.gate.verdicts"].config
    found["dev.gate.verdicts"] = FoundTopic(8, {**wanted, key: actual})
    difference = only_difference(found)
    assert (difference.what, difference.expected, difference.actual) == (key, wanted[key], actual)
    assert f"--entity-name dev.gate.verdicts --add-config {key}={wanted[key]}" in difference.mend
    assert difference.why, "and with what it costs"


@pytest.mark.parametrize(
    ("replicas", "config", "risks"),
    [
        (3, {"min.insync.replicas": "2"}, []),
        (1, {"min.insync.replicas": "1"}, [("replicas", "3", "1")]),
        (3, {"min.insync.replicas": "1"}, [("min.insync.replicas", "2", "1")]),
        (3, {"min.insync.replicas": "3"}, [("min.insync.replicas", "2", "3")]),
        (
            3,
            {"min.insync.replicas": "2", "unclean.leader.election.enable": "true"},
            [("unclean.leader.election.enable", "false", "true")],
        ),
    ],
)
def test_what_the_loss_of_a_broker_would_cost_is_a_risk_and_no_difference(
    replicas: int, config: dict[str, str], risks: list[tuple[str, str, str]]
) -> None:
    found = make_wanted()
    name = "dev.gate.verdicts"
    found = {one: replace(topic, replicas=3) for one, topic in found.items()}
    found[name] = FoundTopic(8, {**found[name].config, **config}, replicas)
    assert compare_topics(LAYOUT, found, BROKER) == []
    listed = list_risks(LAYOUT, found, 3, BROKER)
    assert [(one.what, one.expected, one.actual) for one in listed] == risks
    assert all(one.topic == name and one.why and one.is_risk for one in listed)


def test_one_replica_is_no_risk_where_no_more_is_asked_for() -> None:
    found = {one: replace(topic, replicas=1) for one, topic in make_wanted().items()}
    assert list_risks(LAYOUT, found, 1, BROKER) == []


@pytest.mark.parametrize(("actual", "is_fine"), [("-1", True), (str(365 * DAY_MS), True), ("1000", False)])
def test_inputs_may_be_kept_for_longer_than_is_asked_for_and_never_for_less(
    actual: str, is_fine: bool
) -> None:
    """Mend 22.18: a longer retention on the broker loses nothing; every process refused it."""
    found = make_wanted()
    name = "dev.gate.actions.proposed"
    found[name] = FoundTopic(8, {**found[name].config, "retention.ms": actual})
    assert (compare_topics(LAYOUT, found, BROKER) == []) is is_fine


def test_how_long_inputs_are_kept_is_a_setting_and_of_nothing_else() -> None:
    """Mend 22.18: it was 30 days, whoever asked."""
    layout = TopicLayout("dev.", "sluice-1", 8, 90 * DAY_MS)
    kept = {one.name: one.retention_ms for one in layout.topics().values()}
    assert {kept[one.name] for one in CATALOG if one.direction == "in"} == {90 * DAY_MS}
    assert all(kept[one.name] == one.retention_ms for one in CATALOG if one.direction != "in")
    (shorter, *_) = compare_topics(layout, make_wanted(), BROKER)
    assert (shorter.what, shorter.expected) == ("retention.ms", str(90 * DAY_MS))


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("dev.gate.verdicts", "no check can tell what retention took"),
        ("dev.gate.registry", "workers do not start on less than was in force"),
        ("dev.gate.actions.proposed", "set kafka.input_retention_days"),
    ],
)
def test_a_shorter_retention_is_refused_with_what_it_would_lose(name: str, why: str) -> None:
    found = make_wanted()
    found[name] = replace(found[name], config={**found[name].config, "retention.ms": "1000"})
    assert why in only_difference(found).why


def test_keys_of_persons_are_compacted_within_a_bound_and_only_who_seals_opens_or_erases_has_them() -> None:
    """A tombstone destroys nothing before its topic is compacted."""
    topic = BY_NAME[SUBJECT_KEYS]
    config = topic.config()
    assert config["cleanup.policy"] == "compact"
    assert int(config["segment.ms"]) <= int(config["max.compaction.lag.ms"]) <= 600_000
    assert topic.single
    assert topic not in list_public_topics()
    name = topic.real_name(LAYOUT.prefix, LAYOUT.app_id)
    allowed = {
        operation: {
            role
            for role in ROLES
            for right in list_access(role, LAYOUT)
            if (right.name, right.operation) == (name, operation)
        }
        for operation in ("Read", "Write")
    }
    assert allowed["Read"] == {"worker", "gateway", "sealer", "opener", "eraser"}
    assert allowed["Write"] == {"gateway", "sealer", "eraser"}
