"""Without a shell the core decides as it does in a worker."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.core.actions.stage import PASSED, StageResult
from sluice.core.decide.replay import Replay, drive
from sluice.core.foundation.input_record import InputRecord
from sluice.core.foundation.requests import Answer, Request
from sluice.core.state.decision import Decision, Shared
from sluice.core.state.session import SessionState, session_key
from sluice.stream.engine.evaluation import InputInProgress, receive
from sluice_topics.catalog import ACTIONS, OUTCOMES
from tests.unit.core.rerun.reruns import SMALL
from tests.unit.core.scene import START, Flawed, action, bundle, kinds, only, outcome, point, verdict_of

if TYPE_CHECKING:
    from collections.abc import Generator

    from sluice.core.actions.stage import ActionContext
    from sluice.core.actions.stage import Asking as Questions

BUNDLE = bundle(**SMALL)
POINT = point(policy=BUNDLE)


class Asking:
    """Passes on "yes"."""

    name = "asking"

    def evaluate(self, context: ActionContext) -> Questions:
        del context
        said = (yield Request("oracle", {}, 1000)).payload
        return PASSED if said == "yes" else StageResult("block", "no")


def input_record(
    offset: int, record: dict[str, Any] | bytes, topic: str = ACTIONS, key: bytes = b"s-1"
) -> InputRecord:
    raw = record if isinstance(record, bytes) else json.dumps(record).encode()
    return InputRecord(topic, 0, offset, START, key, raw)


RECORDS = st.one_of(
    st.builds(
        lambda name, tool, rows, mode: (
            ACTIONS,
            action(action_id=name, toolName=tool, rows_affected=rows, mode=mode),
        ),
        st.sampled_from("abc"),
        st.sampled_from(["find", "change", "erase", "unheard_of"]),
        st.sampled_from([1, 5, 5000, None, -1]),
        st.sampled_from(["standard", "high_stakes", None]),
    ),
    st.builds(
        lambda name, rows: (OUTCOMES, outcome(action_id=name, rows_affected=rows)),
        st.sampled_from("abc"),
        st.sampled_from([0, 3, 70]),
    ),
    st.sampled_from([(ACTIONS, b"nonsense"), (OUTCOMES, b"{}"), (ACTIONS, action(session_id="s-2"))]),
)


@settings(max_examples=80, deadline=None)
@given(st.lists(RECORDS, max_size=10))
def test_every_decision_is_the_worker_s(records: list[tuple[str, Any]]) -> None:
    replay, state = Replay(POINT), SessionState(session_key("s-1"))
    for offset, (topic, record) in enumerate(records):
        given_ = input_record(offset, record, topic)
        decided = InputInProgress(POINT, receive(given_), state, Shared(), at_home=True).advance()
        assert isinstance(decided, Decision)
        state.apply(decided.session)
        assert replay.take(given_).records == decided.records


def test_sessions_are_kept_apart_and_keep_their_totals() -> None:
    replay = Replay(POINT)
    replay.take(input_record(1, action(rows_affected=5)))
    other = replay.take(input_record(2, action(session_id="s-2"), key=b"s-2"))
    again = replay.take(input_record(3, action(action_id="act-2")))
    assert verdict_of(other)["session"]["before"]["aggregateRowsAffected"] == 0
    assert verdict_of(again)["session"]["before"]["aggregateRowsAffected"] == 5


def test_a_fault_of_the_core_is_answered_like_in_a_worker() -> None:
    decision = Replay(point(policy=BUNDLE, stages=[Flawed()])).take(input_record(1, action()))
    assert kinds(decision) == ["Verdict", "DeadLetter"]
    assert verdict_of(decision)["blockReason"] == "internal_error"
    assert only(decision, "DeadLetter")["message"] == "KeyError in evaluate"


def test_a_question_is_answered_by_whoever_is_given() -> None:
    asking = point(policy=BUNDLE, stages=[Asking()])
    heard = Replay(asking, lambda _: Answer("answered", "yes")).take(input_record(1, action()))
    assert verdict_of(heard)["outcome"] == "ALLOW"
    alone = Replay(asking).take(input_record(1, action()))
    assert verdict_of(alone)["blockReason"] == "inconclusive: asking got no answer of oracle"


def test_every_request_is_answered_in_turn() -> None:
    def evaluation() -> Generator[Request, Answer, Decision]:
        first = yield Request("a", 1, 1)
        second = yield Request("b", first.payload, 1)
        return Decision((), [first, second])  # type: ignore[list-item]

    asked: list[Request] = []

    def answer(request: Request) -> Answer:
        asked.append(request)
        return Answer("answered", request.port)

    decision = drive(evaluation(), answer)
    assert [one.payload for one in asked] == [1, "a"]
    assert [one.payload for one in decision.records] == ["a", "b"]  # type: ignore[attr-defined]
