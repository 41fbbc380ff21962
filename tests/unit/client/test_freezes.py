"""A client asks right before it starts a tool whether a freeze came since the verdict."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from sluice.bootstrap.followed_freezes import FollowedFreezes
from sluice.client.answers import ActionStopped, ClientError
from sluice.client.freezes import StartingCall, read_call, stop_when_frozen
from sluice.core.trust.freezing import (
    FreezeSubject,
    make_asking_entries,
    make_freeze_entry,
    make_thaw_entries,
)
from sluice.gateway.registry_view import RegistryView
from tests.unit.core.trust.scene import ALICE, BOB, ROOT_KEY, ROOTS, Topics, agent, approver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sluice.core.foundation.input_record import InputRecord

CALL = StartingCall("reader", "s-1", {})
SUBJECTS = [
    FreezeSubject("all", "all"),
    FreezeSubject("tenant", "acme"),
    FreezeSubject("agent", "reader"),
    FreezeSubject("session", "s-1"),
]
SOON_S = 0.005


class TopicsReader:
    """The registry's topic as it fills up."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._position = 0

    async def to_end(self) -> list[InputRecord]:
        new = self._topics.records[self._position :]
        self._position += len(new)
        return new

    async def close(self) -> None:
        pass


@pytest.fixture
def topics() -> Topics:
    filled = Topics()
    for name, of in (("alice", ALICE), ("bob", BOB)):
        filled.entry(approver(name, of, signs=["agent", "freeze"]), ROOT_KEY)
    filled.entry(agent(), ALICE)
    return filled


@pytest.fixture
async def freezes(topics: Topics) -> AsyncIterator[FollowedFreezes]:
    followed = FollowedFreezes(RegistryView(TopicsReader(topics), ROOTS, SOON_S, 60.0))
    await followed.start()
    yield followed
    await followed.close()


def freeze(topics: Topics, subject: FreezeSubject) -> None:
    topics.entry(make_freeze_entry(topics.reduce(), subject, "incident 7").model_dump(), ALICE)


@pytest.mark.parametrize("subject", SUBJECTS, ids=str)
async def test_what_is_frozen_does_not_start_and_what_is_thawed_does(
    topics: Topics, freezes: FollowedFreezes, subject: FreezeSubject
) -> None:
    assert freezes.find_stop(CALL) is None
    freeze(topics, subject)
    await freezes.view.look()
    assert freezes.find_stop(CALL) == f"frozen_{subject.kind}: incident 7"
    topics.entry(make_thaw_entries(topics.reduce(), subject, "over")[0].model_dump(), ALICE, BOB)
    await freezes.view.look()
    assert freezes.find_stop(CALL) is None


async def test_what_nobody_signed_freezes_and_thaws_nothing(topics: Topics, freezes: FollowedFreezes) -> None:
    topics.entry(make_freeze_entry(topics.reduce(), SUBJECTS[2], "forged").model_dump())
    await freezes.view.look()
    assert freezes.find_stop(CALL) is None
    freeze(topics, SUBJECTS[1])
    topics.entry(make_thaw_entries(topics.reduce(), SUBJECTS[1], "by a thief")[0].model_dump(), ALICE)
    await freezes.view.look()
    assert freezes.find_stop(CALL) == "frozen_tenant: incident 7"


async def test_a_stage_that_asks_stops_what_no_person_was_asked_about(
    topics: Topics, freezes: FollowedFreezes
) -> None:
    topics.entry(make_asking_entries(topics.reduce(), SUBJECTS[2], "recovering")[0].model_dump(), ALICE)
    await freezes.view.look()
    assert freezes.find_stop(CALL) == "recovering_agent: recovering"
    (asks,) = freezes.view.registry.find_freezes("acme", "reader", "s-1")
    assert freezes.find_stop(CALL._replace(judged={asks.key: asks.hash})) is None


async def test_nothing_starts_where_nobody_has_read_the_registry_lately(topics: Topics) -> None:
    late = FollowedFreezes(RegistryView(TopicsReader(topics), ROOTS, 60.0, SOON_S))
    await late.start()
    await asyncio.sleep(2 * SOON_S)
    with pytest.raises(ClientError, match="may be missed"):
        late.find_stop(CALL)
    await late.close()


async def test_a_tool_that_runs_is_cancelled_by_a_freeze(topics: Topics, freezes: FollowedFreezes) -> None:
    steps: list[str] = []

    async def work() -> None:
        async with stop_when_frozen(freezes, make_permit()):
            freeze(topics, SUBJECTS[3])
            try:
                await asyncio.sleep(60)
            finally:
                steps.append("cleaned up")

    with pytest.raises(ActionStopped, match="frozen_session: incident 7"):
        await work()
    assert steps == ["cleaned up"]


async def test_a_tool_that_ends_before_a_freeze_ends_as_ever(
    topics: Topics, freezes: FollowedFreezes
) -> None:
    async with stop_when_frozen(freezes, make_permit()):
        await asyncio.sleep(0)
    freeze(topics, SUBJECTS[3])
    await freezes.view.look()
    await asyncio.sleep(2 * SOON_S)


async def test_a_timeout_of_the_tool_s_own_stays_one(freezes: FollowedFreezes) -> None:
    with pytest.raises(TimeoutError):
        async with stop_when_frozen(freezes, make_permit()):
            raise TimeoutError


async def test_a_freeze_between_the_question_and_the_start_is_found(
    topics: Topics, freezes: FollowedFreezes
) -> None:
    freeze(topics, SUBJECTS[2])
    await freezes.view.look()
    with pytest.raises(ActionStopped):
        async with stop_when_frozen(freezes, make_permit()):
            await asyncio.sleep(60)


def make_permit() -> Any:
    record = {"agent_id": "reader", "session_id": "s-1", "registry_hashes": {}}
    verdict: Any = SimpleNamespace(record=record)
    assert read_call(verdict) == CALL
    return SimpleNamespace(verdict=verdict, action_id="a-1")
