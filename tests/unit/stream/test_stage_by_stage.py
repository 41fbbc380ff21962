"""A chunk of inputs goes through the gates together, and comes to what its inputs come to one by one."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from load import frozen
from sluice.core.actions.authority import TierAuth
from sluice.core.actions.stage import PASSED
from sluice.core.decide.kinds import BY_TOPIC
from sluice.core.foundation.requests import HELD_INPUT, Request
from sluice.core.memory.analysis import PORT as ANALYSIS
from sluice.core.memory.lineage import PORT as LINEAGE
from sluice.settings.reader import Settings
from sluice.stream.engine.evaluation import Ports, WorkerContext
from sluice.stream.engine.partition import Partition
from sluice_topics.catalog import ACTIONS, DEAD_LETTERS, ESCALATIONS, VERDICTS
from tests.unit.core.actions.escalation_scene import Office
from tests.unit.core.actions.test_agent_grants import OURS, grant
from tests.unit.core.scene import action
from tests.unit.stream.engine_settings import engine_settings, fail

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice.core.actions.stage import ActionContext, Asking, StageResult
    from sluice.core.decide.decision_point import DecisionPoint
    from sluice.core.foundation.input_record import InputRecord
    from sluice.ports import Port

PARTITIONS = 4
CHUNK = 32
SESSIONS = 14


class Inputs:
    """The port that finds earlier inputs, all of them at hand; to any other question it says nothing."""

    def __init__(self, input_records: Sequence[InputRecord]) -> None:
        self._values = {(one.topic, one.offset): one.value for one in input_records}

    async def ask(self, payload: object) -> object:
        return self.recall(payload)

    def recall(self, payload: Any) -> object:
        return self._values[payload["topic"], payload["offset"]] if "offset" in payload else {}


def open_partition(point: DecisionPoint, ports: dict[str, Port] | None = None, **more: Any) -> Partition:
    """A partition that nobody had before, in which every session is at home. `more`: of the context."""
    settings = engine_settings(*BY_TOPIC, partitions=1)
    return Partition(0, WorkerContext(point, Ports(ports or {}), settings, {}, **more), {}, {}, fail)


def enter(owner: Partition, input_records: Sequence[InputRecord]) -> None:
    """Deliver input records in one chunk."""
    for input_record in input_records:
        owner.intakes[input_record.topic].pending[input_record.offset] = None
    owner.start(input_records)


def taken(owner: Partition, *topics: str) -> list[dict[str, Any]]:
    """The staged records of these topics, in their order."""
    _, outputs = owner.take(open_=True)
    return [json.loads(one.value) for one in outputs if one.topic in topics]


@pytest.mark.parametrize("name", ["actions", "memory writes", "items", "traffic of the fault runs"])
def test_a_chunk_leaves_what_its_inputs_leave_one_by_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every record in its place of the chain, and every entry of the table; with a quarantine and open
    escalations that are full, and so few sessions that most chunks have several inputs of one."""
    monkeypatch.setattr(frozen, "SESSIONS", SESSIONS)
    kept = next(one for one in frozen.draw(320) if one.name == name)
    limits = replace(Settings().build_limits(), max_quarantine=2, max_escalations=2, max_source_histories=3)
    ports: dict[str, Port] = dict.fromkeys((HELD_INPUT, ANALYSIS, LINEAGE), Inputs(kept.input_records))
    together, alone = (open_partition(kept.point(limits), ports) for _ in range(2))
    for start in range(0, len(kept.input_records), CHUNK):
        chunk = kept.input_records[start : start + CHUNK]
        enter(together, chunk)
        for input_record in chunk:
            enter(alone, [input_record])
        assert together.take(open_=True) == alone.take(open_=True)


class Noting:
    """A gate that notes whom it saw, all of a chunk before the next gate sees any."""

    pauses = True

    def __init__(self, name: str, seen: list[tuple[str, str]]) -> None:
        self.name = name
        self._seen = seen

    def evaluate(self, context: ActionContext) -> StageResult:
        self._seen.append((self.name, context.action.session_id))
        return PASSED


class Flawed:
    """A gate that raises on one session, and asks for another."""

    name = "flawed"

    def evaluate(self, context: ActionContext) -> StageResult | Asking:
        if context.action.session_id == "s-2":
            raise ZeroDivisionError
        return _ask() if context.action.session_id == "s-1" else PASSED


def _ask() -> Asking:
    yield Request("slow", {}, 1000)
    return PASSED


class Slow:
    """A port that answers once it may."""

    def __init__(self) -> None:
        self.may = asyncio.Event()

    async def ask(self, payload: object) -> object:
        await self.may.wait()
        return payload


def office(*stages: Any, uses: int = 0) -> Office:
    """Actions of `operator` that need a person; with a grant that has a share of `uses` in each partition."""
    return Office((grant(uses=uses),) if uses else (), limits=replace(OURS, max_escalations=2), stages=stages)


def propose(of: Office, *names: str, **fields: Any) -> list[InputRecord]:
    """An action of each session that needs an approver."""
    asked = {"agent_id": "operator", "toolName": "erase", "rows_affected": 3, "mode": "high_stakes", **fields}
    return [
        of.input_record(ACTIONS, action(action_id=f"a-{at}", session_id=name, **asked))
        for at, name in enumerate(names)
    ]


def decide(of: Office, *input_records: InputRecord) -> Partition:
    """A partition that has decided them in one chunk."""
    owner = open_partition(of.point(*of.more))
    enter(owner, input_records)
    return owner


def test_each_gate_sees_all_of_them_before_the_next_gate_sees_any() -> None:
    seen: list[tuple[str, str]] = []
    of = office(Noting("first", seen), Noting("second", seen))
    decide(of, *propose(of, "s-1", "s-2", "s-1", "s-3"))
    together = [(gate, name) for gate in ("first", "second") for name in ("s-1", "s-2", "s-3")]
    assert seen == [*together, ("first", "s-1"), ("second", "s-1")]


def test_sessions_of_one_chunk_use_no_more_of_a_grant_than_is_left() -> None:
    of = office(TierAuth(), uses=2 * PARTITIONS)
    verdicts = taken(decide(of, *propose(of, "s-1", "s-2", "s-3", "s-4")), VERDICTS)
    assert [one["verdict"] for one in verdicts] == ["allowed", "allowed", "needs_human", "needs_human"]
    assert [(one.get("grant") or {}).get("uses_left") for one in verdicts] == [2, 1, None, None]


def test_of_escalations_that_open_in_one_chunk_the_oldest_make_room() -> None:
    of = office(TierAuth())
    records = taken(decide(of, *propose(of, "s-1", "s-2", "s-3", "s-4")), ESCALATIONS)
    ended = [one["session_id"] for one in records if "expired" in one["schema"]]
    opened = [one["session_id"] for one in records if "opened" in one["schema"]]
    assert (ended, opened) == (["s-1", "s-2"], ["s-1", "s-2", "s-3", "s-4"])


async def test_a_fault_of_one_and_the_question_of_another_hold_nobody_up() -> None:
    of, port = office(Flawed()), Slow()
    owner = open_partition(of.point(), {"slow": port})
    enter(owner, propose(of, "s-1", "s-2", "s-3", "s-1", "s-4", "s-2"))
    _, outputs = owner.take(open_=True)
    decided = [(one.topic, one.key) for one in outputs if one.topic in (VERDICTS, DEAD_LETTERS)]
    assert [key for topic, key in decided if topic == VERDICTS] == [b"s-2", b"s-3", b"s-4", b"s-2"]
    assert [key for topic, key in decided if topic == DEAD_LETTERS] == [b"s-2", b"s-2"]
    assert len(owner.lanes.waiting[b"s:s-1"]) == 1
    port.may.set()
    await owner.quiet()
    assert [one["action_id"] for one in taken(owner, VERDICTS)] == ["a-0", "a-3"]
