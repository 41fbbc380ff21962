"""The quarantine in a partition: one batch with its sessions, timers that wait for reviews, a takeover."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from sluice.core.decide.kinds import BY_TOPIC
from sluice.core.foundation.input_record import InputRecord
from sluice.core.state.history import SourceName
from sluice.stream.engine.evaluation import Ports, WorkerContext
from sluice.stream.engine.outbox import home_of
from sluice.stream.engine.partition import Partition
from sluice_topics.catalog import MEMORY_WRITES, REVIEWS, SESSION_EVENTS, SOURCE_FEEDBACK, SOURCE_HISTORIES
from tests.unit.core.memory.write_scene import HOUR, REVIEWERS, STRANGER, memory_bundle, review, write
from tests.unit.core.scene import START, point
from tests.unit.core.state.test_history import feedback
from tests.unit.stream.engine_settings import engine_settings, fail

if TYPE_CHECKING:
    from sluice.ports import Port

PARTITIONS = 8
NUMBER = home_of(b"s-1", PARTITIONS)


class Inputs:
    """The port that finds a held input again, once `there` is set."""

    def __init__(self, value: bytes) -> None:
        self._value = value
        self.asked = asyncio.Event()
        self.there = asyncio.Event()

    async def ask(self, payload: object) -> object:
        del payload
        self.asked.set()
        await self.there.wait()
        return self._value


def partition(
    table: dict[bytes, bytes],
    ends: dict[str, int] | None = None,
    port: Port | None = None,
    number: int = NUMBER,
) -> Partition:
    ports: dict[str, Port] = {} if port is None else {"held_input": port}
    settings = engine_settings(*BY_TOPIC, partitions=PARTITIONS, halt_on_offset_gap=True)
    context = WorkerContext(point(*REVIEWERS, policy=memory_bundle()), Ports(ports), settings, {})
    return Partition(number, context, table, ends or {}, fail)


def decide(owner: Partition, topic: str, *records: dict[str, Any], at_ms: int = START) -> None:
    """Deliver records that continue the topic."""
    for record in records:
        offset = owner.intakes[topic].next
        raw = json.dumps(record).encode()
        input_record = InputRecord(topic, NUMBER, offset, at_ms, record["session_id"].encode(), raw)
        assert owner.intakes[topic].admit(offset)
        owner.start([input_record])


def expire(owner: Partition, as_of_ms: int, *, end: int = 0, read: int | None = None) -> None:
    """Let time act; the broker says that the reviews end at `end`."""
    owner.expire_held(as_of_ms, end, read)


def take(owner: Partition) -> list[tuple[str, dict[str, Any]]]:
    """Topic and record of each output of the staged batch."""
    _, outputs = owner.take(open_=True)
    return [(one.topic, json.loads(one.value)) for one in outputs]


def schemas(owner: Partition) -> list[str]:
    return [record["schema"].split("/")[1] for topic, record in take(owner) if topic != SOURCE_FEEDBACK]


def make_held(table: dict[bytes, bytes]) -> dict[str, Any]:
    """A memory that waits in the partition of this table; its QuarantineEntered."""
    owner = partition(table)
    decide(owner, MEMORY_WRITES, write(derived_from=[STRANGER]))
    return next(one for _, one in take(owner) if one["schema"] == "sluice/quarantine_entered/v1")


def test_a_memory_its_count_and_its_session_commit_together_with_the_position() -> None:
    owner = partition({})
    decide(owner, MEMORY_WRITES, write(derived_from=[STRANGER]))
    entries, outputs = owner.take(open_=True)
    keys = [key for key, _ in entries]
    memory = b"q:memory:gate.memory.writes.proposed:%d:0" % NUMBER
    assert sorted(keys) == [b'n:["acme","operator"]', b"p:", memory, b"s:s-1"]
    assert keys[-1] == b"p:"
    assert len(outputs) == 3


def test_what_left_is_deleted_from_table_and_changelog() -> None:
    table: dict[bytes, bytes] = {}
    entered = make_held(table)
    owner = partition(table)
    decide(owner, REVIEWS, review(entered, "reject"))
    entries, _ = owner.take(open_=True)
    assert (b"q:" + entered["memory_id"].encode(), None) in entries
    assert not [key for key in table if key.startswith(b"q:")]


def test_the_next_owner_expires_what_the_last_one_held_at_the_same_time() -> None:
    table: dict[bytes, bytes] = {}
    entered = make_held(table)
    owner = partition(table)
    expire(owner, START + HOUR - 1)
    assert take(owner) == []
    expire(owner, START + HOUR)
    ((_, expired),) = take(owner)
    assert (expired["schema"], expired["expires_at"]) == (
        "sluice/quarantine_expired/v1",
        entered["expires_at"],
    )
    expire(owner, START + 2 * HOUR)
    assert take(owner) == []


def test_timers_wait_for_a_review_that_lies_on_the_broker_and_is_not_read() -> None:
    table: dict[bytes, bytes] = {}
    entered = make_held(table)
    owner = partition(table)
    for read in (None, 0):
        expire(owner, START + HOUR, end=1, read=read)
    assert take(owner) == []
    decide(owner, REVIEWS, review(entered, "reject"), at_ms=START + HOUR - 1)
    expire(owner, START + HOUR, end=1)
    assert schemas(owner) == ["quarantine_rejected"]


def test_timers_do_not_wait_for_reviews_that_were_rolled_back_or_deleted() -> None:
    table: dict[bytes, bytes] = {}
    make_held(table)
    owner = partition(table)
    expire(owner, START + 2 * HOUR, end=1, read=0)
    assert take(owner) == []
    expire(owner, START + 2 * HOUR, end=1, read=1)
    assert schemas(owner) == ["quarantine_expired"]


async def test_timers_wait_for_a_review_that_is_being_decided_however_far_the_topic_is_read() -> None:
    table: dict[bytes, bytes] = {}
    entered = make_held(table)
    port = Inputs(json.dumps(write(derived_from=[STRANGER])).encode())
    owner = partition(table, port=port)
    decide(owner, REVIEWS, review(entered, "approve"), at_ms=START + HOUR - 1)
    await port.asked.wait()
    expire(owner, START + HOUR, end=1, read=1)
    assert take(owner) == []
    port.there.set()
    await owner.quiet()
    expire(owner, START + HOUR, end=1, read=1)
    assert schemas(owner) == ["quarantine_approved", "admitted_memory"]


def test_after_a_crash_nobody_waits_for_the_markers_behind_what_workers_wrote() -> None:
    table: dict[bytes, bytes] = {}
    make_held(table)
    feedback_only = partition(dict(table), {SOURCE_FEEDBACK: 3})
    assert feedback_only.guard.calm(feedback_only.positions())
    writes_too = partition(dict(table), {SOURCE_FEEDBACK: 3, MEMORY_WRITES: 2})
    assert not writes_too.guard.calm(writes_too.positions())


async def test_an_approval_releases_what_its_port_finds() -> None:
    table: dict[bytes, bytes] = {}
    entered = make_held(table)
    port = Inputs(json.dumps(write(derived_from=[STRANGER])).encode())
    owner = partition(table, port=port)
    decide(owner, REVIEWS, review(entered, "approve"))
    assert take(owner) == []
    port.there.set()
    await owner.quiet()
    assert schemas(owner) == ["quarantine_approved", "admitted_memory"]


async def test_a_memory_that_expires_while_its_content_is_fetched_is_not_released() -> None:
    table: dict[bytes, bytes] = {}
    entered = make_held(table)
    port = Inputs(json.dumps(write(derived_from=[STRANGER])).encode())
    owner = partition(table, port=port)
    decide(owner, REVIEWS, review(entered, "approve"))
    await port.asked.wait()
    expire(owner, START + HOUR)
    port.there.set()
    await owner.quiet()
    found = take(owner)
    assert [topic for topic, _ in found][-1] == SESSION_EVENTS
    assert [record["schema"].split("/")[1] for _, record in found] == ["quarantine_expired", "input_refused"]


async def test_an_approval_that_is_given_up_at_a_revocation_changes_nothing() -> None:
    table: dict[bytes, bytes] = {}
    entered = make_held(table)
    port = Inputs(b"")
    owner = partition(table, port=port)
    decide(owner, REVIEWS, review(entered, "approve"))
    await port.asked.wait()
    await owner.lanes.cancel()
    assert take(owner) == []
    following = partition(table)
    assert following.intakes[REVIEWS].pending == {0: None}
    assert following.book.find_quarantined(entered["memory_id"]) is not None


def test_the_owner_of_a_source_folds_what_it_is_told_and_keeps_it() -> None:
    table: dict[bytes, bytes] = {}
    home = home_of(feedback("seen").key or b"", PARTITIONS)
    revisions = []
    for offset, verdict in enumerate(("seen", "positive")):
        owner, told = partition(table, number=home), feedback(verdict)
        assert owner.intakes[SOURCE_FEEDBACK].admit(offset)
        owner.start([InputRecord(SOURCE_FEEDBACK, home, offset, START, told.key, told.value)])
        _, outputs = owner.take(open_=True)
        revisions += [(one.topic, one.partition, json.loads(one.value)["revision"]) for one in outputs]
    assert revisions == [(SOURCE_HISTORIES, home, 1), (SOURCE_HISTORIES, home, 2)]
    assert partition(table, number=home).book.history(SourceName("acme", "mail")).positive == 1
