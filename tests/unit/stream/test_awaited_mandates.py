"""An action that comes before its mandate waits for it, for a time, and holds up no other session."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from sluice.core.actions.stages import load_bundle
from sluice.core.foundation.input_record import InputRecord
from sluice.core.foundation.requests import MANDATE_WAIT
from sluice_topics.catalog import ACTIONS, MANDATES, SESSION_EVENTS, VERDICTS
from tests.unit.core.actions.mandate_scene import ISSUERS, digest_of, make_bundle, make_mandate
from tests.unit.core.scene import START, action, point
from tests.unit.stream.test_stage_by_stage import enter, open_partition, taken

if TYPE_CHECKING:
    from sluice.stream.engine.partition import Partition

NEEDED = {"T1": {"need": "needed", "outside": "deny"}}
MANDATE = make_mandate()
OTHER = make_mandate(mandate_id="m-2")


def open_gated(**more: Any) -> Partition:
    return open_partition(point(*ISSUERS, policy=load_bundle(make_bundle(tiers=NEEDED))), **more)


def arrive(topic: str, offset: int, record: dict[str, Any]) -> InputRecord:
    key = str(record["session_id"]).encode()
    return InputRecord(topic, 0, offset, START, key, json.dumps(record).encode())


def propose(offset: int, **fields: Any) -> InputRecord:
    named = {"action_id": f"a-{offset}", "mandate_digest": digest_of(MANDATE), **fields}
    return arrive(ACTIONS, offset, action(**named))


def read_verdicts(owner: Partition) -> list[tuple[str, str]]:
    return [(one["action_id"], one["verdict"]) for one in taken(owner, VERDICTS)]


async def test_it_is_decided_as_soon_as_the_mandate_comes_and_others_behind_it_in_their_order() -> None:
    owner = open_gated()
    enter(owner, [propose(1), propose(2)])
    enter(owner, [propose(3, session_id="s-2", mandate_digest=None, toolName="change")])
    assert read_verdicts(owner) == [("a-3", "allowed")], "another session goes on"
    enter(owner, [arrive(MANDATES, 1, OTHER)])
    await asyncio.sleep(0)
    assert [one["mandate_id"] for one in taken(owner, VERDICTS, SESSION_EVENTS)] == ["m-2"]
    began = asyncio.get_running_loop().time()
    enter(owner, [arrive(MANDATES, 2, MANDATE)])
    await owner.quiet()
    assert asyncio.get_running_loop().time() - began < MANDATE_WAIT.budget_ms / 1000 / 2
    left = taken(owner, VERDICTS, SESSION_EVENTS)
    assert [one.get("mandate_id") or (one["action_id"], one["verdict"]) for one in left] == [
        "m-1",
        ("a-1", "allowed"),
        ("a-2", "allowed"),
    ]


async def test_mandates_that_lie_behind_it_in_the_lane_go_first() -> None:
    """The second action begins to wait when its mandate has long been there, behind it."""
    owner = open_gated()
    enter(owner, [propose(1, mandate_digest=digest_of(OTHER)), propose(2)])
    enter(owner, [arrive(MANDATES, 1, MANDATE)])
    await owner.quiet()
    assert read_verdicts(owner) == [("a-1", "denied"), ("a-2", "allowed")]


async def test_in_one_chunk_too_whichever_comes_first() -> None:
    for behind in (True, False):
        owner, chunk = open_gated(), [propose(1), arrive(MANDATES, 1, MANDATE)]
        enter(owner, chunk if behind else chunk[::-1])
        await owner.quiet()
        assert read_verdicts(owner) == [("a-1", "allowed")]


async def test_one_that_comes_while_the_policy_is_awaited_goes_first() -> None:
    """Its time is over, and the decision waits for a policy that is current."""
    asked, current = asyncio.Event(), asyncio.Event()

    async def wait_for_policy() -> float:
        asked.set()
        await current.wait()
        return 0.0

    owner = open_gated(wait_for_policy=wait_for_policy)
    enter(owner, [propose(1)])
    await asked.wait()
    enter(owner, [arrive(MANDATES, 1, MANDATE)])
    current.set()
    await owner.quiet()
    assert read_verdicts(owner) == [("a-1", "allowed")]


async def test_one_that_never_comes_counts_as_absent_when_the_time_is_over() -> None:
    owner = open_gated()
    began = asyncio.get_running_loop().time()
    enter(owner, [propose(1)])
    await asyncio.sleep(MANDATE_WAIT.budget_ms / 1000 * 0.6)
    assert read_verdicts(owner) == []
    await owner.quiet()
    waited = asyncio.get_running_loop().time() - began
    assert MANDATE_WAIT.budget_ms / 1000 <= waited < 5 * MANDATE_WAIT.budget_ms / 1000
    (verdict,) = taken(owner, VERDICTS)
    assert verdict["blockReason"].startswith("outside_mandate: the session has no mandate")


async def test_many_that_name_nothing_that_is_there_wait_together_and_not_one_after_the_other() -> None:
    owner = open_gated()
    began = asyncio.get_running_loop().time()
    enter(owner, [propose(place) for place in range(1, 7)])
    await owner.quiet()
    assert asyncio.get_running_loop().time() - began < 3 * MANDATE_WAIT.budget_ms / 1000
    assert [verdict for _, verdict in read_verdicts(owner)] == ["denied"] * 6


async def test_nothing_that_is_not_its_agents_waits_and_nothing_that_was_decided_before() -> None:
    owner = open_gated()
    enter(owner, [propose(1, mandate_digest=None), propose(2, action_id="a-1", mandate_digest=None)])
    enter(owner, [propose(3, agent_id="nobody"), propose(4, action_id="a-1")])
    assert [name for name, _ in read_verdicts(owner)] == ["a-1", "a-1", "a-3", "a-1"]


async def test_a_worker_that_stops_meanwhile_leaves_the_action_undecided() -> None:
    owner = open_gated()
    enter(owner, [propose(1)])
    await asyncio.sleep(0)
    await owner.lanes.cancel()
    assert read_verdicts(owner) == []
    assert owner.positions()[ACTIONS] == 0 or owner.intakes[ACTIONS].pending
