"""What is settled of memory writes before they come: plans, and scores where nothing was found."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.memory.admitted import release_quality, select_quality
from sluice.core.memory.plan import plan_writes
from sluice.core.memory.trust import Facts, Scorer, score_facts
from sluice.core.metadata.provenance import find_fault, spell
from sluice.core.metadata.write_quality import WriteQuality, find_faults
from sluice.core.state.history import History
from sluice_topics.records import ProposedMemoryWrite
from tests.unit.core.memory.trust_scene import POLICY, SOURCE_TYPES, inspection
from tests.unit.core.memory.write_scene import write
from tests.unit.core.scene import entry, point

SCHEMES = WriteQuality().provenance_schemes

quiet = st.builds(
    Facts,
    source_type=st.sampled_from(SOURCE_TYPES),
    history=st.builds(History, st.none(), st.integers(0, 9), st.integers(0, 9), st.just(0)),
    mismatch=st.booleans(),
    since_last_ms=st.none() | st.integers(0, 200),
    inspection=st.builds(
        inspection,
        characters=st.integers(1, 20_000),
        removed_share=st.sampled_from([0.0, 0.2]),
        special_share=st.sampled_from([0.0, 0.4]),
    ),
)


def proposed(**fields: Any) -> ProposedMemoryWrite:
    return ProposedMemoryWrite.model_validate(write(**fields))


def test_writes_of_one_agent_share_a_plan_unless_their_source_is_registered() -> None:
    policy = point(
        entry("source", "acme/crm", tenant_id="acme", source_id="crm", quality_exempt=False)
    ).policy
    plan = plan_writes(policy)
    mail, other = (proposed(source={"id": name, "type": "user"}) for name in ("mail", "a new one"))
    assert plan(mail) is plan(other)
    crm = plan(proposed(source={"id": "crm", "type": "user"}))
    assert crm is not plan(mail)
    assert crm.source is not None
    assert set(crm.hashes) > set(plan(mail).hashes)
    assert plan(proposed(agent_id="nobody")).barred == "unknown_agent: nobody"


@given(st.lists(quiet, min_size=1, max_size=8))
def test_a_remembered_score_is_the_one_that_is_worked_out_anew(several: list[Facts]) -> None:
    scorer = Scorer(POLICY)
    for facts in (*several, *several):
        assert scorer.score(facts) == score_facts(POLICY, facts)


def test_a_score_where_something_was_found_is_not_that_of_a_quiet_write() -> None:
    scorer = Scorer(POLICY)
    facts = Facts("user", History(None, 0, 0, 0), False, None, inspection())
    trusted = scorer.score(facts)
    for changed in (
        facts._replace(parents=(None,)),
        facts._replace(inconclusive=("source.id: too long",)),
        facts._replace(ceiling=0.1, ceiling_by="llm_analysis"),
        facts._replace(inspection=inspection(inconclusive="too many forms")),
    ):
        assert scorer.score(changed).trust.total < trusted.trust.total


@pytest.mark.parametrize(
    "timestamp",
    ["2025-11-21T12:00:00Z", "2025-11-21t13:00:00.123456789+01:00", f"2025-11-21T12:00:00.{60 * '1'}Z"],
)
def test_valid_metadata_is_released_as_it_would_be_if_it_had_not_been_read(timestamp: str) -> None:
    one = proposed(timestamp=timestamp)
    assert find_faults(WriteQuality(), one, 2**50, frozenset()) == ()
    assert release_quality(one, is_valid=True) == select_quality(one)


ids = st.text("Aa+%._-/1", min_size=1, max_size=6)


@given(
    st.lists(ids, max_size=4).map("/".join).map("https://crm.example/".__add__)
    | st.sampled_from(["https://localhost/a", "http://127.0.0.1/a", "https://a@crm.example/b", "mailto:a"]),
    st.frozensets(ids, max_size=3),
)
def test_a_usual_reference_has_no_fault(uri: str, own: frozenset[str]) -> None:
    if spell(uri).is_usual(SCHEMES, own):
        assert find_fault(uri, SCHEMES, own) is None
