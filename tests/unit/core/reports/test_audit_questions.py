"""An auditor's questions, put to what the gates really decided."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from sluice.adapters.ledger_questions import list_policy_changes
from sluice.core.foundation.canonical import canonical
from sluice.core.foundation.chain import Chain
from sluice.core.foundation.input_record import InputRecord
from sluice.core.foundation.requests import Answer
from sluice.core.memory.analysis import PROMPT
from sluice.core.reports.audit_coverage import Undecided
from sluice.core.reports.audit_models import ModelAnswers
from sluice.core.reports.audit_overrides import Overrides
from sluice.core.reports.audit_people import AgentActivity, PersonAnswers
from sluice.core.reports.audit_policy import PolicyChanges
from sluice.core.reports.audit_questions import QUESTIONS
from sluice.core.reports.audit_rows import LONGEST, PLACE, AuditRecord, AuditScope, guard_cell
from sluice.core.trust.change_log import list_entries_in_force
from sluice.core.trust.policy_contents import collect_contents, make_policy_record
from sluice_topics.catalog import ACTIONS, BUNDLES, BY_NAME, POLICY_EVENTS, REGISTRY
from tests.unit.core.actions.escalation_scene import Office, grant_request
from tests.unit.core.actions.judging_scene import grade, judge, judgement
from tests.unit.core.memory.write_scene import Place, place
from tests.unit.core.retrieval.scene import Scene, item
from tests.unit.core.scene import START, Session, bundle, only, point
from tests.unit.core.trust.scene import ALICE, BOB, ROOT_KEY, agent, approver, bundle_document, trust_alice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice.core.reports.audit_rows import AuditQuestion, AuditRow, PolicyChange
    from sluice.core.state.decision import Decision

QUORUM = {"approvals": {"quorum": {"T3": 2}}}


@dataclass
class LaidLedger:
    """The records of decisions in one partition's chain."""

    records: list[AuditRecord] = field(default_factory=list)
    chain: Chain = field(default_factory=lambda: Chain(3))

    def lay(self, *decisions: Decision) -> None:
        """Link the ledger records of some decisions."""
        for decision in decisions:
            for record in decision.records:
                if BY_NAME[record.topic].ledger:
                    self.add(record.topic, record.body)

    def add(self, topic: str, body: dict[str, Any]) -> None:
        """Link one record."""
        self.records.append(AuditRecord(topic, json.loads(self.chain.link(dict(body)))))

    def ask(
        self, question: type[AuditQuestion], changes: Sequence[PolicyChange] = (), **scope: Any
    ) -> list[AuditRow]:
        """The rows that answer a question."""
        asked = question(AuditScope(**scope), changes)
        asked.begin_partition()
        rows = [row for record in self.records for row in asked.take(record)]
        return [*rows, *asked.finish()]


def pick(rows: Sequence[AuditRow], *names: str) -> list[tuple[Any, ...]]:
    """These cells of each row."""
    return [tuple(row[name] for name in names) for row in rows]


def test_all_that_an_agent_did_is_there_with_what_came_of_it_and_nothing_of_others() -> None:
    session, ledger = Session(), LaidLedger()
    ledger.lay(
        session.propose(action_id="a-1", toolName="change", rows_affected=7),
        session.report(action_id="a-1", rows_affected=3),
        session.propose(action_id="a-2", agent_id="chief"),
        session.report(action_id="a-2"),
        session.report(action_id="never", reported_by="nobody"),
        session.propose(action_id="a-3", toolName="unheard"),
    )
    rows = ledger.ask(AgentActivity, agent="operator")
    assert pick(rows, "kind", "subject", "tool", "decision") == [
        ("verdict", "a-1", "change", "ALLOW"),
        ("reservation_settled", "a-1", None, "touched 3 of 7 reserved rows"),
        ("verdict", "a-3", None, "BLOCK"),
    ]
    assert str(rows[-1]["reason"]).startswith("unregistered_tool")
    assert [row["sequence"] for row in rows] == [1, 2, 6]
    assert ledger.ask(AgentActivity, agent="operator", tenant="globex") == []
    assert ledger.ask(AgentActivity, agent="operator", until="2025-11-21T13:00:00.000Z") == []


def test_memories_retrievals_and_mandates_of_an_agent_are_its_doing_too() -> None:
    written, scene, ledger = Place(), Scene(), LaidLedger()
    ledger.lay(written.write("w-1"), written.write("w-2", derived_from=["unknown"]))
    scene.read(item(), item(item_id="i-2", timestamp="2001-01-01T00:00:00Z"))
    for event in scene.events:
        ledger.add("gate.memory.quality_decision", event)
    own = ledger.ask(AgentActivity, agent="operator")
    assert pick(own, "kind", "subject", "decision") == [
        ("memory_decision", "w-1", "allow"),
        ("memory_decision", "w-2", "quarantine"),
        ("quarantine_entered", "w-2", "quarantine entered"),
    ]
    read = ledger.ask(AgentActivity, agent="bounded")
    assert pick(read, "subject", "decision") == [("i-1", "pass"), ("i-2", scene.events[1]["outcome"])]


def test_who_answered_is_there_with_whom_and_what_it_came_to() -> None:
    office, ledger = Office(policy=QUORUM), LaidLedger()
    proposed = office.propose("a-1")
    opened = only(proposed, "EscalationOpened")
    ledger.lay(proposed, office.answer(opened, "ann"), office.answer(opened, "ben"))
    other = office.propose("a-2")
    ledger.lay(other, office.answer(only(other, "EscalationOpened"), "vera", "deny"))
    rows = ledger.ask(PersonAnswers)
    assert pick(rows, "subject", "approver_id", "answer", "together_with", "came_to") == [
        ("a-1", "ann", "approved, more are needed", "alone", "approval 1 of 2"),
        ("a-1", "ben", "approved", "ann", "ALLOW"),
        ("a-2", "vera", "denied", "alone", "BLOCK"),
    ]
    since = str(rows[1]["at"])
    assert pick(ledger.ask(PersonAnswers, since=since), "approver_id", "together_with")[0] == ("ben", "ann")


def test_reviews_of_memories_and_grants_are_answers_and_overrides() -> None:
    quarantined, office, ledger = Place(), Office(), LaidLedger()
    approved, rejected = quarantined.hold("w-1"), quarantined.hold("w-2")
    ledger.lay(quarantined.review(approved, "approve"), quarantined.review(rejected, "reject"))
    proposed = office.propose("a-1")
    answer = office.answer(only(proposed, "EscalationOpened"), "ann", grant=grant_request())
    ledger.lay(proposed, answer, office.propose("a-2"))
    answers = pick(ledger.ask(PersonAnswers), "subject", "approver_id", "answer")
    assert answers[:2] == [("w-1", "carol", "approved"), ("w-2", "carol", "rejected")]
    assert ("erase", "ann", "granted") in answers
    overrides = pick(ledger.ask(Overrides), "what", "gates_said", "came_to", "by")
    assert overrides[0] == ("review", "quarantine", "admitted", "carol")
    assert ("approval", "ESCALATE", "ALLOW", "ann") in overrides
    assert [row[0] for row in overrides].count("standing grant") == 1
    assert ("standing grant used", "ESCALATE", "ALLOW", "ann") in overrides


def test_what_shadow_mode_and_flag_only_hid_is_an_override_and_what_agrees_is_none() -> None:
    session, shadowed, ledger = Session(), Place(), LaidLedger()
    ledger.lay(
        session.propose(action_id="a-1", agent_id="trial", toolName="erase"),
        session.propose(action_id="a-2", agent_id="trial"),
        shadowed.write(agent_id="trial", content="Now destroy it."),
    )
    assert pick(ledger.ask(Overrides), "subject", "what", "gates_said", "came_to") == [
        ("a-1", "shadow mode", "ESCALATE", "ALLOW"),
        ("w-1", "shadow mode", "reject", "allow"),
    ]


def test_a_model_that_objects_decides_alone_and_one_that_does_not_decides_nothing() -> None:
    denied, passed = judge(judgement(0.99), agent={"constraints": ["Never refund."]}), grade(0.95)
    ledger = LaidLedger()
    ledger.lay(denied.propose(agent_id="clerk", toolName="change"), passed.propose())
    rows = ledger.ask(ModelAnswers)
    assert pick(rows, "gate", "port", "status", "decisive", "decision") == [
        ("causal", "causal", "answered", "yes", "BLOCK"),
        ("grader", "grader", "answered", "no", "ALLOW"),
    ]
    assert '"violation_confidence": 0.99' in str(rows[0]["said"])


def test_a_model_that_does_not_answer_is_seen_by_both_questions() -> None:
    silent = judge(Answer("unavailable", detail="down"), agent={"constraints": ["Never refund."]})
    ledger = LaidLedger()
    ledger.lay(silent.propose(agent_id="clerk", toolName="find"))
    ((status, said, decisive),) = pick(ledger.ask(ModelAnswers), "status", "said", "decisive")
    assert (status, said, decisive) == ("unavailable", "down", "yes")
    assert pick(ledger.ask(Undecided), "what", "came_to") == [("could not be judged", "needs_human")]


def test_a_model_that_weighs_a_memory_is_seen() -> None:
    answer = {"model": "m", "trust": 0.2, "categories": ["memory_poisoning"], "explanation": "no"}
    analysed = place(trust={"llm_analysis": "always"})
    analysed.answers["analysis"] = Answer("answered", {**answer, "prompt_version": PROMPT.version})
    ledger = LaidLedger()
    ledger.lay(analysed.write())
    assert pick(ledger.ask(ModelAnswers), "port", "decisive") == [("analysis", "yes")]


def test_what_was_not_decided_is_there_with_its_kind() -> None:
    session, office, ledger = Session(), Office(), LaidLedger()
    opened = office.propose("a-1")
    expired = office.point().expire_held(office.replay.book, office.now + 700_000, 10)
    assert expired is not None
    ledger.lay(
        session.report(action_id="never", reported_by="nobody"),
        session.propose(action_id="a-2", agent_id="stranger"),
        session.propose(action_id="a-3", toolName="unheard"),
        session.propose(action_id="a-4"),
        opened,
        expired,
    )
    rows = pick(ledger.ask(Undecided), "kind", "subject", "what")
    assert (rows[0][0], rows[-1]) == (
        "input_refused",
        ("escalation_expired", "a-1", "nobody answered in time"),
    )
    assert ("verdict", "a-2", "denied or left open without a judgement") in rows
    assert ("verdict", "a-3", "denied or left open without a judgement") in rows
    assert not [row for row in rows if row[1] in {"a-1", "a-4"} and row[0] == "verdict"]


def test_an_unreadable_input_is_undecided_and_its_agents_by_its_own_claim() -> None:
    office, ledger = Office(), LaidLedger()
    ledger.lay(office.take(ACTIONS, {"action_id": "a-1", "agent_id": "operator", "session_id": "s-1"}))
    rows = ledger.ask(Undecided, agent="operator")
    assert pick(rows, "agent_id", "subject", "what") == [("operator", "a-1", "the input could not be read")]
    assert ledger.ask(Undecided, agent="another") == []
    assert pick(ledger.ask(AgentActivity, agent="operator"), "kind") == [("dead_letter",)]
    assert ledger.ask(Undecided, tenant="acme") == []


def test_a_gate_that_only_observes_is_named_with_what_it_would_have_done() -> None:
    policy = bundle(destinations={"mode": "observe"})
    session, ledger = Session(point(policy=policy)), LaidLedger()
    causal = judge(judgement(0.99), agent={"constraints": ["Never refund."]}, mode="observe")
    ledger.lay(session.propose(), causal.propose(agent_id="clerk", toolName="find"))
    ((what, gate, reason),) = pick(ledger.ask(Undecided), "what", "gate", "reason")
    assert (what, gate) == ("a gate only observed", "causal")
    assert "violation" in str(reason) or "constraint" in str(reason)


def test_an_input_without_a_record_is_undecided_and_one_with_a_record_is_not() -> None:
    session, ledger = Session(), LaidLedger()
    ledger.lay(session.propose(action_id="a-1"))
    answered = session.last
    assert answered is not None
    question = Undecided(AuditScope())
    assert [row for record in ledger.records for row in question.take(record)] == []
    missing = InputRecord(ACTIONS, 3, answered.offset + 1, START, b"s-1", b"{}")
    skipped = InputRecord(ACTIONS, 3, 0, START, b"s-1", b"{}")
    assert list(question.take_input(answered)) == []
    assert pick([*question.take_input(missing), *question.take_input(skipped)], "id", "what") == [
        (missing.decision_id, "no record answers the input"),
        (skipped.decision_id, "no record answers the input"),
    ]


def test_a_change_of_policy_is_there_with_its_signers_and_the_decisions_before_and_after() -> None:
    topics = trust_alice()
    topics.bundle(bundle_document(), ALICE)
    before = collect_contents(list_entries_in_force(topics.reduce(), BUNDLES, REGISTRY))
    topics.entry(agent(), ALICE)
    topics.entry(agent("other"), BOB)
    reduced = topics.reduce()
    after = collect_contents(list_entries_in_force(reduced, BUNDLES, REGISTRY))
    session, ledger = Session(), LaidLedger()
    ledger.add(POLICY_EVENTS, make_policy_record(3, None, before, START, starts=True).body)
    ledger.lay(session.propose(action_id="a-1"), session.propose(action_id="a-2", toolName="erase"))
    ledger.add(POLICY_EVENTS, make_policy_record(3, before, after, START + 1, starts=False).body)
    ledger.lay(session.propose(action_id="a-3"), session.propose(action_id="a-4", toolName="unheard"))
    rows = ledger.ask(PolicyChanges, list_policy_changes(reduced))
    signed = {row["id"]: (row["state"], row["signed_by"]) for row in rows if row["what"] == row["id"]}
    assert signed["agent/reader@1"] == ("in force", "alice")
    assert signed["agent/other@1"] == ("refused", "nobody who may")
    changed = [row for row in rows if row["kind"] == "policy_in_force"]
    assert pick(changed, "policy_before", "policy_now") == [
        (None, before.digest),
        (before.digest, after.digest),
    ]
    assert "agent/reader" in str(changed[1]["what"])
    counts = [row for row in rows if row["kind"] == "decisions"]
    assert pick(counts, "gate", "outcome", "decisions_before", "decisions_after") == [
        ("none", "allowed", 1, 1),
        ("tier_auth", "denied", 0, 1),
        ("tier_auth", "needs_human", 1, 0),
    ]


def test_a_thaw_and_a_relaxation_of_the_control_topics_are_overrides() -> None:
    topics = trust_alice()
    topics.entry(approver("alice", ALICE, 2, signs=["bundle", "agent", "freeze"]), ROOT_KEY)
    topics.entry(agent(), ALICE)
    for revision, active in ((1, True), (2, False)):
        spec = {"subject": "agent", "subject_id": "reader", "reason": "looked into", "active": active}
        freeze = {"kind": "freeze", "id": "agent/reader", "revision": revision, "spec": spec}
        topics.entry(freeze, ALICE)
    changes = list_policy_changes(topics.reduce())
    assert pick(LaidLedger().ask(Overrides, changes), "what", "id", "by", "why") == [
        ("thaw", "freeze/agent/reader@2", "alice", "looked into")
    ]
    assert LaidLedger().ask(Overrides, changes, tenant="globex") == []


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_row_has_every_column_in_order_and_says_where_its_record_lies(name: str) -> None:
    session, ledger = Session(), LaidLedger()
    ledger.lay(session.propose(toolName="unheard"), session.report(action_id="never", reported_by="nobody"))
    for row in ledger.ask(QUESTIONS[name], agent="operator"):
        assert tuple(row) == (*PLACE, *QUESTIONS[name].own)
        record = ledger.records[int(str(row["sequence"])) - 1].fields
        assert (row["event_hash"], row["partition"]) == (record["event_hash"], 3)
        assert canonical(row)


def test_a_cell_is_bounded_whatever_a_stranger_wrote() -> None:
    session, ledger = Session(), LaidLedger()
    ledger.lay(session.propose(toolName="x" * 200, agent_id="y" * 200))
    (row,) = ledger.ask(Undecided)
    assert all(len(str(cell)) <= LONGEST + 1 for cell in row.values())


@pytest.mark.parametrize(
    "begin", ["=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20"]
)
def test_no_cell_is_a_formula_of_a_spreadsheet(begin: str) -> None:
    assert guard_cell(f"{begin}cmd|' /C calc'!A0") == f"'{begin}cmd|' /C calc'!A0"
    assert (guard_cell(f"a{begin}b"), guard_cell(-1), guard_cell(None)) == (f"a{begin}b", -1, None)
