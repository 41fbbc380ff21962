"""Publishing refuses what loading would, before anything is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sluice.core.trust.change_log import list_entries_in_force
from sluice.core.trust.in_force import Rehearsal, make_input_records, make_record_key, rehearse
from sluice.core.trust.policy_contents import MOST_BYTES, collect_contents
from sluice_topics.catalog import BUNDLES, BY_NAME, REGISTRY, SESSIONS_CHANGELOG
from tests.unit.core.trust.scene import (
    ALICE,
    ROOT_KEY,
    ROOTS,
    STRANGER,
    agent,
    approver,
    bundle_document,
    bundle_value,
    entry_value,
    together,
    tool,
    trust_alice,
)

if TYPE_CHECKING:
    from tests.unit.core.trust.scene import Topics


def rehearse_values(topics: Topics, topic: str, *values: bytes) -> Rehearsal:
    new = make_input_records(topic, values, topics.records, topics.now_ms)
    return rehearse(topics.records, new, ROOTS, topics.compiled)


def test_what_loading_would_take_is_to_be_written_under_its_key() -> None:
    value = bundle_value(bundle_document(), ALICE)
    (write,) = rehearse_values(trust_alice(), BUNDLES, value).writes
    assert (write.topic, write.key, write.value) == (BUNDLES, b"small@1", value)


def test_one_refused_entry_keeps_all_from_being_written() -> None:
    found = rehearse_values(
        trust_alice(), REGISTRY, entry_value(agent(), ALICE), entry_value(tool(), STRANGER)
    )
    assert found.writes == ()
    assert [one.code for one in found.refused] == ["unknown_key"]


def test_half_a_change_is_not_written() -> None:
    half = entry_value(together("c1", agent(), tool())[0], ALICE)
    found = rehearse_values(trust_alice(), REGISTRY, half)
    assert found.writes == ()
    assert [one.code for one in found.refused] == ["incomplete_change"]


def test_the_missing_half_of_what_lies_there_is_written_alone() -> None:
    topics = trust_alice()
    first, second = together("c1", agent(), tool())
    topics.entry(first, ALICE)
    found = rehearse_values(topics, REGISTRY, entry_value(first, ALICE), entry_value(second, ALICE))
    assert [one.key for one in found.writes] == [b"tool/search@1"]
    assert [one.key for one in found.repeats] == [b"agent/reader@1"]


def test_what_is_there_already_is_not_written_again() -> None:
    topics = trust_alice()
    topics.bundle(bundle_document(), ALICE)
    found = rehearse_values(topics, BUNDLES, bundle_value(bundle_document(), ALICE))
    assert (found.writes, found.refused) == ((), ())
    assert len(found.repeats) == 1


def test_a_member_that_counts_alone_is_written_for_its_change_to_be_whole() -> None:
    topics = trust_alice()
    topics.entry(agent(), ALICE)
    found = rehearse_values(
        topics, REGISTRY, *(entry_value(one, ALICE) for one in together("c1", agent(), tool()))
    )
    assert [one.key for one in found.writes] == [b"agent/reader@1", b"tool/search@1"]


def test_older_refusals_in_the_topic_are_no_matter() -> None:
    topics = trust_alice()
    topics.entry(agent(), STRANGER)
    assert rehearse_values(topics, REGISTRY, entry_value(tool(), ALICE)).refused == ()


def test_an_older_revision_and_a_failing_case_are_refused_here_too() -> None:
    topics = trust_alice()
    topics.bundle(bundle_document(2), ALICE)
    older = rehearse_values(topics, BUNDLES, bundle_value(bundle_document(1), ALICE))
    failing = rehearse_values(trust_alice("a case"), BUNDLES, bundle_value(bundle_document(), ALICE))
    assert [one.code for one in (*older.refused, *failing.refused)] == ["older_revision", "cases_failed"]


def test_a_value_that_holds_nothing_has_no_key() -> None:
    assert make_record_key(REGISTRY, b"garbage") is None
    assert make_record_key(REGISTRY, bundle_value(bundle_document(), ALICE)) is None
    assert make_record_key(REGISTRY, entry_value(agent())) == b"agent/reader@1"


FROZEN = {
    "kind": "freeze",
    "id": "all",
    "revision": 1,
    "spec": {"subject": "all", "subject_id": "all", "reason": "incident 7"},
}


@pytest.mark.parametrize(
    ("entry", "codes"),
    [
        (tool("wipe"), ["too_large"]),
        (tool(revision=2, tier="T4"), []),
        (FROZEN, []),
    ],
    ids=["a new entry", "a newer revision", "a freeze"],
)
def test_more_than_a_partition_can_keep_of_the_policy_is_not_written(
    entry: dict[str, Any], codes: list[str]
) -> None:
    """Mend 22.8: no worker could write it down, and every transaction would fail for good."""
    topics = trust_alice()
    topics.entry(approver("alice", ALICE, 2, signs=["tool", "freeze"]), ROOT_KEY)
    topics.entry(tool(), ALICE)
    full = len(collect_contents(list_entries_in_force(topics.reduce(), REGISTRY)).encode())
    new = make_input_records(REGISTRY, [entry_value(entry, ALICE)], topics.records, topics.now_ms)
    found = rehearse(topics.records, new, ROOTS, topics.compiled, full)
    assert [one.code for one in found.refused] == codes
    assert len(found.writes) == 1 - len(codes)
    if codes:
        assert found.refused[0].message.startswith("3 entries would be in force, ")
        assert f"and {full} fit: only newer revisions" in found.refused[0].message
    assert len(rehearse(topics.records, new, ROOTS, topics.compiled).writes) == 1
    assert BY_NAME[SESSIONS_CHANGELOG].max_message_bytes * 3 // 4 >= MOST_BYTES
