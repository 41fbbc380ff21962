"""What an action says of the flagged items that its session was let see (seed 004, "ignore flags")."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.core.state.acknowledgement import acknowledgement, read_flags
from sluice.core.state.recent_retrieval import MAX_FLAGGED, RecentRetrieval, item_mark
from sluice.core.state.remembered import shorten_id
from sluice.core.state.session import SessionState, session_key, who
from sluice.core.state.session_view import SessionView
from sluice.settings.reader import Settings
from tests.unit.core.rerun.reruns import document
from tests.unit.core.retrieval.scene import FINDINGS, OLD, SUSPECT, Scene, item
from tests.unit.core.scene import LIMITS, MINUTE, START, read_stored_bytes

STALE, UNSURE = item(item_id="lease", timestamp=OLD), item(item_id="price", confidence_score=0.1)
RULE = {
    "id": "flags-are-seen",
    "type": "invariant",
    "reason": "nobody acts on flagged items without saying so",
    "condition": "size(session.unacknowledged_flags) == 0",
}
SHIPPED = Settings().build_limits()


def flags(scene: Scene, **fields: Any) -> dict[str, list[str]]:
    """Of an action's verdict."""
    found: dict[str, list[str]] = scene.act(**fields)["session"]["flags"]
    return found


def run_sandboxed() -> Scene:
    """After a read of two flagged items and a good one."""
    scene = Scene()
    scene.read(STALE, UNSURE, item(), agent_id="sandbox")
    return scene


def test_every_flag_of_what_was_let_through_is_outstanding_until_it_is_named() -> None:
    assert flags(run_sandboxed()) == {
        "acknowledged": [],
        "outstanding": ["lease:stale", "price:low_confidence"],
    }


@pytest.mark.parametrize(
    ("named", "outstanding"),
    [
        (["stale"], ["price:low_confidence"]),
        (["lease"], ["price:low_confidence"]),
        (["lease:stale"], ["price:low_confidence"]),
        (["lease:low_confidence"], ["lease:stale", "price:low_confidence"]),
        (["stale", "low_confidence"], []),
        ([":", "leas", "STALE", "stale:lease"], ["lease:stale", "price:low_confidence"]),
    ],
)
def test_an_action_names_a_flag_an_item_or_both(named: list[str], outstanding: list[str]) -> None:
    assert flags(run_sandboxed(), acknowledged_flags=named)["outstanding"] == outstanding


def test_who_says_nothing_gets_an_advisory_and_no_denial() -> None:
    scene = run_sandboxed()
    silent = scene.act()
    assert silent["outcome"] == "ALLOW"
    assert [one["source"] for one in silent["advisories"]].count("sluice.retrievals") == 1
    said = scene.act(action_id="a-2", acknowledged_flags=["stale", "low_confidence"])
    assert "sluice.retrievals" not in [one["source"] for one in said["advisories"]]
    assert scene.statuses() == {"identical"}


def test_a_rule_may_cite_what_is_outstanding() -> None:
    scene = Scene(bundle=document(memory={"content": {"findings": FINDINGS}}, rules=[RULE]))
    assert scene.act(action_id="a-0")["outcome"] == "ALLOW"
    scene.read(STALE, agent_id="sandbox")
    assert scene.act(action_id="a-1")["outcome"] != "ALLOW"
    assert scene.act(action_id="a-2", acknowledged_flags=["lease"])["outcome"] == "ALLOW"
    assert scene.statuses() == {"identical"}


@pytest.mark.parametrize("withheld", [item(timestamp=OLD), item()])
def test_what_was_denied_or_passed_leaves_nothing_to_acknowledge(withheld: dict[str, Any]) -> None:
    scene = Scene()
    scene.read(withheld)
    assert flags(scene) == {"acknowledged": [], "outstanding": []}


def test_a_downgraded_item_s_flags_are_to_be_acknowledged_too() -> None:
    scene = Scene()
    assert scene.read(item(body=SUSPECT)).outcomes == ["downgrade"]
    assert flags(scene)["outstanding"] == ["i-1:content_suspect"]


def test_flags_are_of_the_tenant_whose_agents_read() -> None:
    scene = run_sandboxed()
    assert flags(scene, agent_id="other") == {"acknowledged": [], "outstanding": []}


def test_flags_end_with_the_window_and_with_the_session() -> None:
    scene = run_sandboxed()
    scene.now += LIMITS.action_window_ms - 1
    assert len(flags(scene)["outstanding"]) == 2
    scene.now += 1
    assert flags(scene, action_id="a-2")["outstanding"] == []
    assert scene.statuses() == {"identical"}


def test_the_session_survives_being_stored() -> None:
    scene = run_sandboxed()
    scene.state = SessionState.read(scene.state.key, scene.state.entries())
    assert len(flags(scene)["outstanding"]) == 2
    assert scene.report("lease", "i-1")["covered"] == 2


@pytest.mark.parametrize(
    "name", ["é" * 80, "\x01", 'a"b', "#1", "x" * 200, "a:b:c", "stale", "urn:uuid:" + "f" * 80]
)
@pytest.mark.parametrize("how", ["{id}", "{id}:stale", "{kept}", "{kept}:stale"])
def test_an_item_of_any_id_can_be_acknowledged_by_it_or_as_it_is_shown(name: str, how: str) -> None:
    scene = Scene()
    scene.read(item(item_id=name, timestamp=OLD), agent_id="sandbox")
    assert flags(scene, acknowledged_flags=[how.format(id=name, kept=shorten_id(name))]) == {
        "acknowledged": [f"{shorten_id(name)}:stale"],
        "outstanding": [],
    }
    assert scene.statuses() == {"identical"}


def test_a_repeat_of_an_action_is_told_what_is_outstanding_now() -> None:
    scene = Scene()
    assert flags(scene) == {"acknowledged": [], "outstanding": []}
    scene.read(STALE, agent_id="sandbox")
    again = scene.act()
    assert again["duplicate_of"] is not None
    assert again["session"]["flags"]["outstanding"] == ["lease:stale"]
    assert scene.statuses() == {"identical"}


IDS = st.text(min_size=1, max_size=6).map(shorten_id)
FLAGS = st.lists(st.sampled_from(["stale", "low_confidence", "content_suspect"]), unique=True, min_size=1)


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(IDS, FLAGS), st.lists(st.text(min_size=1, max_size=8)))
def test_each_flag_is_either_acknowledged_or_outstanding_and_a_rerun_rebuilds_them(
    served: dict[str, list[str]], named: list[str]
) -> None:
    found = acknowledgement(served, named)
    both = [*found.acknowledged, *found.outstanding]
    assert sorted(both) == sorted(f"{one}:{flag}" for one, raised in served.items() for flag in raised)
    assert acknowledgement(read_flags(found._asdict()), named) == found
    assert acknowledgement(served, [*named, *both]).outstanding == ()


def test_thousands_of_requests_keep_a_session_small() -> None:
    state = SessionState(session_key("s-1"))
    for number in range(5000):
        remember(state, f"r-{number}", [f"{number}-{place}".ljust(64, "x") for place in range(20)])
    assert read_stored_bytes(state) < 512 * 1024
    kept = state.accounts["acme"].agents["reader"].retrievals
    assert (len(kept), next(reversed(kept))) == (64, "r-4999")


def test_of_large_requests_the_last_are_remembered() -> None:
    state = SessionState(session_key("s-1"))
    for number in range(12):
        remember(state, f"r-{number}", [f"{number}-{place}".ljust(64, "x") for place in range(1000)])
    assert read_stored_bytes(state) < 512 * 1024
    assert list(state.accounts["acme"].agents["reader"].retrievals) == ["r-10", "r-11"]


def remember(state: SessionState, request: str, items: list[str], tenant: str = "acme") -> None:
    """A retrieval of items that were all flagged, under the shipped limits."""
    view = SessionView(state, SHIPPED, START)
    every = {name: ["stale", "low_confidence", "provenance_unverified", "content_suspect"] for name in items}
    marks = "".join(map(item_mark, items))
    owner = who(tenant, "reader")
    view.remember_retrieval(owner, request, RecentRetrieval("sandbox", marks, START, 1))
    view.remember_flags(owner, every)
    state.apply(view.changes())


def test_what_an_action_may_carry_of_flags_is_bounded() -> None:
    scene = Scene(limits=SHIPPED)
    scene.read(*(item(item_id=f"i-{number}", timestamp=OLD) for number in range(500)), agent_id="sandbox")
    outstanding = flags(scene)["outstanding"]
    assert len(outstanding) == MAX_FLAGGED
    assert "*:forgotten" in outstanding
    assert scene.statuses() == {"identical"}


def test_no_flag_is_got_rid_of_by_reading_on() -> None:
    """Neither by clean reads, nor by more than are remembered, nor by asking under the same id again."""
    scene = Scene(limits=SHIPPED)
    scene.read(STALE, agent_id="sandbox")
    for number in range(SHIPPED.max_recent_retrievals + 1):
        scene.read(item(item_id="good"), request_id=f"r-{number}")
    for start in (0, 1000, 2000):
        scene.read(*(item(item_id=f"i-{start + place}") for place in range(1000)))
    assert flags(scene)["outstanding"] == ["lease:stale"]


def test_flags_that_found_no_room_are_still_to_be_acknowledged() -> None:
    scene = Scene(limits=SHIPPED)
    scene.read(STALE, agent_id="sandbox")
    later = [f"i-{number}" for number in range(MAX_FLAGGED)]
    scene.read(*(item(item_id=name, timestamp=OLD) for name in later), agent_id="sandbox", request_id="r-2")
    assert flags(scene, acknowledged_flags=["stale"])["outstanding"] == ["*:forgotten"]
    assert flags(scene, acknowledged_flags=["stale", "forgotten"])["outstanding"] == []


def test_an_hour_later_a_session_has_forgotten_what_it_read() -> None:
    scene = Scene()
    scene.read(STALE, agent_id="sandbox")
    scene.now += LIMITS.action_window_ms + MINUTE
    scene.read(item(item_id="new"), request_id="r-2")
    stored = b"".join(scene.state.entries().values())
    assert b"stale" not in stored
    assert b'"r-1"' not in stored


def test_a_request_id_that_comes_again_hides_no_flag_of_the_first() -> None:
    scene = Scene()
    scene.read(STALE, agent_id="sandbox")
    scene.read(item(item_id="good"), agent_id="bounded")
    assert flags(scene)["outstanding"] == ["lease:stale"]
    assert scene.report("lease", "good")["covered"] == 2


@pytest.mark.parametrize("request_ids", [("r-1", "r-1"), ("r-1", "r-2")])
def test_every_flag_of_an_item_that_was_read_twice_is_outstanding(request_ids: tuple[str, str]) -> None:
    scene = Scene()
    scene.read(item(timestamp=OLD), agent_id="sandbox", request_id=request_ids[0])
    scene.read(item(confidence_score=0.1), agent_id="sandbox", request_id=request_ids[1])
    assert flags(scene)["outstanding"] == ["i-1:low_confidence", "i-1:stale"]


def test_one_request_may_name_an_item_twice() -> None:
    scene = Scene()
    scene.read(item(timestamp=OLD), item(confidence_score=0.1), agent_id="sandbox")
    assert flags(scene)["outstanding"] == ["i-1:low_confidence", "i-1:stale"]


def test_requests_of_nobody_take_no_room_from_the_tenants() -> None:
    scene = Scene(limits=SHIPPED)
    for number in range(SHIPPED.max_recent_retrievals):
        scene.read(item(), agent_id="nobody", request_id=f"n-{number}")
    scene.read(STALE, agent_id="sandbox")
    assert flags(scene)["outstanding"] == ["lease:stale"]


def test_eight_tenants_together_keep_a_session_small() -> None:
    state = SessionState(session_key("s-1"))
    for tenant in range(8):
        for number in range(2):
            items = [f"{number}-{place}".ljust(64, "x") for place in range(1000)]
            remember(state, f"r-{tenant}-{number}", items, f"t-{tenant}")
    assert read_stored_bytes(state) < 512 * 1024
