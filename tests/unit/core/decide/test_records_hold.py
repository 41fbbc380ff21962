"""Whatever comes in, every record built is one that the models of topics/sluice_topics/records accept."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.foundation.chain import Chain
from sluice.core.foundation.input_record import InputRecord
from sluice_topics import records
from sluice_topics.catalog import BY_NAME
from sluice_topics.record_reading import Unreadable
from sluice_topics.records.base import MAX_COUNT
from tests.unit.core.scene import MINUTE, START, Session, action, bundle, outcome, read_record, sign

if TYPE_CHECKING:
    from sluice.core.state.decision import Decision

ROWS = st.sampled_from([0, 1, 999, 1001, 2**53, MAX_COUNT]) | st.none()
ACTIONS = st.fixed_dictionaries(
    {
        "action_id": st.sampled_from(["a", "b", "ä😀", "x" * 256]),
        "agent_id": st.sampled_from(["operator", "chief", "reader", "trial", "other", "nobody"]),
        "toolName": st.sampled_from(["find", "change", "erase", "pay", "anything", "nothing", "delete_all"]),
        "mode": st.sampled_from(["standard", "high_stakes", None]),
        "rows_affected": ROWS,
        "reversible": st.sampled_from([True, False, None]),
        "parameters": st.dictionaries(
            st.text(max_size=3), st.text(max_size=5) | st.just("rm -rf /"), max_size=2
        ),
        "traceId": st.none() | st.just("t-1"),
        "aggregateRowsAffected": ROWS,
        "policy_bundle_id": st.sampled_from([None, "sluice.default", "other"]),
    }
)
OUTCOMES = st.fixed_dictionaries(
    {
        "action_id": st.sampled_from(["a", "b", "never"]),
        "rows_affected": ROWS.filter(lambda rows: rows is not None),
        "reported_by": st.sampled_from(["operator", "door", "stranger"]),
    }
)
STEPS = st.lists(
    st.tuples(st.sampled_from(["evaluate", "evaluate", "fault"]), ACTIONS | OUTCOMES)
    | st.tuples(st.just("wait"), st.sampled_from([MINUTE, 60 * MINUTE, 24 * 60 * MINUTE]))
    | st.tuples(st.just("unread"), st.sampled_from(["gate.actions.proposed", "gate.outcomes"]))
    | st.tuples(st.just("unreadable"), st.binary(max_size=9)),
    max_size=12,
)


def step(session: Session, kind: str, given_: Any) -> Decision | None:
    if kind == "wait":
        session.now += given_
        return session.point.expire(session.state.key, session.state, session.now)
    if kind == "unread":
        return session.point.unread(InputRecord(given_, 3, session.offset, session.now, b"s-1", b"?"))
    if kind == "unreadable":
        input_record = InputRecord("gate.outcomes", 3, session.offset, session.now, given_, given_)
        return session.point.unreadable(input_record, Unreadable("not_json", "$.a", "no"))
    if "reported_by" not in given_:
        topic, record = "gate.actions.proposed", action(**given_)
    else:
        topic, record = "gate.outcomes", outcome(**given_)
        record = (
            sign(record) if given_["reported_by"] == "door" and given_["rows_affected"] < 2**53 else record
        )
    if kind == "evaluate":
        return session.evaluate(topic, record)
    input_record = session.input_record(topic, record)
    return session.point.fault(input_record, read_record(topic, input_record.value), session.state, "why")


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """The bundle compiles for seconds: not within an example, which has a deadline."""
    bundle()


@given(STEPS)
def test_every_record_validates_and_goes_to_its_topic(steps: list[tuple[str, Any]]) -> None:
    session, chain = Session(), Chain(3)
    for kind, given_ in steps:
        decision = step(session, kind, given_)
        for record in decision.records if decision else []:
            written = json.loads(chain.link(record.body))
            model = getattr(records, record.kind)
            assert model in BY_NAME[record.topic].records
            model.model_validate(written)
            assert written["decided_at"] >= "2025-11-21T13:00:00.000Z"
        session.state.apply(decision.session if decision else ())
    assert session.now >= START


def test_ids_of_one_partition_never_meet() -> None:
    session, seen = Session(), []
    session.report(action_id="a")
    for fields in ({"action_id": "a"}, {"action_id": "a"}, {"toolName": "erase"}, {"agent_id": "nobody"}):
        for record in session.propose(**fields).records:
            names = ("escalation_id", "outcome_id", "refusal_id", "verdict_id")
            seen.append(next(record.body[name] for name in names if name in record.body))
    assert len(set(seen)) == len(seen) == 6
