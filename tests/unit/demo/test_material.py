"""What the demo publishes: real rows, each once, in sessions; and everything else as it is announced."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from sluice.core.actions.stages import load_bundle
from sluice.core.registry.loading import load_registry
from sluice_demo.material import generate_registry, prepare
from sluice_topics.record_reading import Unreadable, read
from sluice_topics.records import ProposedAction

if TYPE_CHECKING:
    from sluice_demo.material import Material, Planned, RunOptions
    from sluice_demo.sessions import PlannedSession


def test_every_row_is_proposed_exactly_once(material: Material) -> None:
    proposed = Counter(one.fields["action_id"] for one in _select_kind(material, "action"))
    assert proposed == Counter(row.id for row in material.rows)
    assert len(proposed) >= 300


def test_there_are_at_least_twenty_sessions_of_ten_repositories(material: Material) -> None:
    assert len({session.id for session in material.sessions}) == len(material.sessions) >= 20
    assert len({row.source.partition("@")[0] for row in material.rows}) == 10


def test_every_action_is_readable_and_keeps_the_panel_s_words(material: Material) -> None:
    rows = {row.id: row for row in material.rows}
    for one in _select_kind(material, "action"):
        record = read(ProposedAction, one.outgoing.value)
        assert isinstance(record, ProposedAction)
        row = rows[record.action_id]
        assert (record.agent_id, record.tool_name, record.parameters) == (row.agent, row.tool, row.parameters)
        assert one.outgoing.key == record.session_id.encode()


def test_a_session_s_actions_keep_their_order(material: Material) -> None:
    for session in material.sessions:
        published = [one for one in _select_kind(material, "action") if one.session_id == session.id]
        assert [one.fields for one in published] == list(session.actions)


def test_unreadable_records_are_unreadable_each_in_its_own_way(material: Material) -> None:
    spoilt = _select_kind(material, "unreadable")
    found = [read(ProposedAction, one.outgoing.value) for one in spoilt]
    codes = [one.code for one in found if isinstance(one, Unreadable)]
    assert len(set(codes)) == len(codes) == len(spoilt) - 1
    (readable,) = [one for one in found if isinstance(one, ProposedAction)]
    assert readable.session_id.encode() not in {one.outgoing.key for one in spoilt}, "only its key is wrong"


def test_the_repeat_has_the_same_bytes_and_the_conflict_others(material: Material) -> None:
    (repeat,), (conflict,) = _select_kind(material, "repeat"), _select_kind(material, "conflict")
    first = next(one for one in material.plan if one.fields.get("action_id") == repeat.fields["action_id"])
    assert first.outgoing.value == repeat.outgoing.value != conflict.outgoing.value
    assert conflict.fields["action_id"] == repeat.fields["action_id"]


def test_growing_sessions_meet_the_row_threshold_at_their_last_action_only(
    material: Material,
) -> None:
    threshold = load_bundle(material.bundle).irreversible_row_threshold
    for session in material.sessions:
        if session.id in {one.session for one in material.config.recipe.growing}:
            *steps, last = _rows(session)
            assert steps == sorted(steps)
            assert steps[-1] <= threshold < last


def test_two_preparations_are_byte_for_byte_the_same(material: Material, wish: RunOptions) -> None:
    assert prepare(wish).plan == material.plan


def test_the_generated_registry_loads_and_favours_nobody(material: Material, wish: RunOptions) -> None:
    registry = load_registry(
        generate_registry(material.rows, material.config.readings, wish.trust.feed.public.text)
    )
    assert {row.agent for row in material.rows} == registry.agents.keys()
    assert {row.tool for row in material.rows} == registry.tools.keys()
    assert {(tool.tier, tool.action_type, tool.reversible) for tool in registry.tools.values()} == {
        (None, None, None)
    }
    assert [org.enforcement for org in registry.orgs.values()] == ["enforce"]
    assert all("generated" in agent.tenant for agent in registry.agents.values())


def _select_kind(material: Material, kind: str) -> list[Planned]:
    return [one for one in material.plan if one.role == kind]


def _rows(session: PlannedSession) -> list[int]:
    return [action["rows_affected"] for action in session.actions]
