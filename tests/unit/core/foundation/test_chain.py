"""The chain that the writer makes, recomputed by hand with the reference canonical form."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.foundation.chain import GENESIS, PLACE, Chain
from sluice.core.foundation.errors import CanonicalError
from tests.unit.core.scene import Session

BODIES = st.lists(
    st.dictionaries(
        st.text("abcdefg_"),
        st.integers(-9, 9) | st.text() | st.none() | st.sampled_from([0.5, 1.0]),
        max_size=5,
    ),
    min_size=1,
    max_size=6,
)


def recompute(values: list[bytes], partition: int) -> None:
    head = GENESIS
    for place, value in enumerate(values, start=1):
        record = json.loads(value)
        claimed = record.pop("event_hash")
        assert (record["partition"], record["sequence"], record["prev_hash"]) == (partition, place, head)
        assert claimed == "sha256:" + hashlib.sha256(rfc8785.dumps(record)).hexdigest()
        head = claimed


@given(BODIES, st.integers(0, 9))
def test_every_link_names_the_one_before(bodies: list[dict[str, Any]], partition: int) -> None:
    chain = Chain(partition)
    recompute([chain.link(body) for body in bodies], partition)


@given(BODIES)
def test_a_body_with_room_for_its_place_is_linked_as_any_other(bodies: list[dict[str, Any]]) -> None:
    one, other = (Chain(0, decider_version="v") for _ in range(2))
    for body in bodies:
        whole = {name: value if value != 1.0 else 1 for name, value in body.items()}
        room = dict(sorted({**whole, **dict.fromkeys(PLACE)}.items()))
        assert one.link(room, ordered=True) == other.link(whole)


def test_the_records_of_a_session_form_one_chain() -> None:
    session, chain, values = Session(), Chain(3), []
    decisions = [
        session.propose(),
        session.propose(action_id="act-2", toolName="erase", rows_affected=2**60),
        session.report(),
        session.propose(agent_id="nobody", action_id="act-3"),
        session.propose(toolName="erase", rows_affected=3, action_id="act-4"),
    ]
    for decision in decisions:
        values += [chain.link(record.body) for record in decision.records]
    recompute(values, 3)
    assert chain.sequence == len(values) == 6


def test_a_chain_goes_on_where_it_was_left() -> None:
    first = Chain(0)
    values = [first.link({"a": 1})]
    second = Chain(0, first.sequence, first.head)
    recompute([*values, second.link({"a": 2})], 0)


def test_a_record_that_cannot_be_written_leaves_no_gap() -> None:
    chain = Chain(0)
    chain.link({"a": 1})
    before = (chain.sequence, chain.head)
    with pytest.raises(CanonicalError):
        chain.link({"a": 2**60})
    assert (chain.sequence, chain.head) == before


@pytest.mark.parametrize("version", ["sha256:77", None])
def test_a_record_names_the_code_that_decided_it_where_the_chain_knows_it(version: str | None) -> None:
    written = json.loads(Chain(0, decider_version=version).link({"a": 1}))
    assert [name for name in written if name == "decider_version"] == ["decider_version"] * bool(version)
    assert written.get("decider_version") == version
