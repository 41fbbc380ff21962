"""A recount of the ledger: seed 003's statistics, from the records alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.reports.ledger_values import NotInLedgerError, read_decision, read_event
from sluice.core.reports.memory_recount import (
    Behind,
    LiveCounts,
    StatisticsDifference,
    StatisticsRecount,
    compare_statistics,
    find_behind,
    sum_by_group,
)
from sluice.core.reports.pending_subject import collect_subjects, sort_waiting
from sluice.core.state.statistics import NOTHING, Statistics, Whose
from tests.unit.records import ledger_records

if TYPE_CHECKING:
    from sluice.core.reports.ledger_values import Event
    from sluice_topics.records import MemoryDecision

AGENT = Whose("tenant-1", "agent-1")
KINDS = ledger_records()
ENDINGS = ("QuarantineApproved", "QuarantineRejected", "QuarantineExpired", "QuarantineEvicted")


def event(kind: str, name: str = "memory:a", **changed: Any) -> Event:
    return read_event(orjson.dumps({**KINDS[kind], "memory_id": name, **changed}))


def decision(**changed: Any) -> MemoryDecision:
    return read_decision(orjson.dumps({**KINDS["MemoryDecision"], **changed}))


def recount(*records: Any, until: int = 10**6) -> dict[Whose, Statistics]:
    anew = StatisticsRecount(dict.fromkeys(range(8), until))
    for one in records:
        if hasattr(one, "action"):
            anew.count_decision(one)
        else:
            anew.count_event(one)
    return sum_by_group(anew.counts, lambda whose: whose)


def test_each_action_counts_by_its_name() -> None:
    three = [decision(action=action) for action in ("allow", "quarantine", "reject")]
    assert recount(*three) == {AGENT: Statistics(3, 1, 1, 1, 0)}


def test_a_repeated_write_counts_nowhere() -> None:
    assert recount(decision(duplicate_of="memory:first")) == {}


def test_what_shadow_let_through_counts_as_allowed() -> None:
    shadowed = decision(action="allow", shadowAction="reject")
    assert recount(shadowed) == {AGENT: Statistics(1, 1, 0, 0, 0)}


def test_agents_that_nobody_registered_count_together() -> None:
    strangers = [decision(tenant_id=None, agent_id=name) for name in ("a", "b", None)]
    assert recount(*strangers) == {Whose("unregistered", ""): Statistics(3, 0, 3, 0, 0)}


def test_the_quarantine_s_size_is_what_entered_less_what_left() -> None:
    entered = [event("QuarantineEntered", f"memory:{name}") for name in "abcde"]
    ended = [event(kind, f"memory:{name}") for kind, name in zip(ENDINGS, "abcd", strict=True)]
    assert recount(*entered, *ended)[AGENT].size == 1


def test_a_recount_ends_at_the_sequence_that_it_is_given() -> None:
    early, late = decision(sequence=4, action="allow"), decision(sequence=5, action="allow")
    assert recount(early, late, event("QuarantineEntered", sequence=5), until=4) == {
        AGENT: Statistics(1, 1, 0, 0, 0)
    }


def test_a_difference_names_partition_agent_and_both_numbers() -> None:
    more, less = Statistics(2, 2), Statistics(1, 1)
    assert compare_statistics({(3, AGENT): more}, {(3, AGENT): more}) == []
    assert compare_statistics({(3, AGENT): more}, {(3, AGENT): less}) == [
        StatisticsDifference(3, AGENT, more, less)
    ]
    assert compare_statistics({}, {(3, AGENT): less}) == [StatisticsDifference(3, AGENT, NOTHING, less)]


def test_what_one_partition_has_too_many_another_cannot_hide() -> None:
    live = {(0, AGENT): Statistics(2, 2), (1, AGENT): NOTHING}
    anew = {(0, AGENT): Statistics(1, 1), (1, AGENT): Statistics(1, 1)}
    assert [one.partition for one in compare_statistics(live, anew)] == [0, 1]


def entry(statistics: Statistics) -> tuple[bytes, bytes]:
    return AGENT.key, orjson.dumps(list(statistics))


def test_of_the_workers_counts_only_what_their_partition_closed_is_seen() -> None:
    live = LiveCounts()
    live.take(0, *entry(Statistics(1, 1)))
    live.commit(0, 7)
    live.take(0, *entry(Statistics(2, 2)))
    live.take(1, *entry(Statistics(9, 9)))
    live.take(0, b"s:session", b"{}")
    assert (live.counts, live.sequences) == ({(0, AGENT): Statistics(1, 1)}, {0: 7})


def test_sums_are_over_partitions_and_by_whatever_is_asked() -> None:
    other = Whose("tenant-1", "agent-2")
    counts = {(0, AGENT): Statistics(1, 1), (1, AGENT): Statistics(2, 2), (1, other): Statistics(4, 4)}
    assert sum_by_group(counts, lambda whose: whose.tenant) == {"tenant-1": Statistics(7, 7)}
    assert sum_by_group(counts, lambda whose: whose.agent)["agent-1"] == Statistics(3, 3)


@pytest.mark.parametrize("value", [None, b"", b"{}", b"null", b"\xff", b'{"schema":"sluice/verdict/v1"}'])
def test_what_is_no_record_of_the_topic_is_never_counted(value: bytes | None) -> None:
    with pytest.raises(NotInLedgerError):
        read_event(value)
    with pytest.raises(NotInLedgerError):
        read_decision(value)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, len(ENDINGS) - 1)), max_size=20))
def test_what_waits_is_always_as_many_as_the_size_counts(steps: list[tuple[str, int]]) -> None:
    waits: set[str] = set()
    records, anew = list[dict[str, Any]](), StatisticsRecount({3: 10**6})
    for name, ending in steps:
        kind = ENDINGS[ending] if name in waits else "QuarantineEntered"
        one = event(kind, f"memory:{name}", partition=3)
        waits ^= {name}
        records.append(one.model_dump(mode="json", by_alias=True))
        anew.count_event(one)
    waiting = sort_waiting(collect_subjects(records).values())
    assert {subject.subject_id[-1] for subject in waiting} == waits
    assert sum_by_group(anew.counts, lambda _: None).get(None, NOTHING).size == len(waits)


def test_a_recount_notes_how_far_the_ledger_goes_beyond_its_end() -> None:
    anew = StatisticsRecount({3: 4})
    anew.count_decision(decision(sequence=4))
    anew.count_decision(decision(sequence=9))
    anew.count_event(event("QuarantineEntered", sequence=6))
    assert anew.beyond == {3: 9}


def test_a_state_that_ends_before_the_ledger_has_lost_something() -> None:
    assert find_behind({3: 9}, {3: 9}) == []
    assert find_behind({3: 12}, {3: 9}) == []
    assert find_behind({}, {3: 9}) == [Behind(3, 0, 9)]
