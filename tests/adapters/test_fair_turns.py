"""Mend 22.9: an agent's flood neither makes its own answers laxer nor takes others' places at the model."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from sluice.adapters.models.cached_answers import CachedAnswers
from sluice.adapters.models.fair_turns import FairTurns
from sluice.adapters.models.guarded_model import GuardedModel, GuardedPort, LoadLimits
from sluice.core.actions.grading import GRADE, PORT
from sluice.core.decide.decision_point import NOTHING_SHARED
from sluice.core.foundation.input_record import InputRecord
from sluice.core.foundation.requests import Asker
from sluice.core.state.session import SessionState, session_key
from sluice.ports import PortBusy
from sluice.stream.engine.evaluation import InputInProgress, Lanes, Ports, receive
from sluice_topics.catalog import ACTIONS
from tests.adapters.asking import model_at
from tests.messages_api import MessagesApi, messages_api, reply_with_text
from tests.unit.core.actions.judging_scene import GRADED, POLITE, UNPROVED
from tests.unit.core.scene import START, action, bundle, entry, point, verdict_of

if TYPE_CHECKING:
    from sluice.core.state.decision import Decision
    from tests.messages_api import Exchange

FLOOD = 400
BUDGET_MS = 60_000


async def denies(exchange: Exchange) -> None:
    """The model takes its time, and finds every action rude."""
    await asyncio.sleep(0.05)
    await reply_with_text(json.dumps({"compliance": 0.1, "reasoning": "It is rude."}))(exchange)


def _input_record(agent: str, number: int) -> InputRecord:
    session = f"{agent}-{number}"
    fields = action(
        agent_id=agent, session_id=session, mode="standard", parameters={"q": f"{agent} asks {number}"}
    )
    return InputRecord(ACTIONS, 0, number, START, session.encode(), json.dumps(fields).encode())


@dataclass
class _Flood:
    """Actions of agents, each in a session of its own, through the lanes and the ports of a worker."""

    ports: Ports
    budget_ms: int = BUDGET_MS

    async def verdicts(self, *agents: str) -> dict[str, list[dict[str, Any]]]:
        """By agent, in the order in which they fall."""
        policy = bundle(
            patterns={},
            stages=GRADED,
            grader={"rules": [POLITE], "proof": UNPROVED, "budget_ms": self.budget_ms},
        )
        known = [entry("agent", one, tenant_id="acme", tier="T3") for one in set(agents)]
        judge, said = point(*known, policy=policy), deque[dict[str, Any]]()
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def finish(evaluation: InputInProgress, decision: Decision) -> None:
            del evaluation
            said.append(verdict_of(decision))
            if len(said) == len(agents):
                done.set_result(None)

        lanes = Lanes(
            self.ports,
            lambda one: InputInProgress(
                judge, one, SessionState(session_key("s")), NOTHING_SHARED, at_home=True
            ),
            finish,
            done.set_exception,
        )
        for number, agent in enumerate(agents):
            input_record = _input_record(agent, number)
            lanes.enter([receive(input_record)])
        async with asyncio.timeout(120):
            await done
        found: dict[str, list[dict[str, Any]]] = {}
        for place, one in enumerate(said):
            found.setdefault(one["agent_id"], []).append({**one, "place": place})
        return found


def _port(api: MessagesApi, waiting: int) -> CachedAnswers:
    model = GuardedModel(model_at(api.base_url, max_connections=8), LoadLimits(8, waiting, 5, 10))
    return CachedAnswers(GuardedPort(GRADE, model), 1000)


async def test_a_flood_of_questions_lets_nothing_go_and_another_agent_is_answered() -> None:
    """The door that there was: beyond the queue's 256 places a denied action was allowed in standard."""
    async with messages_api(denies) as api:
        port = _port(api, waiting=64)
        found = await _Flood(Ports({PORT: port})).verdicts(*["flooder"] * FLOOD, "neighbour")
        await port.close()
    assert {one["outcome"] for one in found["flooder"]} == {"BLOCK"}
    reasons = Counter(one["blockReason"].partition(":")[0] for one in found["flooder"])
    assert reasons["port_busy"] >= FLOOD - 8 - 64
    assert reasons["rule_failed"] >= 8
    (other,) = found["neighbour"]
    assert other["blockReason"].startswith("rule_failed: polite"), "it was judged by the model"
    judged_before = [one for one in found["flooder"] if one["place"] < other["place"]]
    assert sum(one["blockReason"].startswith("rule_failed") for one in judged_before) <= 16


async def test_who_gets_no_turn_in_time_is_denied_and_not_let_go() -> None:
    """Eight places give 40 turns in the budget. On a busy machine an answer may come too late after a turn
    that came in time: that is an overrun, with which `standard` goes on."""
    async with messages_api(denies) as api:
        port = _port(api, waiting=FLOOD)
        found = await _Flood(Ports({PORT: port}), budget_ms=250).verdicts(*["flooder"] * 120)
        await port.close()
    outcomes = Counter((one["model_outputs"][0]["status"], one["outcome"]) for one in found["flooder"])
    assert outcomes["busy", "BLOCK"] >= 120 - 40 - 8
    assert outcomes.keys() <= {("busy", "BLOCK"), ("answered", "BLOCK"), ("overrun", "ALLOW")}


AGENTS = st.tuples(st.sampled_from(["t", "u"]), st.sampled_from(["a", "b", "c"])).map(lambda one: Asker(*one))


@given(st.integers(1, 6), st.none() | st.integers(0, 6), st.lists(AGENTS, max_size=40), st.randoms())
def test_turns_are_never_more_than_places_and_none_is_lost(
    places: int, waiting: int | None, askers: list[Asker], chance: Any
) -> None:
    """Whoever cancels, is refused, or fails inside."""

    async def run() -> None:
        turns, inside, most, refused = FairTurns(places, waiting), 0, 0, 0

        async def ask(asker: Asker) -> None:
            nonlocal inside, most, refused
            try:
                async with turns.turn(asker):
                    inside += 1
                    most = max(most, inside)
                    try:
                        await asyncio.sleep(0)
                    finally:
                        inside -= 1
            except PortBusy:
                refused += 1

        tasks = [asyncio.create_task(ask(one)) for one in askers]
        for task in tasks:
            if chance.random() < 0.3:
                task.cancel()
            if chance.random() < 0.3:
                await asyncio.sleep(0)
        async with asyncio.timeout(10):
            await asyncio.gather(*tasks, return_exceptions=True)
            async with turns.turn(Asker("t", "last")):
                assert inside == 0
        assert most <= places
        assert waiting is not None or refused == 0

    asyncio.run(run())


async def test_a_full_room_makes_way_for_who_waits_for_less() -> None:
    turns = FairTurns(1, 4)
    many, few, other = Asker("t", "many"), Asker("t", "few"), Asker("u", "other")
    order: list[str] = []

    async def ask(asker: Asker) -> None:
        async with turns.turn(asker):
            order.append(asker.agent)
            await asyncio.sleep(0.001)

    async with turns.turn(many):
        tasks = [asyncio.create_task(ask(one)) for one in [*[many] * 4, few, other, many]]
        await asyncio.sleep(0)
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert sorted(order) == ["few", "many", "many", "other"]
    assert order.index("other") < 2
    assert order.index("few") < 3
    assert sum(isinstance(one, PortBusy) for one in results) == 3
