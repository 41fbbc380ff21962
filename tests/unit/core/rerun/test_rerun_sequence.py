"""What the sequence gate remembers is in the verdict: a rerun judges on it, and a recount comes to the
same."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from load.attacks.forging import change
from load.attacks.recorded_installation import RecordedInstallation
from sluice.core.actions.stages import load_bundle
from sluice.core.decide.replay import Replay
from sluice.core.foundation.input_record import InputRecord
from sluice_topics.catalog import ACTIONS, VERDICTS
from tests.unit.core.actions.sequence_scene import NO_DENIED, SECRET_OUT, STAGES, TOOLS
from tests.unit.core.rerun.reruns import Case, document
from tests.unit.core.scene import START, Flawed, action, point

if TYPE_CHECKING:
    from sluice.core.rerun.rerun_result import Rerun

FREEZE = {"denials": 2, "within_ms": 9000}
PART = {"rules": [SECRET_OUT], "freeze": FREEZE}
BUNDLE = document(patterns={}, stages=STAGES, rules=[NO_DENIED], sequence=PART)
OF_THE_INSTALLATION = {
    "stages": STAGES,
    "rules": [{**NO_DENIED, "condition": "action.parameters.k == 7"}],
    "sequence": {
        "rules": [{**SECRET_OUT, "first": "action.parameters.k == 3", "then": "action.parameters.k == 4"}],
        "freeze": FREEZE,
    },
}
STEPS = st.lists(
    st.tuples(
        st.integers(0, 4000),
        st.sampled_from(["find", "read_secret", "send", "wait", "denied"]),
        st.sampled_from(["operator", "chief", "other"]),
        st.sampled_from(["standard", "high_stakes"]),
        st.integers(0, 12),
    ),
    max_size=12,
)


@settings(deadline=None)
@given(STEPS)
def test_every_verdict_is_executed_again_to_the_same(steps: list[tuple[int, str, str, str, int]]) -> None:
    case = Case(TOOLS, BUNDLE)
    for later, tool, agent, mode, name in steps:
        case.now += later
        case.propose(action_id=f"a-{name}", toolName=tool, agent_id=agent, mode=mode)
    assert {one.status for one in case.rerun_all()} <= {"identical"}


def make_broken(case: Case) -> list[dict[str, Any]]:
    return [
        case.propose(action_id=f"a-{place}", toolName=tool)
        for place, tool in enumerate(("read_secret", "send"))
    ]


def test_a_rerun_judges_on_what_was_remembered_then() -> None:
    case = Case(TOOLS, BUNDLE)
    _, verdict = make_broken(case)
    assert verdict["outcome"] == "BLOCK"
    forgotten = {**verdict, "session": {**verdict["session"]}}
    del forgotten["session"]["remembered"]
    found = case.rerun(forgotten)
    assert found.status == "different"
    assert {one.field for one in found.differences} >= {"outcome"}


def installation() -> RecordedInstallation:
    made = RecordedInstallation(tables=OF_THE_INSTALLATION)
    for place, rows in enumerate((3, 1, 4, 7, 1, 3, 4)):
        fields = {"action_id": f"a-{place}", "agent_id": "operator", "session_id": "s-1", "toolName": "run"}
        made.take(ACTIONS, {**fields, "parameters": {"k": rows}, "mode": "standard"})
    return made


def remember(of: RecordedInstallation) -> list[Any]:
    verdicts = [json.loads(one.value) for one in of.records if one.topic == VERDICTS]
    return [one["session"].get("remembered") for one in verdicts]


def test_a_recount_of_the_session_comes_to_what_is_recorded() -> None:
    made = installation()
    assert made.examine(made.records) == []


def test_a_false_memory_is_found_by_the_recount() -> None:
    made = installation()
    assert remember(made)[-1]["sequence"]["denials"]
    made.records = change(VERDICTS, 6, session__remembered={"sequence": {"firsts": {}, "denials": []}})(made)
    assert [one for one in made.examine(made.records) if "session" in one]


def statuses(found: list[Rerun]) -> set[str]:
    return {one.status for one in found}


def test_a_verdict_from_before_the_gate_is_executed_again_as_it_was() -> None:
    case = Case(TOOLS, document(patterns={}, rules=[NO_DENIED]))
    for verdict in make_broken(case):
        assert "remembered" not in verdict["session"]
    assert statuses(case.rerun_all()) == {"identical"}


def test_a_fault_of_the_core_says_what_was_remembered_and_counts_for_nothing() -> None:
    policy = json.loads(BUNDLE) | {"stages": [*STAGES[:-1], "flawed", STAGES[-1]]}
    where = point(*TOOLS, policy=load_bundle(json.dumps(policy).encode()), added=[Flawed("find")])
    replay = Replay(where)
    found = []
    for place, tool in enumerate(("read_secret", "find", "find", "send")):
        raw = json.dumps(action(action_id=f"a-{place}", toolName=tool)).encode()
        input_record = InputRecord(ACTIONS, 3, place, START + place, b"s-1", raw)
        found.append(next(one.body for one in replay.take(input_record).records if one.kind == "Verdict"))
    assert [one["blockReason"] for one in found[1:3]] == ["internal_error"] * 2
    firsts = {"secret-then-out": [[START, "a-0", True]]}
    assert found[2]["session"]["remembered"] == {"sequence": {"firsts": firsts, "denials": []}}
    assert found[3]["blockReason"].startswith("forbidden_sequence")
