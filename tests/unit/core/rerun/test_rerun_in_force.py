"""Mend 5: a rerun takes bundle and entries from what was in force then, not from what the record names."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from sluice.core.actions.stages import list_shipped_stages
from sluice.core.decide.decision_point import DecisionPoint
from sluice.core.decide.replay import decide
from sluice.core.foundation.chain import Chain
from sluice.core.foundation.input_record import InputRecord
from sluice.core.registry.keys import Roots
from sluice.core.rerun.evidence import PolicyEvidence
from sluice.core.rerun.policy_then import DecisionSettings, PointsUnder, PolicyThen
from sluice.core.rerun.rerunner import CHANGED, NO_ROOTS, NOT_IN_FORCE, Rerunner
from sluice.core.rerun.walk import read_decision
from sluice.core.state.session import SessionState, session_key
from sluice.core.trust.in_force import PolicyReducer
from sluice_demo.throwaway_trust import ThrowawayTrust
from sluice_topics.catalog import ACTIONS, VERDICTS
from tests.unit.core.rerun.reruns import document
from tests.unit.core.scene import LIMITS, START, action, entry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluice.core.policy.policy import Policy
    from sluice.core.rerun.rerun_result import Rerun
    from sluice_demo.throwaway_trust import ControlRecord

MINUTE = 60_000
LAG = 10_000
TRUST = ThrowawayTrust()
ROOTS = Roots([TRUST.root_key])
STAGES = list_shipped_stages()
ENTRIES = [
    entry("agent", "operator", tenant_id="acme", tier="T3"),
    entry("tool", "find", tier="T1", action_type="DATABASE_READ", reversible=True),
]
FREEZE: dict[str, Any] = {"subject": "agent", "subject_id": "operator", "reason": "under investigation"}
OF = DecisionSettings(STAGES, ROOTS, "sluice.default", "sluice.quality", "test", LIMITS, LAG, "here")


def bundle(revision: int, threshold: int) -> ControlRecord:
    return TRUST.sign_bundle(document(revision=revision, irreversible_row_threshold=threshold, cases=[]))


def _point(policy: Policy) -> DecisionPoint:
    return DecisionPoint(policy, STAGES, LIMITS, stopwatch=lambda: 0, environment="test")


@dataclass
class TestInstallation:
    """Control topics that fill up, and decisions under what they say."""

    control: list[InputRecord] = field(default_factory=list)
    now: int = START

    def publish(self, *records: ControlRecord) -> None:
        for topic, key, value in records:
            offset = sum(one.topic == topic for one in self.control)
            self.control.append(InputRecord(topic, 0, offset, self.now, key, value))

    def decide(
        self, under: list[InputRecord] | None = None, **fields: Any
    ) -> tuple[dict[str, Any], InputRecord]:
        """A verdict on an action that comes now; `under`: the control records of another time."""
        in_force = PolicyReducer(ROOTS, "sluice.default", _point)
        point = in_force.first(self.control if under is None else under)
        input_record = InputRecord(ACTIONS, 3, 0, self.now, b"s-1", json.dumps(action(**fields)).encode())
        decision = decide(point, input_record, SessionState(session_key("s-1")))
        body = next(one.body for one in decision.records if one.kind == "Verdict")
        return read_decision(VERDICTS, Chain(3, decider_version="here").link(body)), input_record

    def rerun(
        self,
        verdict: dict[str, Any],
        input_record: InputRecord,
        written_ms: int | None = None,
        *,
        told: bool = True,
    ) -> Rerun:
        evidence = PolicyEvidence()
        for one in self.control:
            evidence.add(one.topic, one.value)
        stages = {one.name: one for one in STAGES}
        then = PolicyThen(self.control, ROOTS, OF) if told else None
        rerunner = Rerunner(evidence, stages.__getitem__, "here", then)
        return rerunner.rerun(verdict, input_record, written_ms or input_record.timestamp_ms + 5)


@pytest.fixture
def installation() -> TestInstallation:
    """A lax bundle, replaced an hour later by a strict one; half an hour after that the agent is frozen."""
    made = TestInstallation()
    made.publish(TRUST.make_approver(), *TRUST.sign_entries(ENTRIES), bundle(1, 10**9))
    made.now += 60 * MINUTE
    made.publish(bundle(2, 10))
    made.now += 30 * MINUTE
    made.publish(*TRUST.sign_entries([entry("freeze", "f", **FREEZE)]))
    made.now += 30 * MINUTE
    return made


def make_at(installation: TestInstallation, minutes: int) -> list[InputRecord]:
    return [one for one in installation.control if one.timestamp_ms <= START + minutes * MINUTE]


@pytest.mark.parametrize("minutes", [30, 75, 120])
def test_what_was_decided_under_what_was_in_force_is_identical(
    installation: TestInstallation, minutes: int
) -> None:
    installation.now = START + minutes * MINUTE
    found = installation.rerun(*installation.decide(make_at(installation, minutes)))
    assert (found.status, found.not_checked) == ("identical", ())


def test_an_older_bundle_is_a_difference_that_names_it(installation: TestInstallation) -> None:
    forged, input_record = installation.decide(make_at(installation, 30))
    found = installation.rerun(forged, input_record)
    assert found.status == "different"
    assert (found.differences[0].field, found.differences[0].rerun) == ("bundle_hash", NOT_IN_FORCE)
    believed = installation.rerun(forged, input_record, told=False)
    assert (believed.status, believed.not_checked) == ("identical", (NO_ROOTS,))


def test_a_bundle_of_the_future_is_a_difference(installation: TestInstallation) -> None:
    under = list(installation.control)
    installation.now = START + 30 * MINUTE
    assert installation.rerun(*installation.decide(under)).status == "different"


def test_an_entry_that_was_left_out_is_a_difference(installation: TestInstallation) -> None:
    forged, input_record = installation.decide(
        [one for one in installation.control if b"freeze" not in (one.key or b"")]
    )
    assert (forged["outcome"], installation.decide()[0]["outcome"]) == ("ALLOW", "BLOCK")
    found = {one.field: one.rerun for one in installation.rerun(forged, input_record).differences}
    assert found["outcome"] == "BLOCK"
    assert "registry_hashes.freeze/f@1" in found


def test_an_agent_s_registration_that_was_left_out_is_a_difference(installation: TestInstallation) -> None:
    installation.now = START + 75 * MINUTE
    under = [one for one in make_at(installation, 75) if b"agent/" not in (one.key or b"")]
    assert installation.rerun(*installation.decide(under, mode="standard")).status == "different"


def test_around_a_change_either_side_of_it_is_possible_and_said_to_be(installation: TestInstallation) -> None:
    installation.now = START + 90 * MINUTE + LAG // 2
    late, early = (
        installation.rerun(*installation.decide()),
        installation.rerun(*installation.decide(make_at(installation, 89))),
    )
    assert [one.status for one in (late, early)] == ["identical", "identical"]
    assert early.not_checked == (CHANGED,)
    installation.now += LAG
    assert installation.rerun(*installation.decide(make_at(installation, 89))).status == "different"


def test_a_decision_that_waited_may_rest_on_what_came_meanwhile_and_on_nothing_later(
    installation: TestInstallation,
) -> None:
    under = make_at(installation, 75)
    installation.now = START + 59 * MINUTE
    waited = installation.decide(under)
    assert installation.rerun(*waited, START + 61 * MINUTE).status == "identical"
    assert installation.rerun(*waited, START + 59 * MINUTE + 5).status == "different"


def test_the_control_topics_count_as_their_signatures_do(installation: TestInstallation) -> None:
    stranger = ThrowawayTrust()
    installation.publish(
        stranger.sign_bundle(document(revision=3, irreversible_row_threshold=10**9, cases=[]))
    )
    installation.now += MINUTE
    assert installation.rerun(*installation.decide()).status == "identical"


def test_a_difference_under_another_version_is_told_apart(installation: TestInstallation) -> None:
    verdict, input_record = installation.decide()
    other = {**verdict, "decider_version": "there", "obligations": ["log"]}
    found = installation.rerun(other, input_record)
    assert (found.status, found.decided_by, found.executed_by) == ("other_version", "there", "here")
    old = {name: value for name, value in verdict.items() if name != "decider_version"}
    assert installation.rerun(old, input_record).status == "identical"
    assert installation.rerun({**old, "obligations": ["log"]}, input_record).status == "other_version"
    assert installation.rerun({**verdict, "obligations": ["log"]}, input_record).status == "different"


def test_in_a_young_installation_what_came_after_an_outcome_is_not_taken_for_its_policy() -> None:
    """The default bundle came within the workers' lag, and the record names none."""
    made = TestInstallation()
    made.publish(TRUST.make_approver(), *TRUST.sign_entries(ENTRIES), bundle(1, 10**9))
    came_ms = made.now + LAG // 10
    made.now += LAG // 5
    made.publish(*TRUST.sign_entries([entry("freeze", "f", **FREEZE)]))
    names_nothing: dict[str, Any] = {"bundle_hash": None, "registry_hashes": {}}
    possible = PolicyThen(made.control, ROOTS, OF).find_possible(names_nothing, came_ms, came_ms + 5)
    points = [one.get_point({}) for one in possible.points]
    assert [bool(one.policy.registry.freezes) for one in points] == [False, True]


def test_between_two_changes_the_policy_of_the_moment_is_tried() -> None:
    """Within the lag the agent was registered, acted, and was frozen."""
    made = TestInstallation()
    made.publish(TRUST.make_approver(), bundle(1, 10**9))
    made.now += LAG // 10
    made.publish(*TRUST.sign_entries(ENTRIES))
    made.now += LAG // 10
    came_ms = made.now
    made.now += LAG // 10
    made.publish(*TRUST.sign_entries([entry("freeze", "f", **FREEZE)]))
    then = PolicyThen(made.control, ROOTS, OF)

    def look(every: Iterable[PointsUnder]) -> set[tuple[bool, bool]]:
        registries = [one.get_point({}).policy.registry for one in every]
        return {("operator" in one.agents, bool(one.freezes)) for one in registries}

    moment: dict[str, Any] = {"bundle_hash": None, "registry_hashes": {}}
    assert look(then.find_possible(moment, came_ms, came_ms + 5).points) == {(False, False), (True, True)}
    assert (True, False) in look(then.find_between(moment, came_ms, came_ms + 5))
