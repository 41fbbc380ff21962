"""What holds of a class for a reader is worked out once, and kept of no more classes than there are."""

from __future__ import annotations

from typing import Any

from sluice.core.retrieval.plan import RetrievalReader, get_terms, plan_retrievals
from sluice_topics.records import ProposedRetrieval
from tests.unit.core.retrieval.quality_scene import NOTE, quality_bundle
from tests.unit.core.retrieval.scene import Scene, retrieval


def proposed(**fields: Any) -> ProposedRetrieval:
    return ProposedRetrieval.model_validate(retrieval(**fields))


READER = RetrievalReader(quality_bundle(), "bounded", "acme", None, None, None, vouched=False)


def test_readers_who_are_alike_share_their_terms() -> None:
    assert get_terms(READER) is get_terms(RetrievalReader(*READER))
    assert get_terms(READER)[NOTE] is get_terms(READER)[NOTE]


def test_a_name_that_the_bundle_does_not_know_is_not_kept() -> None:
    terms = get_terms(READER._replace(tenant="globex"))
    unknown = [terms[name] for name in ("gossip", "no name", None, "n" * 10_000)]
    assert {(one.cell.is_known, one.limit, one.rollout) for one in unknown} == {(False, None, "enforce")}
    assert [one.content_class for one in unknown] == ["gossip", None, None, None]
    assert not terms


def test_what_an_agent_was_not_granted_is_closed_to_it_alone() -> None:
    granted = READER._replace(agent_id="clerk", granted=frozenset({"memo"}))
    assert get_terms(granted)[NOTE].closed == "class_not_granted: to agent clerk"
    assert get_terms(READER)[NOTE].closed is None


def test_requests_that_differ_in_what_no_table_names_share_a_plan() -> None:
    plan = plan_retrievals(Scene().point.policy, "test")
    one = proposed()
    assert plan(one) is plan(proposed(request_id="r-9", tool_name="a tool that no table names"))
    assert plan(one) is not plan(proposed(autonomy_tier="sandbox"))
    assert plan(one).barred is None
    stranger = plan(proposed(agent_id="nobody"))
    assert stranger.barred == ("UNKNOWN_AGENT", "unknown_agent: nobody")
    assert stranger.fields["tenant_id"] is None
