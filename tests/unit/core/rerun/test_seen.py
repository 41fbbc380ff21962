"""What a decision saw of state is written into its record and read back from it, whole."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.actions import verdict as of_actions
from sluice.core.memory import memory_record as of_writes
from sluice.core.memory.plan import NOTHING_SEEN, Parent, RememberedWrite, WriteSeen
from sluice.core.metadata.provenance import Resolution
from sluice.core.retrieval import quality_record as of_items
from sluice.core.state.acknowledgement import acknowledgement
from sluice.core.state.history import History
from sluice.core.state.recent_retrieval import ReadTally
from sluice.core.state.remembered import make_known_action
from sluice.core.state.session_view import ActionSeen
from sluice_topics.records import ProposedMemoryWrite
from tests.unit.core.rerun.reruns import Case, memory_write

if TYPE_CHECKING:
    from collections.abc import Mapping

HEX = st.text("0123456789abcdef", min_size=64, max_size=64)
COUNTS = st.integers(0, 2**53 - 1) | st.integers(2**53, 2**70)
FLAGS = st.lists(
    st.sampled_from(["stale", "low_confidence", "content_suspect"]), unique=True, min_size=1
).map(sorted)
ITEMS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)
TYPES = st.none() | st.sampled_from(["user", "system", "external"])
IDS = st.integers(0, 5).map("memory:gate.memory.writes.proposed:3:{}".format)
TRUST = st.none() | st.sampled_from([-1, 0, 0.25, 1])
ACTIONS_SEEN = st.builds(
    ActionSeen,
    COUNTS,
    st.integers(0, 2**53 - 1),
    st.none()
    | st.builds(make_known_action, HEX, st.integers(0, 2**40), st.sampled_from(["ALLOW", "ALLOW/BLOCK"])),
    st.booleans(),
    st.dictionaries(ITEMS, FLAGS, max_size=4),
    st.none() | ITEMS,
    st.dictionaries(st.just("sequence"), st.just({"firsts": {}, "denials": [1]})),
    st.dictionaries(
        st.sampled_from(["external", "flagged", "held"]),
        st.builds(ReadTally, st.integers(1, 2**53 - 1), st.integers(0, 2**44), ITEMS),
    ),
)
WRITES_SEEN = st.builds(
    WriteSeen,
    st.none()
    | st.builds(
        RememberedWrite, HEX, st.integers(0, 2**40), st.just("allow"), st.sampled_from([None, "reject"])
    ),
    st.just(True),
    st.builds(History, TYPES, st.integers(0, 99), st.integers(0, 99), st.integers(0, 999)),
    TYPES,
    st.none() | st.integers(0, 2**44),
    st.lists(st.builds(Parent, IDS, TRUST), unique_by=lambda one: one.memory_id, max_size=4).map(tuple),
)
RESOLUTIONS = st.builds(
    Resolution,
    st.sampled_from(["resolved", "unresolvable"]),
    st.none() | HEX.map("sha256:{}".format),
    st.sampled_from(["http", "kafka"]),
    st.integers(0, 2**44),
    st.none() | st.text(st.characters(codec="utf-8"), max_size=9),
)


def convert_to_wire(recorded: object) -> Any:
    return json.loads(json.dumps(recorded))


@given(ACTIONS_SEEN, st.lists(ITEMS, max_size=3), st.none() | COUNTS)
def test_what_an_action_saw_comes_back_from_its_verdict(
    seen: ActionSeen, named: list[str], counted: int | None
) -> None:
    flags = acknowledgement(seen.flags, named)
    session = convert_to_wire(of_actions.record_session(seen, flags, counted))
    again = of_actions.read_recorded_seen({"session": session})
    assert again == seen
    assert (
        convert_to_wire(of_actions.record_session(again, acknowledgement(again.flags, named), counted))
        == session
    )
    moved = int(session["after"]["aggregateRowsAffected"]) - seen.rows
    actions = session["after"]["aggregateActionCount"] - seen.actions
    assert (moved, actions) == ((0, 0) if counted is None else (counted, 1))


@given(WRITES_SEEN)
def test_what_a_memory_write_saw_comes_back_from_its_decision(seen: WriteSeen) -> None:
    write = propose([one.memory_id for one in seen.parents])
    recorded = convert_to_wire(of_writes.record_seen(seen))
    assert of_writes.read_seen({"seen": recorded}, write) == seen


def propose(parents: list[str]) -> ProposedMemoryWrite:
    return ProposedMemoryWrite.model_validate_json(json.dumps(memory_write(derived_from=parents)))


def test_parents_are_those_of_the_write_whatever_a_decision_says() -> None:
    one, other = (f"memory:gate.memory.writes.proposed:3:{number}" for number in (1, 2))
    recorded = of_writes.record_seen(NOTHING_SEEN) | {"parents": [{"memory_id": other, "trust": 1}]}
    found = of_writes.read_seen({"seen": recorded}, propose([one]))
    assert found.parents == (Parent(one, None),)


@given(RESOLUTIONS, st.none() | st.just("acme"))
def test_where_a_reference_led_comes_back_from_the_decision_on_its_item(
    resolution: Resolution, tenant: str | None
) -> None:
    fields = {"seen": convert_to_wire(of_items.record_resolution(resolution)), "tenant_id": tenant}
    found = of_items.read_resolutions({**fields, "provenance_uri": "HTTPS://Crm.example:443/a"})
    assert [*found.values()] == [resolution]
    assert [uri for _, uri in found] == ["https://crm.example/a"]
    assert of_items.read_resolutions({**fields, "seen": None, "provenance_uri": "x"}) == {}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("room",), False),
        (("before",), {"aggregateRowsAffected": 3, "aggregateActionCount": 1}),
        (("after",), {"aggregateRowsAffected": 0, "aggregateActionCount": 0}),
        (("flags",), {"acknowledged": ["item:stale"], "outstanding": []}),
        (("disputed",), "act-0"),
        (("remembered",), {"sequence": {"firsts": {}, "denials": [1]}}),
        (("known",), {"digest": "sha256:" + "0" * 64, "offset": 0, "mark": "ALLOW"}),
    ],
    ids=lambda one: one[0] if isinstance(one, tuple) else "",
)
def test_a_verdict_that_says_something_else_of_its_session_is_not_the_same(
    path: tuple[str], value: Mapping[str, Any] | bool | str
) -> None:
    of = Case()
    verdict = of.propose(rows_affected=2)
    forged = {**verdict, "session": {**verdict["session"], path[0]: value}}
    assert of.rerun(verdict).status == "identical"
    assert of.rerun(forged).status == "different"
