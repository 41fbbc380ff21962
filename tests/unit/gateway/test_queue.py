"""Mend 22.20: what a list of waiting actions says of each, and which of them a query asks for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.reports.pending_subject import PendingSubject
from sluice.gateway.action_summary import WaitingContent, summarize
from sluice.gateway.pages.queue import SORTS, Query, build_rows, find_walk, group_rows, list_rows, select

PARAMETERS = {"host": "db-1", "user": "ann", "note": "x", "command": "rm -rf /srv", "not a name": "y"}


def open_escalation(number: int, **more: Any) -> dict[str, Any]:
    """The record that opened an escalation."""
    return {
        "escalation_id": f"escalation:gate.actions.proposed:0:{number}",
        "action_id": f"a-{number}",
        "agent_id": f"agent-{number % 2}",
        "session_id": "s",
        "tenant_id": "t",
        "tier": f"T{3 + number % 2}",
        "reason": f"tier_T{3 + number % 2}: of the tool",
        "opened_at": f"2026-11-24T00:00:{number % 60:02}.000Z",
        "expires_at": f"2026-11-24T01:00:{-number % 60:02}.000Z",
    } | more


def verdict(detail: dict[str, Any], reason: str = "suspicious") -> dict[str, Any]:
    """One gate that did not pass, after one that did."""
    passed = {"gate": "controls", "passed": True, "detail": {"path": "$.parameters.user"}}
    return {"gateResults": [passed, {"passed": False, "failureReason": reason, "detail": detail}]}


@pytest.mark.parametrize(
    ("found", "names"),
    [
        (verdict({"patterns": [{"path": "$.parameters.command"}]}), ["command"]),
        (verdict({"findings": [{"path": "$.parameters.note[2].text"}]}), ["note"]),
        (verdict({"findings": [{"path": "$.parameters[4]"}]}), ["not a name"]),
        (verdict({}, "rule_failed: r: `host` is not allowed, nor is a user"), ["host", "user"]),
        (verdict({"patterns": [{"path": "$.parameters.hostname"}]}), []),
        (None, []),
    ],
)
def test_the_parameters_that_a_gate_names_decide(found: dict[str, Any] | None, names: list[str]) -> None:
    content = summarize({"toolName": "shell", "parameters": PARAMETERS, "rows_affected": 4}, found)
    assert content is not None
    assert (content.tool, content.rows, content.decided) == ("shell", 4, bool(names))
    assert [one for one, _ in content.parameters] == (names or ["host", "user", "note"])
    assert len(content.parameters) + content.more == len(PARAMETERS)


def test_both_seeds_forms_are_read_and_other_inputs_are_none() -> None:
    other = summarize({"proposed_action": {"action": "pay", "value": "x" * 900}}, None)
    assert other is not None
    assert (other.tool, len(other.parameters[0][1])) == ("pay", 60)
    others: tuple[Any, ...] = (None, [], {"items": []}, {"toolName": 7})
    assert [summarize(one, None) for one in others] == [None] * len(others)


ROWS = build_rows(
    [PendingSubject.of([open_escalation(one)]) for one in range(120)],
    lambda _: WaitingContent("pay", 3, text="a parcel"),
)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)


@given(
    st.builds(
        Query,
        tool=st.sampled_from(("", "pay", "else")),
        agent=st.sampled_from(("", "agent-0")),
        text=TEXTS | st.sampled_from(("a-1", "PARCEL", "tier_T4")),
        sort=st.sampled_from(sorted(SORTS)),
        by=st.sampled_from(("", "group")),
        page=st.integers(-1, 9),
    ).map(lambda query: Query.parse(query.address))
)
def test_pages_together_have_each_line_once_and_the_walk_goes_through_them(query: Query) -> None:
    found = select(ROWS, query)
    pages = list_rows(ROWS, query).pages
    listed = [list_rows(ROWS, Query.parse(query.address_page(one + 1))) for one in range(pages)]
    shown = [row for one in listed for row in (*one.rows, *(r for group in one.groups for r in group.rows))]
    assert sorted(one.id for one in shown) == sorted(one.id for one in found)
    assert sum(len(one.rows) for one in group_rows(found)) == len(found)
    walk = find_walk(ROWS, query, found[0].id) if found else None
    seen = []
    while walk is not None:
        seen.append(walk.position)
        walk = None if walk.after is None else find_walk(ROWS, query, walk.after)
    assert seen == list(range(1, len(found) + 1))


@given(TEXTS, TEXTS, st.text(max_size=8))
def test_an_address_says_the_whole_query_and_no_address_is_refused(tool: str, text: str, page: str) -> None:
    query = Query.read({"tool": tool, "text": text, "page": page, "sort": page, "by": page})
    assert Query.parse(query.address) == query
    assert list_rows(ROWS, query).query.page >= 1


def test_alike_are_those_of_the_same_agent_tool_and_reason() -> None:
    assert {one.alike for one in ROWS} == {60}
    assert Query.parse(Query(text="x").address_alike(ROWS[1])) == Query(
        tool="pay", agent="agent-1", reason="tier_T4"
    )
