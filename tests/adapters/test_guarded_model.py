"""A model is asked no more than it can take and left alone while it is down; load refuses no memory write."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.adapters.models.guarded_model import Breaker, BreakerOpen, GuardedModel, GuardedPort, LoadLimits
from sluice.adapters.models.prompted_port import ModelDown, ModelUsage, PromptedPort
from sluice.core.foundation.requests import Answer
from sluice.core.memory.analysis import PORT, PROMPT, AnalysisAnswer, build_question
from sluice.ports import PortUnavailable
from sluice.stream.engine.evaluation import Ports
from tests.adapters.asking import ORDINARY, POLICY, model_at
from tests.messages_api import judge_with, make_failing, messages_api

if TYPE_CHECKING:
    from sluice.core.foundation.prompts import Prompt

ANSWER = AnalysisAnswer(
    model="m", prompt_version=PROMPT.version, trust=0.5, categories=[], explanation="It is so."
)


class Slow:
    """A model that takes `takes_s`, or raises what it is told; it counts what is asked of it at once."""

    name = "slow"

    def __init__(self, takes_s: float = 0.0) -> None:
        self.usage = ModelUsage()
        self.takes_s = takes_s
        self.raises: Exception | None = None
        self.at_once = self.most_at_once = self.asked = 0

    async def judge(self, prompt: Prompt[Any], build_question: object) -> Any:  # noqa: ARG002
        self.asked += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(self.takes_s)
        finally:
            self.at_once -= 1
        if self.raises is not None:
            raise self.raises
        return ANSWER

    async def close(self) -> None:
        self.asked = -1


def guard_model(model: Slow, *, waiting: int | None = 0, in_flight: int = 2, now: Any = None) -> GuardedModel:
    limits = LoadLimits(in_flight, waiting, failures=3, open_s=10)
    return GuardedModel(model, limits) if now is None else GuardedModel(model, limits, now)


class Clock:
    def __init__(self) -> None:
        self.s = 0.0

    def __call__(self) -> float:
        return self.s


async def test_a_full_queue_is_answered_at_once_and_says_so() -> None:
    model = Slow(0.05)
    ports = Ports({PORT: GuardedPort(PROMPT, guard_model(model, waiting=3))})
    answers = await asyncio.gather(*(ports.answer(ORDINARY) for _ in range(9)))
    assert [one.status for one in answers].count("answered") == 5
    refused = [one for one in answers if one.status != "answered"]
    assert refused == [Answer("busy", None, "3 questions wait for the model, as many as may")] * 4
    assert model.most_at_once == 2
    assert (await ports.answer(ORDINARY)).status == "answered"


async def test_the_budget_begins_with_the_turn_and_no_turn_in_that_time_is_no_overrun() -> None:
    ports = Ports({PORT: GuardedPort(PROMPT, guard_model(Slow(1.0), waiting=9, in_flight=1))})
    impatient = build_question("A note.", "user", POLICY.model_copy(update={"budget_ms": 1500}))
    answers = await asyncio.gather(*(ports.answer(impatient) for _ in range(4)))
    assert [one.status for one in answers] == ["answered", "answered", "busy", "busy"]
    assert answers[0].queued_ms < 900 <= answers[1].queued_ms


async def test_a_memory_write_waits_for_its_turn_and_has_its_whole_budget_then() -> None:
    model = Slow(0.1)
    ports = Ports(
        {PORT: GuardedPort(PROMPT, guard_model(model, waiting=None, in_flight=2), waits_in_queue=True)}
    )
    patient = build_question("A note.", "user", POLICY.model_copy(update={"budget_ms": 900}))
    answers = await asyncio.gather(*(ports.answer(patient) for _ in range(20)))
    assert {one.status for one in answers} == {"answered"}
    assert model.most_at_once == 2


async def test_cancelled_turns_are_given_back() -> None:
    model = Slow(0.01)
    port = GuardedPort(PROMPT, guard_model(model, waiting=None, in_flight=1), waits_in_queue=True)
    ports = Ports({PORT: port})
    for turns in range(30):
        tasks = [asyncio.ensure_future(ports.answer(ORDINARY)) for _ in range(3)]
        for _ in range(turns):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    async with asyncio.timeout(5):
        assert (await ports.answer(ORDINARY)).status == "answered"
    assert model.at_once == 0


async def test_a_model_that_is_down_is_not_asked_until_a_probe_finds_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    model, clock = Slow(), Clock()
    guard = guard_model(model, now=clock)
    port = PromptedPort(PROMPT, guard)
    model.raises = ModelDown("gone")
    for _ in range(3):
        with pytest.raises(ModelDown):
            await port.ask(ORDINARY.payload)
    for _ in range(5):
        with pytest.raises(PortUnavailable, match="failed 3 times in a row: it is not asked now"):
            await port.ask(ORDINARY.payload)
    assert model.asked == 3
    clock.s = 10.0
    with pytest.raises(ModelDown):
        await port.ask(ORDINARY.payload)
    with pytest.raises(PortUnavailable, match="not asked now"):
        await port.ask(ORDINARY.payload)
    assert model.asked == 4
    clock.s, model.raises = 20.0, None
    await port.ask(ORDINARY.payload)
    await port.ask(ORDINARY.payload)
    assert [one.getMessage() for one in caplog.records] == [
        "the model slow failed 3 times in a row: it is not asked for 10 s at a time, until it answers",
        "the model slow answers again",
    ]


async def test_what_the_model_makes_of_questions_never_opens_the_breaker() -> None:
    model = Slow()
    port = PromptedPort(PROMPT, guard_model(model))
    model.raises = PortUnavailable("the model declined to judge the text")
    for _ in range(20):
        with pytest.raises(PortUnavailable, match="declined"):
            await port.ask(ORDINARY.payload)
    assert model.asked == 20


async def test_a_real_server_that_fails_is_left_alone_and_found_again() -> None:
    broken = make_failing(529, "overloaded_error")
    async with messages_api(broken, broken, broken, judge_with()) as api:
        clock = Clock()
        inner = model_at(api.base_url)
        guard = GuardedModel(inner, LoadLimits(2, 0, failures=3, open_s=10), clock)
        ports = Ports({PORT: PromptedPort(PROMPT, guard)})
        for _ in range(7):
            assert (await ports.answer(ORDINARY)).status == "unavailable"
        assert len(api.exchanges) == 3
        clock.s = 10.0
        assert (await ports.answer(ORDINARY)).status == "answered"
        await guard.close()


@given(st.lists(st.tuples(st.sampled_from(["ok", "down", "other", "left", "wait"]), st.integers(0, 3))))
def test_the_breaker_opens_after_failures_in_a_row_alone_and_probes_one_by_one(
    steps: list[tuple[str, int]],
) -> None:
    """Attempts that overlap: each step begins one and ends one that is under way, in any order."""
    clock = Clock()
    breaker = Breaker("it", 3, 10, (ModelDown,), clock)
    under_way: list[Any] = []
    open_since: float | None = None
    probes = 0
    for end, which in steps:
        attempt = breaker.attempt()
        try:
            attempt.__enter__()
        except BreakerOpen:
            assert open_since is not None
            assert clock.s < open_since + 10 or probes == 1
        else:
            probe = open_since is not None
            probes += probe
            assert probes <= 1
            under_way.append((attempt, probe))
        if end == "wait":
            clock.s += 6
        elif under_way:
            ended, probe = under_way.pop(which % len(under_way))
            error = {"down": ModelDown("x"), "other": PortUnavailable("x"), "left": asyncio.CancelledError()}
            raised = error.get(end)
            assert not ended.__exit__(type(raised) if raised else None, raised, None)
            probes -= probe
        open_since = breaker._until_s - 10 if breaker._until_s is not None else None  # noqa: SLF001
    for ended, _ in under_way:
        ended.__exit__(None, None, None)
    if under_way:
        assert not breaker.refuses


@given(st.integers(1, 6), st.lists(st.booleans(), max_size=40))
def test_one_after_the_other_it_opens_exactly_at_the_nth_failure_in_a_row(
    most: int, fails: list[bool]
) -> None:
    breaker = Breaker("it", most, 10, (ModelDown,), Clock())
    row = 0
    for fail in fails:
        assert breaker.refuses == (row >= most)
        if breaker.refuses:
            break
        attempt = breaker.attempt()
        attempt.__enter__()
        error = ModelDown() if fail else None
        assert not attempt.__exit__(type(error) if error else None, error, None)
        row = row + 1 if fail else 0
