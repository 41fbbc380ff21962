"""Mend 8: an idle partition does not end its worker, and an expired producer id gives no zombie a way back.

On a broker that forgets a producer id after seconds instead of 7 days.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, ProducerFenced

from load.attacks.idle_partition import forgetful, forgotten
from sluice.adapters.kafka.kafka_read import open_reader
from sluice.broker import locate
from sluice.broker.local import Layout
from sluice.stream.engine.reclaim import ChangelogCut, is_forgotten
from sluice.stream.engine.transaction import Batch, TransactionSettings, Transactor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from sluice.broker.handle import Broker

pytestmark = pytest.mark.kafka

AFTER_MS = 2500
"""More than passes between two steps of a test on a busy machine: else an owner's id expires too early."""
PATIENCE_S = 30.0


@pytest.fixture(scope="module")
def forgetful_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    work = tmp_path_factory.mktemp("forgetful")
    found = locate.start_broker(Layout(work, work / "data", locate.JARS), more=forgetful(AFTER_MS))
    try:
        yield found
    finally:
        found.close()


class Place:
    """One partition number, and the workers that have owned it."""

    def __init__(self, servers: str, name: str) -> None:
        self.servers, self.changelog, self.outputs = servers, f"{name}changelog", f"{name}outputs"
        self.group = name
        self._owners: list[Transactor] = []

    async def take_over(self) -> Transactor:
        settings = TransactionSettings(self.servers, self.group, self.changelog, 10_000, 10_000)
        owner = Transactor(settings, 0)
        self._owners.append(owner)
        await owner.start()
        return owner

    async def expire(self) -> None:
        await forgotten(self.servers, [f"{self.group}-0"], PATIENCE_S)

    async def outputs_written(self) -> list[str]:
        async with open_reader(self.servers, [self.outputs], "beginning") as reader:
            batches = [batch async for batch in reader.to_end()]
        return [(record.value or b"").decode() for record in itertools.chain.from_iterable(batches)]

    async def create(self, *names: str) -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.servers)
        await admin.start()
        await admin.create_topics([NewTopic(name, 1, 1) for name in names])
        await admin.close()

    async def close(self) -> None:
        for owner in self._owners:
            await owner.stop()


@pytest.fixture
async def place(forgetful_broker: Broker, prefix: str) -> AsyncIterator[Place]:
    found = Place(forgetful_broker.bootstrap_servers, prefix)
    await found.create(found.changelog, found.outputs)
    try:
        yield found
    finally:
        await found.close()


async def write(place: Place, owner: Transactor, value: str) -> None:
    await owner.write(Batch([(b"p:", value.encode())], [(place.outputs, None, b"k", value.encode(), [])]))


async def test_an_owner_whose_id_expired_goes_on(place: Place) -> None:
    owner = await place.take_over()
    for value in ("1", "2", "3"):
        await write(place, owner, value)
        await place.expire()
    await write(place, owner, "4")
    await write(place, owner, "5")
    assert await place.outputs_written() == ["1", "2", "3", "4", "5"]


async def test_a_zombie_whose_id_expired_is_fenced_by_a_living_owner_and_does_not_fence_it(
    place: Place,
) -> None:
    zombie = await place.take_over()
    await write(place, zombie, "1")
    await place.expire()
    owner = await place.take_over()
    await write(place, owner, "2")
    with pytest.raises(ProducerFenced):
        await write(place, zombie, "zombie")
    await write(place, owner, "3")
    assert await place.outputs_written() == ["1", "2", "3"]


async def test_a_zombie_is_fenced_though_the_new_owner_has_written_nothing_yet(place: Place) -> None:
    """The changelog does not know the new owner; the broker does."""
    zombie = await place.take_over()
    await write(place, zombie, "1")
    await place.expire()
    owner = await place.take_over()
    with pytest.raises(ProducerFenced):
        await write(place, zombie, "zombie")
    await write(place, owner, "2")
    assert await place.outputs_written() == ["1", "2"]


async def test_a_zombie_is_fenced_though_the_new_owner_s_id_has_expired_too(place: Place) -> None:
    """The broker does not know the new owner any more; the changelog does. The owner goes on."""
    zombie = await place.take_over()
    await write(place, zombie, "1")
    await place.expire()
    owner = await place.take_over()
    await write(place, owner, "2")
    await place.expire()
    with pytest.raises(ProducerFenced):
        await write(place, zombie, "zombie")
    await write(place, owner, "3")
    assert await place.outputs_written() == ["1", "2", "3"]


async def test_an_owner_that_never_wrote_has_no_proof_and_ends(place: Place) -> None:
    """What it has recovered may be old by now: a former owner may have gone on."""
    former = await place.take_over()
    await write(place, former, "1")
    idle = await place.take_over()
    await place.expire()
    with pytest.raises(KafkaError) as ended:
        await write(place, idle, "idle")
    assert is_forgotten(ended.value)
    assert await place.outputs_written() == ["1"]


async def test_who_went_on_under_a_new_id_is_fenced_by_the_next_owner(place: Place) -> None:
    first = await place.take_over()
    await write(place, first, "1")
    await place.expire()
    await write(place, first, "2")
    second = await place.take_over()
    with pytest.raises(ProducerFenced):
        await write(place, first, "zombie")
    await write(place, second, "3")
    assert await place.outputs_written() == ["1", "2", "3"]


async def test_a_changelog_made_anew_is_not_written_on(place: Place) -> None:
    owner = await place.take_over()
    for value in ("1", "2", "3"):
        await write(place, owner, value)
    await place.expire()
    admin = AIOKafkaAdminClient(bootstrap_servers=place.servers)
    await admin.start()
    await admin.delete_topics([place.changelog])
    while place.changelog in await admin.list_topics():
        pass
    await admin.close()
    await place.create(place.changelog)
    with pytest.raises(ChangelogCut):
        await write(place, owner, "4")
