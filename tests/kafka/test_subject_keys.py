"""The keys of persons on a real broker: one for each, whoever makes it, and none after its erasure."""

from __future__ import annotations

import asyncio
import json
import time
from base64 import b64encode
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaConnectionError

from sluice.adapters.kafka.kafka_key_erasure import KeyRemains, KeyTopic
from sluice.client.key_records import digest_person
from sluice.client.subject_keys import MOST_LYING, BoundedIds, SubjectKeys
from sluice.secrets.key_wrapping import FileKeyWrapper
from sluice.secrets.redis_seal import make_seal_key
from sluice_topics.catalog import BY_NAME, SUBJECT_KEYS
from sluice_topics.sealing import ERASED, Subject

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.kafka
MASTER = make_seal_key()
ALICE, BOB = Subject("subject", "alice"), Subject("subject", "bob")
SEGMENT_MS, COMPACTION_MS = 500, 1000
DESTROYED_WITHIN_S = 90.0


@pytest.fixture
async def topic(kafka: str, prefix: str) -> str:
    """As the catalog has it, with bounds for a test."""
    name = f"{prefix}{SUBJECT_KEYS}"
    config = BY_NAME[SUBJECT_KEYS].config() | {
        "segment.ms": str(SEGMENT_MS),
        "max.compaction.lag.ms": str(COMPACTION_MS),
    }
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(name, 1, 1, topic_configs=config)])
    finally:
        await admin.close()
    return name


def make_wrapper(*keys: bytes) -> FileKeyWrapper:
    return FileKeyWrapper(lambda: keys or (MASTER,))


@pytest.fixture
async def processes(kafka: str, topic: str) -> AsyncIterator[list[SubjectKeys]]:
    """Two that seal at once."""
    started = [SubjectKeys(kafka, topic, make_wrapper()) for _ in range(2)]
    for keys in started:
        await keys.start()
    yield started
    for keys in started:
        await keys.close()


async def test_processes_that_make_a_key_at_once_end_with_one(processes: list[SubjectKeys]) -> None:
    names = [Subject("subject", f"person-{number}") for number in range(10)]
    for name in names:
        chosen = await asyncio.gather(*(keys.choose("acme", name) for keys in processes for _ in range(4)))
        assert len({key.id for key in chosen}) == 1
    first, second = processes
    assert len({(await first.choose("acme", name)).id for name in names}) == len(names)
    assert (await first.choose("other", names[0])).id != (await second.choose("acme", names[0])).id


async def test_who_opens_finds_a_key_that_another_process_made_just_before(
    processes: list[SubjectKeys],
) -> None:
    sealing, opening = processes
    key = await sealing.choose("acme", ALICE)
    await opening.fetch([key.id, "0" * 32])
    opened = opening.find(key.id)
    assert opened is not None
    assert opened is not ERASED
    assert opened.tenant == "acme"
    assert opened.cipher.decrypt(key.cipher.encrypt(b"x", None), None) == b"x"
    assert opening.find("0" * 32) is None


async def test_no_plain_name_and_no_plain_key_lies_on_the_topic_and_another_master_key_opens_none(
    kafka: str, topic: str, processes: list[SubjectKeys]
) -> None:
    key = await processes[0].choose("acme", ALICE)
    raw = [value async for _, value in KeyTopic(kafka, topic).read()]
    assert len(raw) == 1
    assert b"alice" not in (raw[0] or b"")
    strange = SubjectKeys(kafka, topic, make_wrapper(make_seal_key()))
    await strange.start()
    try:
        await strange.fetch([key.id])
        assert strange.find(key.id) is None
    finally:
        await strange.close()


async def test_a_new_master_key_wraps_and_the_old_one_opens_and_names_until_it_goes(
    kafka: str, topic: str, processes: list[SubjectKeys]
) -> None:
    old = await processes[0].choose("acme", ALICE)
    rotated = SubjectKeys(kafka, topic, make_wrapper(make_seal_key(), MASTER))
    await rotated.start()
    try:
        assert (await rotated.choose("acme", ALICE)).id == old.id
        assert (await rotated.choose("acme", BOB)).id != old.id
    finally:
        await rotated.close()


async def test_tombstones_of_what_was_no_key_fill_no_memory_and_push_out_no_erased_key(
    kafka: str, topic: str, processes: list[SubjectKeys]
) -> None:
    sealing, opening = processes
    erased = await sealing.choose("acme", ALICE)
    await opening.fetch([erased.id])
    await KeyTopic(kafka, topic).erase([erased.id])
    async with AIOKafkaProducer(bootstrap_servers=kafka) as producer:
        for name in (b"x" * 1_000, b"no id", b"\xff"):
            await producer.send_and_wait(topic, None, name, partition=0)
    last = await sealing.choose("acme", BOB)
    await opening.fetch([last.id])
    assert opening.find(erased.id) is ERASED
    assert opening.find("x" * 1_000) is None, "it is no id of a key"


def test_of_too_many_ids_the_oldest_is_forgotten() -> None:
    ids = BoundedIds(2)
    for an_id in ("first", "second", "second", "third"):
        ids.add(an_id)
    assert [an_id in ids for an_id in ("first", "second", "third")] == [False, True, True]
    assert len(ids) == 2


async def test_nobody_seals_with_a_key_whose_erasure_is_signed_though_it_lies_there_again(
    kafka: str, topic: str, processes: list[SubjectKeys]
) -> None:
    """Whoever copied a record can write it again once its tombstone is compacted."""
    erased = await processes[0].choose("acme", ALICE)
    ordered = {("acme", erased.id)}
    chosen = [await keys.choose("acme", ALICE, ordered) for keys in processes]
    assert chosen[0].id == chosen[1].id != erased.id
    begun = SubjectKeys(kafka, topic, make_wrapper())
    await begun.start()
    try:
        assert (await begun.choose("acme", ALICE, ordered)).id == chosen[0].id
        assert (await begun.choose("acme", ALICE, {("other", erased.id)})).id == erased.id
    finally:
        await begun.close()


async def test_a_record_that_nobody_with_the_master_key_wrote_is_no_key(
    kafka: str, topic: str, processes: list[SubjectKeys]
) -> None:
    """Whoever may write to the topic cannot choose the key with which others seal."""
    key = await processes[0].choose("acme", ALICE)
    async with AIOKafkaProducer(bootstrap_servers=kafka) as producer:
        (stored,) = [value async for _, value in KeyTopic(kafka, topic).read()]
        assert stored is not None
        forged = stored.replace(key.id.encode(), b"f" * 32)
        await producer.send_and_wait(topic, forged, b"f" * 32)
        await producer.send_and_wait(topic, b"{}", b"x")
        for name in ("subject", "wrapped"):
            for text in ("", "A", "AAAAA"):
                odd = json.dumps(json.loads(stored) | {name: text, "key_id": "c" * 32}).encode()
                await producer.send_and_wait(topic, odd, b"c" * 32)
        await producer.send_and_wait(topic, b"\xff", b"\xff")
        await producer.send_and_wait(topic, forged, b"e" * 32)
        moved = forged.replace(b"acme", b"evil")
        await producer.send_and_wait(topic, moved.replace(b"f" * 32, b"d" * 32), b"d" * 32)
    await processes[1].fetch(["f" * 32, "d" * 32, "c" * 32])
    assert processes[1].find("c" * 32) is None
    assert (processes[1].find("f" * 32), processes[1].find("d" * 32)) == (None, None)
    assert (await processes[1].choose("acme", ALICE)).id == key.id
    assert await KeyTopic(kafka, topic).find([b"nobody"]) == {}


async def test_an_erased_key_is_gone_from_the_broker_when_it_is_said_to_be(
    kafka: str, topic: str, processes: list[SubjectKeys]
) -> None:
    sealing, opening = processes
    key, other = await sealing.choose("acme", ALICE), await sealing.choose("acme", BOB)
    await opening.fetch([key.id])
    erasing = KeyTopic(kafka, topic)
    names = await make_wrapper().index(digest_person("acme", ALICE))
    assert await erasing.find(names) == {key.id: names[0]}

    at_s = await erasing.erase([key.id])
    remains = await erasing.await_destruction([key.id], at_s, wait_s=0)
    assert remains.stored == {key.id}, "a tombstone alone destroys nothing, and nobody says so"
    assert not remains.is_destroyed

    looks = list[KeyRemains]()
    remains = await erasing.await_destruction([key.id], at_s, DESTROYED_WITHIN_S, looks.append)
    assert remains.is_destroyed, f"after {time.time() - at_s:.0f} s"
    assert not looks[0].is_destroyed
    raw = {key_id: value async for key_id, value in erasing.read()}
    assert raw.get(key.id) is None
    assert raw[other.id] is not None
    assert await erasing.find(names) == {}

    await opening.fetch(["0" * 32])  # reads to the end
    assert opening.find(key.id) is ERASED
    await sealing.fetch(["0" * 32])
    again = await sealing.choose("acme", ALICE)
    assert again.id != key.id, "what is sealed from now on is another erasure's"
    assert (await sealing.choose("acme", BOB)).id == other.id


async def test_a_key_that_is_written_again_after_its_erasure_stays_erased(
    kafka: str, topic: str, processes: list[SubjectKeys]
) -> None:
    key = await processes[0].choose("acme", ALICE)
    erasing = KeyTopic(kafka, topic)
    (stored,) = [value async for _, value in erasing.read()]
    await erasing.erase([key.id])
    async with AIOKafkaProducer(bootstrap_servers=kafka) as producer:
        await producer.send_and_wait(topic, stored, key.id.encode())
    for keys in processes:
        await keys.fetch(["0" * 32])
        assert keys.find(key.id) is ERASED
    assert await erasing.list_stored([key.id]) == {key.id}, "and the read-back sees it"


async def test_of_what_somebody_writes_of_a_key_few_records_and_names_are_held(
    kafka: str, topic: str, processes: list[SubjectKeys]
) -> None:
    sealing, opening = processes
    key = await sealing.choose("acme", ALICE)
    (stored,) = [value async for _, value in KeyTopic(kafka, topic).read()]
    assert stored is not None
    async with AIOKafkaProducer(bootstrap_servers=kafka) as producer:
        for number in range(5 * MOST_LYING):
            name = b64encode(number.to_bytes(32, "big")).decode()
            false = json.dumps(json.loads(stored) | {"subject": name}).encode()
            await producer.send_and_wait(topic, false, key.id.encode(), partition=0)
    await opening.fetch(["0" * 32])  # reads to the end
    assert len(vars(opening)["_subjects"]) <= MOST_LYING
    assert (await opening.choose("acme", ALICE)).id == key.id


class OnceConnected(SubjectKeys):
    """Who gets one connection, and no second one."""

    first: AIOKafkaConsumer | None = None

    async def _connect(self) -> AIOKafkaConsumer:
        if self.first is not None:
            raise KafkaConnectionError("no second one")
        self.first = await super()._connect()
        return self.first


async def test_where_keys_cannot_be_followed_no_connection_is_left(kafka: str, topic: str) -> None:
    keys = OnceConnected(kafka, topic, make_wrapper())
    with pytest.raises(KafkaConnectionError):
        await keys.start()
    assert vars(keys.first)["_closed"] is True


async def test_a_record_that_cannot_be_taken_hides_no_tombstone_behind_it(
    kafka: str, topic: str, processes: list[SubjectKeys], monkeypatch: pytest.MonkeyPatch
) -> None:
    sealing, opening = processes
    key = await sealing.choose("acme", ALICE)
    await opening.fetch([key.id])

    def fail(*_: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr("sluice.client.subject_keys.read_wrapped_key", fail)
    async with AIOKafkaProducer(bootstrap_servers=kafka) as producer:
        await producer.send_and_wait(topic, b"{}", b"f" * 32, partition=0)
        await producer.send_and_wait(topic, None, key.id.encode(), partition=0)
    for _ in range(600):
        if opening.find(key.id) is ERASED:
            break
        await asyncio.sleep(0.05)
    assert opening.find(key.id) is ERASED, "by who follows: nothing was asked for"
