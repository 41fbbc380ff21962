"""Mend 22.9 and 22.13: neither a short deadline nor an agent's own load makes an answer laxer, and all
questions of a stage share its budget and what is left of the caller's deadline (decision 15)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sluice.core.actions.grading import PORT as GRADER
from sluice.core.cel.language import MAX_WORK
from sluice.core.decide.replay import decide, drive
from sluice.core.foundation.input_record import InputRecord
from sluice.core.foundation.requests import Answer, Asker, Request
from sluice.core.rerun.evidence import RecordedAnswers
from sluice.core.state.session import SessionState, session_key
from sluice_topics.catalog import ACTIONS
from tests.unit.core.actions.judging_scene import JUDGED, LISTED, UNPROVED, judgement, make_score
from tests.unit.core.scene import START, action, bundle, entry, point, read_record, verdict_of

RULES = [{"id": f"r{place}", "reason": "so", "criterion": "It is so."} for place in range(16)]
STAGES = [*JUDGED[:-1], "grader", JUDGED[-1]]
POLICY = bundle(
    patterns={}, stages=STAGES, causal={"enabled": True}, grader={"rules": RULES, "proof": UNPROVED}
)
BOUND = entry("agent", "clerk", tenant_id="acme", tier="T3", constraints=LISTED)
STRICTNESS = {"ALLOW": 0, "ESCALATE": 1, "BLOCK": 2}
MILLISECOND_NS = 1_000_000


@dataclass
class SlowModel:
    """A shell whose time is its own: a question takes the next of `takes_ms`, and is cut off where a worker
    would cut it off. Answers are the next of `scores`."""

    takes_ms: list[int]
    scores: list[float]
    now_ns: int = 0
    asked: list[Request] = field(default_factory=list)

    def read(self) -> int:
        """The stopwatch."""
        return self.now_ns

    def answer(self, request: Request) -> Answer:
        """As sluice/stream/engine/evaluation.py: the caller's deadline ends the wait before the budget."""
        place = len(self.asked)
        self.asked.append(request)
        takes_ms, score = self.takes_ms[place % len(self.takes_ms)], self.scores[place % len(self.scores)]
        left_ms = request.budget_ms if request.deadline_ms is None else request.deadline_ms
        cut_ms = min(request.budget_ms, left_ms)
        self.now_ns += min(takes_ms, cut_ms) * MILLISECOND_NS
        if takes_ms < cut_ms:
            return make_score(score) if request.port == GRADER else judgement(1 - score)
        return Answer("deadline" if request.deadline_ms == cut_ms else "overrun", detail="late")


def decide_late(model: SlowModel, waited_ms: int = 0, **fields: Any) -> dict[str, Any]:
    """The verdict on an action before such a model."""
    judge = point(BOUND, policy=POLICY, stopwatch=model.read)
    raw = json.dumps(action(agent_id="clerk", **fields)).encode()
    input_record = InputRecord(ACTIONS, 0, 1, START, b"s-1", raw, waited_ms=waited_ms)
    return verdict_of(decide(judge, input_record, SessionState(session_key("s-1")), model.answer))


TIMES = st.lists(st.integers(0, 120), min_size=1, max_size=6)
SCORES = st.lists(st.sampled_from([0.95, 0.9, 0.75, 0.2]), min_size=1, max_size=6)
DEADLINES = st.lists(st.integers(0, 400), min_size=2, max_size=2).map(sorted)


@example(TIMES_OF := [30], [0.2], [1, 300], 0)
@example([10], [0.9, 0.9, 0.2], [15, 300], 0)
@given(TIMES, SCORES, DEADLINES, st.integers(0, 50))
def test_a_shorter_deadline_never_gives_a_laxer_answer(
    takes_ms: list[int], scores: list[float], deadlines: list[int], waited_ms: int
) -> None:
    for mode in ("standard", "high_stakes"):
        outcomes = [
            decide_late(SlowModel(takes_ms, scores), waited_ms, mode=mode, deadline_ms=one)["outcome"]
            for one in (*deadlines, None)
        ]
        strictness = [STRICTNESS[one] for one in outcomes]
        assert strictness == sorted(strictness, reverse=True), outcomes


def test_what_the_model_denies_is_denied_under_every_deadline() -> None:
    """The door that there was: 1 to 300 ms in standard mode turned a denial into less."""
    for deadline_ms in (1, 10, 30, 79, 80, 150, 300, 10_000):
        model = SlowModel([40], [0.9, 0.2])
        found = decide_late(model, mode="standard", deadline_ms=deadline_ms)
        assert found["outcome"] == "BLOCK", deadline_ms


@pytest.mark.parametrize("mode", ["standard", "high_stakes"])
@pytest.mark.parametrize(
    ("status", "reason"), [("busy", "port_busy: causal"), ("deadline", "deadline_elapsed: causal")]
)
def test_no_room_and_the_caller_s_time_deny_in_both_modes(mode: str, status: Any, reason: str) -> None:
    judge = point(BOUND, policy=POLICY)
    raw = json.dumps(action(agent_id="clerk", mode=mode)).encode()
    input_record = InputRecord(ACTIONS, 0, 1, START, b"s-1", raw)
    asked: list[Request] = []

    def shell(request: Request) -> Answer:
        asked.append(request)
        return Answer(status, detail="why")

    found = verdict_of(decide(judge, input_record, SessionState(session_key("s-1")), shell))
    assert found["outcome"] == "BLOCK"
    assert found["blockReason"].startswith(reason)
    assert [one.asker for one in asked] == [Asker("acme", "clerk")]
    assert found["gateResults"][-1]["detail"]["status"] == status


def test_sixteen_rules_and_a_retry_share_the_stage_s_80_ms() -> None:
    """They made 1.36 s when each question had 80 ms."""
    model = SlowModel([7], [0.9, 0.75, *[0.9] * 15])
    found = decide_late(model, mode="standard")
    spent_ms = model.now_ns // MILLISECOND_NS
    assert spent_ms <= 50 + 80
    graded = [one for one in model.asked if one.port == GRADER]
    assert [one.budget_ms for one in graded] == [80 - 7 * place for place in range(len(graded))]
    assert len(graded) == 12
    assert found["outcome"] == "ALLOW"
    assert [one["source"] for one in found["advisories"]].count("sluice.grader") == 1


def test_the_deadline_is_counted_down_over_stages_and_the_time_before() -> None:
    model = SlowModel([10], [0.9])
    decide_late(model, waited_ms=60, mode="standard", deadline_ms=100)
    assert [one.deadline_ms for one in model.asked] == [40, 30, 20, 10]


def test_the_time_in_a_queue_is_not_the_stage_s_but_it_is_the_caller_s() -> None:
    model = SlowModel([20], [0.9])

    def shell(request: Request) -> Answer:
        model.now_ns += 500 * MILLISECOND_NS
        return replace(model.answer(request), queued_ms=500)

    judge = point(BOUND, policy=POLICY, stopwatch=model.read)
    for deadline_ms, first_three in ((None, [80, 60, 40]), (2000, [80, 60, 40])):
        model.asked.clear()
        raw = json.dumps(action(agent_id="clerk", mode="standard", deadline_ms=deadline_ms)).encode()
        input_record = InputRecord(ACTIONS, 0, 1, START, b"s-1", raw)
        decide(judge, input_record, SessionState(session_key("s-1")), shell)
        assert [one.budget_ms for one in model.asked if one.port == GRADER][:3] == first_three
    assert [one.deadline_ms for one in model.asked][:3] == [2000, 1480, 960]


@given(TIMES, SCORES, st.none() | st.integers(0, 300), st.sampled_from(["standard", "high_stakes"]))
def test_a_rerun_without_any_clock_is_identical(
    takes_ms: list[int], scores: list[float], deadline_ms: int | None, mode: str
) -> None:
    """Which time ended a wait is a recorded input of the decision."""
    found = decide_late(SlowModel(takes_ms, scores), mode=mode, deadline_ms=deadline_ms)
    raw = json.dumps(action(agent_id="clerk", mode=mode, deadline_ms=deadline_ms)).encode()
    input_record = InputRecord(ACTIONS, 0, 1, START, b"s-1", raw)
    answers = RecordedAnswers(found["model_outputs"], {})
    message = read_record(ACTIONS, raw)
    (again,) = drive(point(BOUND, policy=POLICY).judge_again(input_record, message, found), answers.next)
    assert again.body["rerun_hash"] == found["rerun_hash"]


def test_stage_1_keeps_its_50_ms_by_work_and_not_by_a_clock() -> None:
    """Nothing can interrupt CEL, and a time would not come out the same in a rerun: work is bounded before
    it begins, once for each of at most two types that an action may be of."""
    work_ms = MAX_WORK / 10**9
    assert 2 * work_ms < 50
