"""A fault of the core is an answer to one input; chain and session are as if it had not been tried."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING

from load import ROOT
from sluice.bootstrap.parts import build_decision_point
from sluice.core.actions.stages import load_bundle
from sluice.core.decide.kinds import KEY_MISMATCH
from sluice.core.foundation.chain import Chain
from sluice.core.foundation.input_record import InputRecord
from sluice.core.foundation.requests import Answer, Request
from sluice.core.policy.policy import Policy
from sluice.core.registry.loading import load_registry
from sluice.core.state.decision import Decision, Shared
from sluice.core.state.session import SessionState
from sluice.offline.bundle_source import read_whole_bundle
from sluice.settings.reader import Settings
from sluice.stream.engine.evaluation import InputInProgress, Lanes, Ports, receive, unread
from sluice.stream.engine.outbox import Outbox
from sluice_topics.catalog import ACTIONS, DEAD_LETTERS, VERDICTS

if TYPE_CHECKING:
    from sluice.core.actions.stage import ActionContext, Asking
    from sluice.core.decide.decision_point import DecisionPoint


class Flawed:
    """Raises, at once or after an answer."""

    name = "flawed"

    def evaluate(self, context: ActionContext) -> Asking:
        answer: object = None
        if context.action.parameters.get("ask"):
            answer = (yield Request("anything", {}, 1000)).payload
        raise ZeroDivisionError(answer)


def point() -> DecisionPoint:
    shipped = json.loads(read_whole_bundle(ROOT / "config" / "bundles" / "default.json"))
    bundle = load_bundle(json.dumps({**shipped, "stages": ["controls", "flawed", "tier_auth"]}).encode())
    registry = load_registry((ROOT / "config" / "registry.json").read_bytes())
    policy = Policy({bundle.id: bundle}, registry, bundle.id)
    return build_decision_point(Settings(), policy, {"flawed": Flawed()})


def evaluation(mode: str, **parameters: object) -> InputInProgress:
    record = {
        "action_id": "a",
        "agent_id": "example-operator",
        "session_id": "s",
        "toolName": "search_records",
        "parameters": parameters,
        "mode": mode,
        "rows_affected": 7,
    }
    input_record = InputRecord(ACTIONS, 0, 5, 1_800_000_000_000, b"s", json.dumps(record).encode())
    return InputInProgress(point(), receive(input_record), SessionState(b"s:s"), Shared(), at_home=True)


def answer(step: Request | Decision, chain: Chain) -> dict[str, dict[str, object]]:
    assert isinstance(step, Decision)
    outbox = Outbox(chain, "/test", 8)
    outbox.add(step.records, None)
    return {output.topic: json.loads(output.value) for output in outbox.take()}


def test_in_high_stakes_it_is_denied_and_kept_as_a_dead_letter() -> None:
    chain = Chain(0)
    records = answer(evaluation("high_stakes").advance(), chain)
    assert records[VERDICTS]["verdict"] == "denied"
    assert "internal_error" in str(records[VERDICTS]["blockReason"])
    assert records[DEAD_LETTERS]["code"] == "internal_error"
    assert chain.sequence == 2


def test_in_standard_it_is_allowed_with_an_advisory_and_its_rows_count() -> None:
    tried = evaluation("standard")
    step = tried.advance()
    verdict = answer(step, Chain(0))[VERDICTS]
    assert verdict["verdict"] == "allowed"
    assert "internal_error" in json.dumps(verdict["advisories"])
    assert isinstance(step, Decision)
    tried.state.apply(step.session)
    assert [account.rows for account in tried.state.accounts.values()] == [7]


def test_a_fault_after_an_answer_is_answered_too() -> None:
    tried = evaluation("high_stakes", ask=True)
    assert isinstance(tried.advance(), Request)
    assert answer(tried.advance(Answer("answered", {})), Chain(0))[VERDICTS]["verdict"] == "denied"


def test_a_record_under_another_key_or_in_another_partition_is_unreadable() -> None:
    tried = evaluation("high_stakes")
    moved = InputRecord(ACTIONS, 0, 5, 1_800_000_000_000, b"other", tried.input_record.value)
    assert receive(moved).message == KEY_MISMATCH
    astray = InputInProgress(point(), receive(tried.input_record), tried.state, Shared(), at_home=False)
    assert answer(astray.advance(), Chain(0))[DEAD_LETTERS]["code"] == "wrong_partition"


def test_an_input_that_is_not_to_be_read_is_denied_unread() -> None:
    tried = evaluation("high_stakes")
    blind = InputInProgress(point(), unread(tried.input_record), tried.state, Shared(), at_home=True)
    verdict = answer(blind.advance(), Chain(0))[VERDICTS]
    assert (verdict["verdict"], verdict["action_id"]) == ("denied", None)


class Remembering:
    """Answers, and has at hand what it answered."""

    def __init__(self) -> None:
        self.answers: list[object] = []

    async def ask(self, payload: object) -> object:
        await asyncio.sleep(0)
        self.answers.append(payload)
        return payload

    def recall(self, payload: object) -> object | None:
        return payload if payload in self.answers else None


async def test_an_answer_that_is_at_hand_is_decided_upon_as_the_input_is_delivered() -> None:
    port, decided = Remembering(), asyncio.Queue[bytes]()
    lanes = Lanes(
        Ports({"anything": port}),
        lambda inbound: InputInProgress(point(), inbound, SessionState(b"s:s"), Shared(), at_home=True),
        lambda evaluation, _: decided.put_nowait(evaluation.input_record.value or b""),
        lambda fault: decided.put_nowait(repr(fault).encode()),
    )
    asked = receive(evaluation("high_stakes", ask=True).input_record)
    lanes.enter([asked, asked])
    assert (decided.qsize(), len(lanes.waiting[b"s:s"])) == (0, 1)
    assert [await decided.get(), await decided.get()] == [asked.input_record.value] * 2
    await asyncio.sleep(0)
    lanes.enter([replace(asked, session_key=b"s:other")])
    assert (decided.get_nowait(), lanes.waiting) == (asked.input_record.value, {})
    assert port.answers == [{}]


async def test_what_waited_in_a_lane_begins_only_under_a_current_policy() -> None:
    port, decided, current = Remembering(), asyncio.Queue[bytes](), asyncio.Event()

    async def wait_for_policy() -> float:
        await current.wait()
        return 0.0

    lanes = Lanes(
        Ports({"anything": port}),
        lambda inbound: InputInProgress(point(), inbound, SessionState(b"s:s"), Shared(), at_home=True),
        lambda evaluation, _: decided.put_nowait(evaluation.input_record.value or b""),
        lambda fault: decided.put_nowait(repr(fault).encode()),
        wait_for_policy,
    )
    asked = receive(evaluation("high_stakes", ask=True).input_record)
    lanes.enter([asked, asked])
    assert await decided.get() == asked.input_record.value
    await asyncio.sleep(0.05)
    assert (decided.qsize(), len(lanes.waiting[b"s:s"])) == (0, 1)
    current.set()
    assert await decided.get() == asked.input_record.value
