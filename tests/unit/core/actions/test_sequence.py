"""Gate "sequence": from rules and what happened to outcomes, and what is remembered for it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.core.actions.sequence import MOST_DENIALS, MOST_RULES, SequenceMemory
from sluice.core.foundation.errors import BundleError
from sluice.core.state.open_memory import OpenMemory
from sluice.core.state.remembered import GATE_BYTES
from sluice.core.state.session import SessionState, session_key, who
from tests.unit.core.actions.sequence_scene import (
    READ,
    SECRET_OUT,
    SEND,
    Model,
    Step,
    last,
    make_sequenced,
    run,
    session,
)
from tests.unit.core.scene import LIMITS, MINUTE, relaxations, verdict_of

if TYPE_CHECKING:
    from sluice.core.state.session import SessionChange

OTHER = {**SECRET_OUT, "id": "other"}
ESCALATING = {**SECRET_OUT, "outcome": "escalate"}
DENIED_TOO = {**SECRET_OUT, "first": "action.tool == 'denied'", "first_may_be_denied": True}
DENIED_NOT = {**DENIED_TOO, "first_may_be_denied": False}
AFTER_WAITING = {**SECRET_OUT, "first": "action.tool == 'wait'"}
BROKEN = "forbidden_sequence: secret-then-out: what was read from the vault must not leave"


@pytest.mark.parametrize(
    ("rule", "steps", "expected"),
    [
        (SECRET_OUT, [(0, SEND)], ("ALLOW", None)),
        (SECRET_OUT, [(0, READ), (1, SEND)], ("BLOCK", BROKEN)),
        (SECRET_OUT, [(0, SEND), (1, READ)], ("ALLOW", None)),
        (SECRET_OUT, [(0, READ), (10_000, SEND)], ("BLOCK", BROKEN)),
        (SECRET_OUT, [(0, READ), (10_001, SEND)], ("ALLOW", None)),
        (SECRET_OUT, [(0, READ), (6000, READ), (6000, SEND)], ("BLOCK", BROKEN)),
        (SECRET_OUT, [(0, READ), (1, {"toolName": "find"}), (1, SEND)], ("BLOCK", BROKEN)),
        (SECRET_OUT, [(0, READ | {"agent_id": "chief"}), (1, SEND)], ("ALLOW", None)),
        (SECRET_OUT, [(0, READ | {"agent_id": "other"}), (1, SEND)], ("ALLOW", None)),
        (SECRET_OUT, [(0, READ | {"mode": "standard"}), (1, SEND)], ("BLOCK", BROKEN)),
        (ESCALATING, [(0, READ), (1, SEND)], ("ESCALATE", BROKEN)),
        (AFTER_WAITING, [(0, {"toolName": "wait"}), (1, SEND)], ("BLOCK", BROKEN)),
        (DENIED_NOT, [(0, {"toolName": "denied"}), (1, SEND)], ("ALLOW", None)),
        (DENIED_NOT, [(0, {"toolName": "denied", "mode": "standard"}), (1, SEND)], ("BLOCK", BROKEN)),
        (DENIED_TOO, [(0, {"toolName": "denied"}), (1, SEND)], ("BLOCK", BROKEN)),
    ],
)  # fmt: skip
def test_what_may_not_follow_what(rule: dict[str, Any], steps: list[Step], expected: tuple[str, Any]) -> None:
    assert last(session(rule), *steps) == expected


def test_the_verdict_names_the_earlier_action_and_what_was_remembered() -> None:
    of = session(SECRET_OUT)
    first, second = run(of, [(0, READ), (7, SEND)])
    began = of.now - 7
    assert "remembered" not in first["session"]
    (gate,) = [one for one in second["gateResults"] if one["gate"] == "sequence"]
    (violation,) = gate["detail"]["violations"]
    rule = {"id": "secret-then-out", "reason": SECRET_OUT["reason"]}
    assert violation == {**rule, "first": "a-0", "after_ms": 7, "undecided": False}
    kept = {"firsts": {"secret-then-out": [[began, "a-0", True]]}, "denials": []}
    assert second["session"]["remembered"] == {"sequence": kept}
    SequenceMemory.model_validate(kept)


def test_a_rule_that_blocks_goes_before_one_that_escalates_and_both_are_told() -> None:
    other = {**ESCALATING, "id": "first", "reason": "and another"}
    (_, verdict) = run(session(other, SECRET_OUT), [(0, READ), (1, SEND)])
    assert (verdict["outcome"], verdict["blockReason"]) == ("BLOCK", BROKEN)
    (gate,) = [one for one in verdict["gateResults"] if one["gate"] == "sequence"]
    assert [one["id"] for one in gate["detail"]["violations"]] == ["first", "secret-then-out"]


@pytest.mark.parametrize("field", ["first", "then"])
def test_what_cannot_be_decided_counts_and_escalates(field: str) -> None:
    rule = {**SECRET_OUT, field: "action.parameters.missing == 1"}
    verdict = run(session(rule), [(0, READ), (1, SEND)])[1]
    assert verdict["outcome"] == "ESCALATE"
    assert verdict["blockReason"].startswith("inconclusive: sequence secret-then-out")


def test_a_certain_first_is_not_hidden_by_a_later_undecided_one() -> None:
    rule = {**SECRET_OUT, "first": "action.parameters.secret == true"}
    secret: dict[str, Any] = READ | {"parameters": {"secret": True}}
    unknown: dict[str, Any] = READ | {"parameters": {}}
    harmless = SEND | {"parameters": {"secret": False}}
    of = session(rule)
    assert last(of, (0, secret), (1, unknown), (1, harmless)) == ("BLOCK", BROKEN)


def test_gate_1s_reading_can_be_spoken_of() -> None:
    rule = {**SECRET_OUT, "first": "'net.out' in reading.patterns && reading.complete"}
    pattern = {"id": "net.out", "reason": "r", "severity": "info", "source": "here", "pattern": "gopher:",
               "languages": ["value", "prose", "shell", "code"]}  # fmt: skip
    of = session(rule, patterns={"text": [pattern]})
    read = READ | {"parameters": {"path": "gopher://vault"}}
    assert last(of, (0, read), (1, SEND)) == ("BLOCK", BROKEN)
    assert last(session(rule, patterns={"text": [pattern]}), (0, READ), (1, SEND)) == ("ALLOW", None)


DENIED, IN_SHADOW = {"toolName": "denied"}, {"agent_id": "other"}
FREEZE = {"denials": 2, "within_ms": 10_000}


@pytest.mark.parametrize(
    ("steps", "frozen"),
    [
        ([(0, DENIED), (1, {})], False),
        ([(0, DENIED), (1, DENIED), (1, {})], True),
        ([(0, DENIED), (5000, DENIED), (4999, {})], True),
        ([(0, DENIED), (5000, DENIED), (5000, {})], False),
        ([(0, DENIED), (10_000, DENIED), (1, {})], False),
        ([(0, DENIED), (1, DENIED), (1, {}), (9998, {})], False),
        ([(0, DENIED), (1, DENIED), (1, DENIED), (9998, {})], False),
        ([(0, DENIED), (1, DENIED | {"action_id": "a-0"}), (1, {})], False),
        ([(0, DENIED), (1, {"action_id": "a-0"}), (1, {})], False),
        ([(0, DENIED), (1, DENIED | {"agent_id": "chief"}), (1, {})], False),
        ([(0, DENIED | {"mode": "standard"}), (1, DENIED | {"mode": "standard"}), (1, {})], True),
        ([(0, DENIED | IN_SHADOW), (1, DENIED | IN_SHADOW), (1, IN_SHADOW)], True),
        ([(0, {"toolName": "wait"}), (1, {"toolName": "wait"}), (1, {})], False),
    ],
)  # fmt: skip
def test_denials_freeze_an_agent_until_their_window_ends(steps: list[Step], frozen: bool) -> None:
    expected = ("BLOCK", "frozen_by_denials: 2 within 10000 ms") if frozen else ("ALLOW", None)
    assert last(session(freeze=FREEZE), *steps) == expected


def test_a_broken_rule_is_a_denial_too_and_the_freeze_says_when_it_ends() -> None:
    of = session(SECRET_OUT, freeze=FREEZE)
    *_, verdict = run(of, [(0, READ), (1, SEND), (1, SEND), (1, {})])
    (gate,) = [one for one in verdict["gateResults"] if one["gate"] == "sequence"]
    assert gate["detail"] == {"frozen_until_ms": of.now - 2 + 10_000, "denials": 2}


def test_another_session_of_the_agent_is_not_frozen() -> None:
    of = session(SECRET_OUT, freeze=FREEZE)
    run(of, [(0, READ), (1, DENIED), (1, DENIED)])
    of.state = SessionState(session_key("s-2"))
    assert last(of, (1, SEND)) == ("ALLOW", None)


def test_a_bundle_that_does_not_name_the_gate_remembers_and_records_nothing() -> None:
    of = session(SECRET_OUT, freeze=FREEZE, stages=["controls", "rules", "tier_auth"])
    found = run(of, [(0, READ), (1, DENIED), (1, DENIED), (1, SEND)])
    assert found[-1]["outcome"] == "ALLOW"
    assert all("remembered" not in one["session"] for one in found)
    assert all(not one.gates for account in of.state.accounts.values() for one in account.agents.values())


def test_it_is_remembered_beyond_the_window_of_action_ids_and_then_forgotten() -> None:
    """The window of ids is an hour here; a rule may look back a day, until the session folds."""
    rule = {**SECRET_OUT, "within_ms": 2 * 60 * MINUTE}
    step = 61 * MINUTE
    assert last(session(rule), (0, READ), (step, SEND)) == ("BLOCK", BROKEN)
    assert last(session(rule), (0, READ), (step, {}), (59 * MINUTE, SEND)) == ("BLOCK", BROKEN)
    of = session(rule)
    run(of, [(0, READ), (4 * 60 * MINUTE, {})])
    assert [one.gates for one in of.state.accounts["acme"].agents.values()] == [{}]


def test_a_session_that_folds_forgets_and_one_that_makes_room_does_not() -> None:
    of = session({**SECRET_OUT, "within_ms": 24 * 60 * MINUTE})
    run(of, [(0, READ)])
    ((agent, memory),) = of.state.accounts["acme"].agents.items()
    changes: list[SessionChange] = []
    OpenMemory(memory, who("acme", agent), changes, 0).forget_settled()
    of.state.apply(changes)
    assert memory.gates
    assert last(of, (LIMITS.idle_timeout_ms, SEND)) == ("ALLOW", None)


def test_an_agent_without_room_is_denied_and_nothing_more_is_kept_of_it() -> None:
    of = session(freeze={"denials": 60, "within_ms": 10_000}, limits=replace(LIMITS, max_recent_actions=2))
    found = run(of, [(1, DENIED)] * 5)
    assert [one["blockReason"] for one in found[2:]] == ["session_capacity"] * 3
    assert len(found[-1]["session"]["remembered"]["sequence"]["denials"]) == 2


TOOL = st.sampled_from(["find", "read_secret", "send", "wait", "denied"])
OWN = {"wait": "ESCALATE", "denied": "BLOCK"}
RULES = st.lists(
    st.tuples(TOOL, TOOL, st.integers(1, 9), st.sampled_from(["block", "escalate"]), st.booleans()),
    max_size=3,
)
AGENTS = ("operator", "chief")


@settings(deadline=None)
@given(
    RULES,
    st.none() | st.tuples(st.integers(1, 3), st.integers(1, 9)),
    st.lists(
        st.tuples(st.integers(0, 4), TOOL, st.sampled_from(AGENTS), st.booleans(), st.booleans()), max_size=14
    ),
)
def test_the_gate_does_what_the_plain_model_does(
    drawn: list[tuple[str, str, int, str, bool]], freeze: tuple[int, int] | None, steps: list[Any]
) -> None:
    """Each action may be asked a second time, as a repeat; the state is stored and read back after each."""
    named = [(f"r{place}", *one) for place, one in enumerate(drawn)]
    written = [
        {
            "id": name,
            "reason": "r",
            "first": f"action.tool == '{first}'",
            "then": f"action.tool == '{then}'",
            "within_ms": within,
            "outcome": outcome,
            "first_may_be_denied": denied,
        }
        for name, first, then, within, outcome, denied in named
    ]
    frozen_by = None if freeze is None else {"denials": freeze[0], "within_ms": freeze[1]}
    of = session(*written, freeze=frozen_by, limits=replace(LIMITS, max_recent_actions=99))
    models = {agent: Model(named, freeze) for agent in AGENTS}
    for place, (later, tool, agent, standard, again) in enumerate(steps):
        of.now += later
        fields = {"action_id": f"a-{place}", "agent_id": agent, "toolName": tool, "rows_affected": 0,
                  "mode": "standard" if standard else "high_stakes"}  # fmt: skip
        own = OWN.get(tool, "ALLOW")
        expected = models[agent].decide(of.now, tool, own, held_up=not standard)
        assert of.verdict(**fields)["outcome"] == expected, (place, fields)
        if again:
            assert of.verdict(**fields)["outcome"] == expected
        of.state = SessionState.read(of.state.key, of.state.entries())


def test_what_is_remembered_is_bounded_whatever_comes() -> None:
    rules = [
        {**SECRET_OUT, "id": f"r{place:063}", "first": "true", "then": "false"} for place in range(MOST_RULES)
    ]
    freeze = {"denials": MOST_DENIALS, "within_ms": 86_400_000}
    of = session(*rules, freeze=freeze, limits=replace(LIMITS, max_recent_actions=999))
    for place in range(MOST_DENIALS + 9):
        of.verdict(action_id=f"{place:064}", toolName="denied", mode="standard")
    (memory,) = of.state.accounts["acme"].agents.values()
    until, value, size = memory.gates["sequence"]
    assert len(value["denials"]) == MOST_DENIALS
    assert size == len(orjson.dumps(value)) <= 8192
    assert len(orjson.dumps({"sequence": [until, value, size]})) <= size + GATE_BYTES
    assert memory.size >= len(orjson.dumps([memory.recent, memory.gates]))


@pytest.mark.parametrize(
    ("part", "place"),
    [
        ({"rules": [{**SECRET_OUT, "first": "action.tol == 'x'"}]}, r"\$\.sequence\.rules\[0\]\.first: "),
        ({"rules": [SECRET_OUT, OTHER | {"then": "1"}]}, r"\$\.sequence\.rules\[1\]\.then: "),
        ({"rules": [SECRET_OUT, SECRET_OUT]}, r"\$\.sequence: .*same id"),
        ({"rules": [{**SECRET_OUT, "within_ms": 86_400_001}]}, r"\$\.sequence\.rules\[0\]\.within_ms"),
        ({"rules": [{**SECRET_OUT, "outcome": "allow"}]}, r"\$\.sequence\.rules\[0\]\.outcome"),
        ({"freeze": {"denials": 0, "within_ms": 1}}, r"\$\.sequence\.freeze\.denials"),
        ({"freeze": {"denials": 65, "within_ms": 1}}, r"\$\.sequence\.freeze\.denials"),
        ({"thaw": 1}, r"\$\.sequence\.thaw"),
    ],
)  # fmt: skip
def test_a_wrong_part_is_refused_with_its_place(part: dict[str, Any], place: str) -> None:
    with pytest.raises(BundleError, match=f"^{place}"):
        make_sequenced(sequence=part)


@pytest.mark.parametrize(
    ("after", "sentences"),
    [
        ({"rules": [SECRET_OUT], "freeze": FREEZE}, []),
        ({"rules": [{**SECRET_OUT, "within_ms": 10_001, "reason": "in other words"}], "freeze": FREEZE}, []),
        ({"rules": [SECRET_OUT, OTHER], "freeze": {"denials": 1, "within_ms": 20_000}}, []),
        ({}, ["the sequence rule secret-then-out is gone", "denials no longer freeze an agent"]),
        ({"rules": [{**SECRET_OUT, "within_ms": 9}], "freeze": FREEZE},
         ["the sequence rule secret-then-out looks back 9 ms, not 10000"]),
        ({"rules": [ESCALATING], "freeze": FREEZE}, ["the sequence rule secret-then-out escalates only"]),
        ({"rules": [DENIED_NOT], "freeze": FREEZE},
         ["the sequence rule secret-then-out has other conditions, which may hold for less"]),
        ({"rules": [SECRET_OUT], "freeze": {"denials": 3, "within_ms": 10_000}},
         ["an agent is frozen by 3 denials within 10000 ms, not by 2 denials within 10000 ms"]),
    ],
)  # fmt: skip
def test_what_a_revision_takes_less_strictly(after: dict[str, Any], sentences: list[str]) -> None:
    pair = make_sequenced(SECRET_OUT, freeze=FREEZE), make_sequenced(sequence=after)
    assert [one.sentence for one in relaxations(*pair)] == sentences


def test_a_gate_is_remembered_only_for_registered_agents() -> None:
    of = session(freeze=FREEZE)
    found = run(of, [(1, {"agent_id": "nobody"})] * 3)
    assert {one["blockReason"] for one in found} == {"unknown_agent: nobody"}
    assert b"denials" not in b"".join(of.state.entries().values())
    assert verdict_of(of.propose(action_id="own", agent_id="operator"))["outcome"] == "ALLOW"
    json.loads(json.dumps(found))
