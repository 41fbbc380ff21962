"""Grants for an agent in all its sessions: signed entries whose uses are shared out over the partitions."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.actions.authority import TierAuth
from sluice.core.actions.stage import PASSED
from sluice.core.decide.kinds import read_input_message
from sluice.core.decide.replay import drive, nobody
from sluice.core.foundation.clock import rfc3339
from sluice.core.foundation.requests import Answer, Request, next_request
from sluice.core.registry.agent_grants import AgentGrant
from sluice.core.registry.loading import load_registry
from sluice.core.rerun.evidence import restore_shared
from sluice.core.state.book import Book
from sluice.core.state.decision import Shared
from sluice.core.state.session import SessionState, session_key
from sluice_topics.catalog import ACTIONS
from sluice_topics.records import ProposedAction
from tests.unit.core.actions.escalation_scene import Office, grant_request
from tests.unit.core.scene import LIMITS, START, action, entry, kinds, only

if TYPE_CHECKING:
    from collections.abc import Generator

    from sluice.core.actions.stage import ActionContext, StageResult

OURS = replace(LIMITS, partitions=4)
"""The scene's partition is number 3 of these: of 8 uses it has 2."""
HOUR_MS = 3_600_000


def grant(name: str = "g-1", revision: int = 1, **spec: Any) -> dict[str, Any]:
    """The entry of a grant by ann."""
    base = {
        "tenant_id": "acme",
        "agent_id": "operator",
        "tool": "erase",
        "uses": 8,
        "approver_id": "ann",
        "expires_at": rfc3339(START + HOUR_MS),
        "justification": "a batch of old orders",
    }
    return {**entry("agent_grant", name, **{**base, **spec}), "revision": revision}


def office(*entries: dict[str, Any], **more: Any) -> Office:
    """An installation with these entries."""
    return Office(entries or (grant(),), limits=OURS, **more)


def word(of: Office, action_id: str, **fields: Any) -> str:
    """The verdict on an action that would need an approver."""
    return str(only(of.propose(action_id, **fields), "Verdict")["verdict"])


@given(st.integers(1, 10_000), st.integers(1, 64))
def test_the_shares_of_all_partitions_are_the_uses(uses: int, partitions: int) -> None:
    one = AgentGrant("g", "k", "h", "acme", "operator", "erase", None, uses, 0, "ann")
    shares = [one.share(partition, partitions) for partition in range(partitions)]
    assert sum(shares) == uses
    assert max(shares) - min(shares) <= 1
    assert one.share(partitions, partitions) == 0


def test_a_partition_counts_its_share_over_all_sessions_and_then_asks_again() -> None:
    of = office()
    used = of.propose("a-1", session_id="s-1")
    assert kinds(used) == ["Verdict", "GrantUsed"]
    verdict, use = only(used, "Verdict"), only(used, "GrantUsed")
    assert verdict["grant"]["grant_id"] == use["grant_id"] == "grant:agent_grant/g-1@1"
    assert (verdict["grant"]["uses_left"], use["uses_left"], use["session_id"]) == (2, 1, "s-1")
    assert {"approver/ann@1", "agent_grant/g-1@1"} <= verdict["registry_hashes"].keys()
    assert word(of, "a-2", session_id="s-2") == "allowed"
    assert word(of, "a-3", session_id="s-3") == "needs_human"
    assert word(of, "a-4", session_id="s-1") == "needs_human"


def test_a_used_up_share_stays_used_up_after_a_restart() -> None:
    of, table = office(), dict[bytes, bytes]()
    for number in range(2):
        assert word(of, f"a-{number}") == "allowed"
    for key, value in of.replay.book.flush().items():
        assert value is not None
        table[key] = value
    of.replay.book = Book(table)
    assert word(of, "a-9") == "needs_human"


def test_two_grants_do_not_share_a_count_and_a_new_revision_begins_anew() -> None:
    of = office(grant("g-1"), grant("g-2"))
    assert [word(of, f"a-{number}") for number in range(5)] == ["allowed"] * 4 + ["needs_human"]
    of.replay.point = of.point(grant("g-1", revision=2), grant("g-2"))
    assert [word(of, f"b-{number}") for number in range(3)] == ["allowed"] * 2 + ["needs_human"]


@pytest.mark.parametrize(
    "spec",
    [
        {"agent_id": "owned"},
        {"tool": "pay"},
        {"tenant_id": "globex"},
        {"active": False},
        {"expires_at": rfc3339(START)},
        {"uses": 3},
        {"when": "action.rows > 1000"},
        {"when": "this does not compile ("},
        {"approver_id": "auditor"},
        {"approver_id": "finder"},
        {"approver_id": "elsewhere"},
        {"approver_id": "gone"},
        {"approver_id": "nobody"},
    ],
)
def test_what_it_does_not_cover_asks_a_person(spec: dict[str, Any]) -> None:
    assert word(office(grant(**spec)), "a-1") == "needs_human"


def test_its_giver_is_not_the_agents_owner_and_the_highest_tier_is_asked_for() -> None:
    assert word(office(grant(agent_id="owned", approver_id="boss")), "a-1", agent_id="owned") == "needs_human"
    raised = entry("tool", "erase", 2, tier="T4", action_type="FILE_DELETE", trusts_row_claims=True)
    assert word(office(grant(approver_id="vera"), raised), "a-1") == "needs_human"


def test_where_several_must_agree_one_grant_is_not_enough() -> None:
    of = office(grant(), policy={"approvals": {"quorum": {"T3": 2}}})
    assert word(of, "a-1") == "needs_human"


def test_a_grant_for_the_session_counts_first() -> None:
    of = Office(limits=OURS)
    opened = of.open_escalation("first")
    of.answer(opened, "ann", grant=grant_request(uses=1))
    of.replay.point = of.point(grant())
    names = [only(of.propose(f"a-{number}"), "Verdict")["grant"]["grant_id"] for number in range(3)]
    assert [name.startswith("grant:agent_grant/") for name in names] == [False, True, True]


def test_a_use_is_judged_again_from_what_its_verdict_says() -> None:
    of = office()
    of.propose("a-0", session_id="s-2")
    fields = {"agent_id": "operator", "toolName": "erase", "rows_affected": 3, "mode": "high_stakes"}
    input_record = of.input_record(ACTIONS, action(action_id="a-1", **fields))
    verdict = only(of.replay.take(input_record), "Verdict")
    assert verdict["grant"]["uses_left"] == 1
    message = read_input_message(input_record)
    assert isinstance(message, ProposedAction)
    again = drive(of.point(grant()).judge_again(input_record, message, verdict), nobody)
    assert again[0].body["rerun_hash"] == verdict["rerun_hash"]
    (kept,) = restore_shared([verdict], input_record).book.grants.values()
    assert (kept.of_agent, kept.uses, kept.grant_id) == (True, 1, verdict["grant"]["grant_id"])
    without = drive(of.point().judge_again(input_record, message, verdict), nobody)
    assert without[0].body["verdict"] == "allowed", "the record, not the registry, says what was seen"


def test_the_registry_keeps_active_grants_by_tenant_agent_and_tool() -> None:
    entries = [grant("g-2"), grant("g-1"), grant("g-3", active=False)]
    registry = load_registry(json.dumps({"entries": entries}).encode())
    (scope,) = registry.agent_grants
    assert scope == ("acme", "operator", "erase")
    assert [one.id for one in registry.agent_grants[scope]] == ["g-1", "g-2"]


class Waits:
    """A gate that waits for an answer, as those that ask a model."""

    name = "waits"

    def evaluate(self, context: ActionContext) -> Generator[Request, Answer, StageResult]:
        yield Request("waits", {"action": context.action.action_id}, 1000)
        return PASSED


@pytest.mark.parametrize("uses", [4, 8, 12])
def test_sessions_at_once_use_no_more_of_a_grant_than_is_left(uses: int) -> None:
    """Mend 22.attacks: what is left of a grant counts at the moment of the decision, not at that of the
    input."""
    of = office(grant(uses=uses), stages=(Waits(), TierAuth()))
    point, shared = of.point(grant(uses=uses)), Shared(of.replay.book, {})
    fields = {"agent_id": "operator", "toolName": "erase", "rows_affected": 3, "mode": "high_stakes"}
    waiting = []
    for name in ("s-1", "s-2", "s-3", "s-4"):
        input_record = of.input_record(ACTIONS, action(action_id="a", session_id=name, **fields))
        message = read_input_message(input_record)
        assert isinstance(message, ProposedAction)
        evaluation: Any = point.evaluate(input_record, message, SessionState(session_key(name)), shared)
        waiting.append((input_record, message, evaluation, next_request(evaluation)))
    found = []
    for input_record, message, evaluation, _ in waiting:
        decision = drive(_resume(evaluation), lambda _: Answer("answered", {}))
        of.replay.book.apply(decision.book)
        verdict = only(decision, "Verdict")
        found.append((verdict["verdict"], (verdict.get("grant") or {}).get("uses_left")))
        again = drive(
            of.point().judge_again(input_record, message, verdict), lambda _: Answer("answered", {})
        )
        assert again[0].body["rerun_hash"] == verdict["rerun_hash"]
    share = uses // OURS.partitions
    assert found == [("allowed", share - one) for one in range(share)] + [("needs_human", None)] * (4 - share)


def _resume(evaluation: Any) -> Generator[Request, Answer, Any]:
    """The rest of an evaluation whose first request was seen already."""
    answer = Answer("answered", {})
    while True:
        try:
            answer = yield next_request(evaluation, answer)
        except StopIteration as decided:
            return decided.value
