"""A fault of the core on a retrieval: every item denied, nothing served, and the next request goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sluice_topics.catalog import RETRIEVALS
from tests.unit.core.rerun.reruns import FlawedEvidence, make_flawed
from tests.unit.core.retrieval.scene import BUNDLE, Scene, evidence_of, item, retrieval

if TYPE_CHECKING:
    from tests.unit.core.retrieval.reading import Reading

REFUSED = "INTERNAL_ERROR"


def make_broken() -> tuple[Scene, Reading]:
    scene = Scene(policy_of_now=make_flawed(BUNDLE))
    return scene, scene.read(item(), item(item_id="i-2", body=None), traceId="t-1")


def test_every_item_is_denied_and_the_request_is_kept_as_a_dead_letter() -> None:
    _, found = make_broken()
    assert found.outcomes == ["deny", "deny"]
    assert {tuple(one["reason_codes"]) for one in found.events} == {(REFUSED,)}
    assert [one["item_id"] for one in found.events] == ["i-1", "i-2"]
    assert (found.event_ids, found.served["items"]) == (
        [one["ledger_event_id"] for one in found.served["withheld"]],
        [],
    )
    (letter,) = found.bodies("DeadLetter")
    assert letter["code"] == "internal_error"
    assert (found.events[0]["tenant_id"], found.events[0]["trace_id"]) == ("acme", "t-1")


@pytest.mark.parametrize("agent", ["trial", "sandbox", "nobody"])
def test_neither_shadow_nor_sandbox_lets_it_through(agent: str) -> None:
    found = Scene(policy_of_now=make_flawed(BUNDLE)).read(agent_id=agent)
    assert found.outcomes == ["deny"]
    assert not found.event["body_released"]


def test_the_session_goes_on_as_if_nothing_had_been() -> None:
    scene, _ = make_broken()
    assert scene.state.gone
    scene.policy_of_now = None
    assert scene.read().outcomes == ["pass"]


def test_a_rerun_finds_the_fault_again_and_shows_when_it_is_mended() -> None:
    scene, _ = make_broken()
    then = FlawedEvidence(BUNDLE)
    now = evidence_of(BUNDLE, (scene.quality or b"",), "[]")
    then.__dict__.update(now.__dict__)
    assert scene.rerun(scene.events[0], scene.rerunner(then)).status == "identical"
    mended = {one.field: one.rerun for one in scene.rerun(scene.events[0]).differences}
    assert mended["outcome"] != "deny"
    assert mended["body_released"] is True


def test_an_input_that_nobody_looked_into_is_one_denial_without_ids() -> None:
    scene = Scene()
    input_record = scene.input_record(RETRIEVALS, retrieval())
    decision = scene.point.unread(input_record)
    scene.keep(input_record, decision)
    (event,) = scene.events
    assert (event["outcome"], event["item_id"], event["autonomy_tier"]) == ("deny", None, "high_privilege")
    assert event["reason_codes"] == [REFUSED]
    assert scene.statuses() == {"identical"}
