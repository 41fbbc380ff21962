"""What untrusted content came into a session before an action, and what follows from it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.core.actions.action_similarity import SimilarityPolicy
from sluice.core.registry.quality_entries import make_provenance_id
from sluice.core.rules.rule import Rule
from sluice.core.state.recent_retrieval import ReadTally, read_by_all
from sluice.core.state.session import SessionState
from sluice_topics.relaxations import find_relaxations
from tests.unit.core.rerun.reruns import Case, document
from tests.unit.core.retrieval.scene import HASH, OLD, SUSPECT, Scene, item
from tests.unit.core.scene import LIMITS, entry

SEND = {"toolName": "send_report", "parameters": {"to": "finance@example.com"}}
TOOLS = (
    entry("tool", "send_report", tier="T2", action_type="MESSAGE", trusts_row_claims=True),
    entry("tool", "ping", tier="T1", action_type="API_CALL", reversible=True, trusts_row_claims=True),
    entry("tool", "browse", tier="T1", action_type="FILE_READ", reversible=True, returns_untrusted=True),
)
STRANGER = "gate-source://forum/7"
SOURCE = entry("source", "acme/forum", tenant_id="acme", source_id="forum", type="external")
RECORDED = entry(
    "provenance", make_provenance_id("acme", STRANGER), tenant_id="acme", uri=STRANGER, hash=HASH
)


def scene() -> Scene:
    """With tools that send, look and browse."""
    return Scene(entries=(*TOOLS, SOURCE, RECORDED))


def read_before(verdict: dict[str, Any]) -> dict[str, int]:
    """How much of each kind."""
    return {kind: one["times"] for kind, one in verdict["session"].get("read", {}).items()}


def test_who_read_nothing_of_strangers_sends_as_ever() -> None:
    at = scene()
    at.read(item())
    verdict = at.act(**SEND)
    assert "read" not in verdict["session"]
    assert verdict["outcome"] == "ALLOW"


@pytest.mark.parametrize(
    ("given_item", "agent", "read"),
    [
        (item(provenance_uri=STRANGER), "bounded", {"external": 1}),
        (item(timestamp=OLD), "sandbox", {"flagged": 1}),
        (item(provenance_uri="https://example.com/other"), "sandbox", {"flagged": 1, "external": 1}),
        (item(body=SUSPECT), "bounded", {"flagged": 1}),
    ],
)
def test_a_message_after_untrusted_content_waits_for_a_person(
    given_item: dict[str, Any], agent: str, read: dict[str, int]
) -> None:
    at = scene()
    at.read(given_item, agent_id=agent)
    verdict = at.act(**SEND)
    assert read_before(verdict) == read
    assert verdict["outcome"] == "ESCALATE"
    assert verdict["blockReason"].startswith("rule_failed: outside_after_untrusted: ")
    (told,) = verdict["rule_results"]
    assert (told["passed"], told["overridable"], told["escalates"]) == (False, True, True)
    assert at.act(action_id="a-2", toolName="ping")["outcome"] == "ALLOW"
    assert at.statuses() == {"identical"}


def test_what_was_denied_was_not_read() -> None:
    at = scene()
    at.read(item(timestamp=OLD, provenance_uri=STRANGER))
    assert read_before(at.act(**SEND)) == {}


def test_another_agent_of_the_tenant_counts_and_another_tenant_does_not() -> None:
    at = scene()
    at.read(item(provenance_uri=STRANGER), agent_id="sandbox")
    assert read_before(at.act(**SEND, agent_id="bounded")) == {"external": 1}
    assert read_before(at.act(**SEND, agent_id="other", action_id="a-2")) == {}


def test_a_tool_that_returns_what_strangers_wrote_counts_from_the_next_action_on() -> None:
    at = scene()
    first = at.act(toolName="browse", parameters={"path": "/inbox"})
    assert (first["outcome"], read_before(first)) == ("ALLOW", {})
    then = at.act(**SEND, action_id="a-2")
    assert then["session"]["read"]["external"]["last"] == "browse"
    assert then["outcome"] == "ESCALATE"
    at.act(toolName="browse", parameters={"path": "/inbox"})
    assert read_before(at.act(action_id="a-3")) == {"external": 1}
    assert at.statuses() == {"identical"}


def test_it_is_not_forgotten_with_the_window_but_with_the_session() -> None:
    at = scene()
    at.read(item(provenance_uri=STRANGER))
    for number in range(3):
        at.now += LIMITS.action_window_ms + 1
        at.state = SessionState.read(at.state.key, at.state.entries())
        assert read_before(at.act(action_id=f"a-{number}")) == {"external": 1}
    at.now += LIMITS.idle_timeout_ms
    assert read_before(at.act(action_id="later")) == {}
    assert at.statuses() == {"identical"}


@pytest.mark.parametrize(
    ("fields", "read"),
    [
        ({}, {}),
        ({"source": {"id": "shop", "type": "external"}}, {"external": 1}),
        ({"source": {"id": "shop", "type": "plugin"}}, {"external": 1}),
        ({"derived_from": ["memory:gate.memory.writes.proposed:0:4096"]}, {"held": 1}),
        ({"provenance_uri": None}, {}),
    ],
)
def test_memories_of_strangers_and_those_that_were_held_count(
    fields: dict[str, Any], read: dict[str, int]
) -> None:
    case = Case(entries=(entry("tool", "send_report", tier="T2", action_type="MESSAGE"),))
    case.remember(**fields)
    case.remember(**fields)
    verdict = case.propose(**SEND)
    assert read_before(verdict) == read
    assert (verdict["outcome"] == "ALLOW") is (not read)
    assert {one.status for one in case.rerun_all()} == {"identical"}


def test_a_failed_rule_that_denies_beats_one_that_asks() -> None:
    never = {
        "id": "never",
        "type": "forbidden",
        "reason": "no",
        "condition": "action.tool == 'send_report'",
    }
    shipped = json.loads(document())["rules"]
    at = Scene(entries=(*TOOLS, SOURCE, RECORDED), bundle=document(rules=[*shipped, never]))
    at.read(item(provenance_uri=STRANGER))
    verdict = at.act(**SEND)
    assert (verdict["outcome"], verdict["blockReason"]) == ("BLOCK", "rule_failed: never: no")


def test_only_an_assertion_asks_and_asking_in_place_of_denying_is_looser() -> None:
    fields = {"id": "a", "reason": "r", "condition": "true"}
    with pytest.raises(ValueError, match="only an assertion may ask"):
        Rule.model_validate({**fields, "type": "invariant", "escalates": True})
    denies, asks = (
        Rule.model_validate({**fields, "type": "assertion", "escalates": one}) for one in (False, True)
    )
    assert [one.sentence for one in find_relaxations(denies, asks)] == [
        "the rule a asks a person and no longer denies"
    ]
    assert [*find_relaxations(asks, denies)] == []


def test_similarity_lets_less_pass_after_untrusted_content() -> None:
    strict = SimilarityPolicy(pass_below_after_untrusted=0.2)
    assert (
        strict.read_passing_bound(after_untrusted=False),
        strict.read_passing_bound(after_untrusted=True),
    ) == (0.3, 0.2)
    assert SimilarityPolicy().read_passing_bound(after_untrusted=True) == 0.3
    with pytest.raises(ValueError, match="above pass_below"):
        SimilarityPolicy(pass_below_after_untrusted=0.4)
    assert [one.path for one in find_relaxations(strict, SimilarityPolicy())] == [
        "pass_below_after_untrusted"
    ]
    assert [*find_relaxations(SimilarityPolicy(), strict)] == []


READS = st.dictionaries(
    st.sampled_from(["external", "flagged", "held"]),
    st.tuples(st.integers(1, 2**53 - 1), st.integers(0, 2**44), st.text("ab#", min_size=1, max_size=3)),
)


@given(st.lists(READS, max_size=5))
@settings(max_examples=50)
def test_of_several_agents_all_counts_and_the_latest_is_named(kept: list[dict[str, Any]]) -> None:
    found = read_by_all(kept)
    assert found == read_by_all(reversed(kept))
    assert found.keys() == {kind for one in kept for kind in one}
    for kind, read in found.items():
        of_kind = [ReadTally(*one[kind]) for one in kept if kind in one]
        assert read.times == sum(one.times for one in of_kind)
        assert read[1:] == max(one[1:] for one in of_kind)
