"""What holds of a class for a reader is worked out once, and kept of no more classes than there are."""

from __future__ import annotations

from sluice.core.retrieval.context import Reader, terms_of
from tests.unit.core.retrieval.quality_scene import NOTE, quality_bundle

READER = Reader(quality_bundle(), "bounded", "acme", None, None, None, vouched=False)


def test_readers_who_are_alike_share_their_terms() -> None:
    assert terms_of(READER) is terms_of(Reader(*READER))
    assert terms_of(READER)[NOTE] is terms_of(READER)[NOTE]


def test_a_name_that_the_bundle_does_not_know_is_not_kept() -> None:
    terms = terms_of(READER._replace(tenant="globex"))
    unknown = [terms[name] for name in ("gossip", "no name", None, "n" * 10_000)]
    assert {(one.cell.known, one.limit, one.rollout) for one in unknown} == {(False, None, "enforce")}
    assert [one.content_class for one in unknown] == ["gossip", None, None, None]
    assert not terms


def test_what_an_agent_was_not_granted_is_closed_to_it_alone() -> None:
    granted = READER._replace(agent_id="clerk", granted=frozenset({"memo"}))
    assert terms_of(granted)[NOTE].closed == "class_not_granted: to agent clerk"
    assert terms_of(READER)[NOTE].closed is None
