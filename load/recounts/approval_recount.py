"""What became of escalations, worked out a second time from the answers as they lie on the broker.

Imports nothing of the core. The first answers that count, by their offsets, end an escalation if their broker
time is before its own end; else time does. Rows count when an action is allowed, at once or by approval.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from app.verifier.export import Located
from app.verifier.verify import verify
from load.recounts import figures
from load.sites.neutral_policy import TENANT
from topics.catalog import REVIEWS

if TYPE_CHECKING:
    from load.recounts.figures import RunFigure
    from load.sites.site import Evidence

Place = tuple[int, int]
"""Partition and offset of a review."""


@dataclass
class SignedAnswers:
    """What people said: the answers that may count by their place, as escalation, approver and decision;
    `sent`: how many in all. `hasty_agent`: the one whose escalations wait for `hasty_ms` only; `rows`: of
    every action; `ttl_ms`: of every other escalation. `later`: the approver of the second
    group, which gets an escalation after `next_ms`; each group is reminded after `remind_ms`."""

    hasty_agent: str
    hasty_ms: int
    ttl_ms: int
    rows: int
    later: str
    remind_ms: int
    next_ms: int
    good: dict[Place, tuple[str, str, str]] = field(default_factory=dict)
    sent: int = 0


OPENED, RESOLVED = "sluice/escalation_opened/v1", "sluice/escalation_resolved/v1"
EXPIRED = "sluice/escalation_expired/v1"
REMINDED, REROUTED = "sluice/escalation_reminded/v1", "sluice/escalation_rerouted/v1"
ENDS = frozenset({RESOLVED, EXPIRED})
VERDICT, RESOLVED_VERDICT = "sluice/verdict/v1", "sluice/resolved_verdict/v1"
QUORUM = {"T3": 1, "T4": 2}


def findings(evidence: Evidence, answers: SignedAnswers) -> list[RunFigure]:
    ledger = [json.loads(one.value or b"null") for one in evidence.ledger]
    by: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for body in sorted(ledger, key=lambda one: (one["partition"], one["sequence"])):
        by[body["schema"]].append(body)
    problems = [*_wrong_ends(evidence, answers, by), *_wrong_answers(evidence, by)]
    steps = [*wrong_steps(answers, by)]
    wrong = [*_wrong_totals(evidence, answers, by)]
    for problem in [*problems, *steps, *wrong][:5]:
        print(f"  approvals: {problem}")
    report = verify(Located(r.topic, r.partition, r.offset, r.key, r.value) for r in evidence.ledger)
    decisions = Counter(one["decision"] for one in by[RESOLVED])
    return [
        figures.some("escalations", len(by[OPENED]), "escalations"),
        figures.some("approved", decisions["approve"], "escalations"),
        figures.some("denied", decisions["deny"], "escalations"),
        figures.some("expired", len(by[EXPIRED]), "escalations"),
        figures.some("reminded", len(by[REMINDED]), "reminders"),
        figures.some("rerouted", len(by[REROUTED]), "escalations"),
        figures.some("answers", answers.sent, "reviews"),
        figures.some("answers_refused", len(by["sluice/input_refused/v1"]), "reviews"),
        figures.none("wrong_ends", len(problems), "findings"),
        figures.none("wrong_steps", len(steps), "escalations"),
        figures.none("wrong_totals", len(wrong), "sessions"),
        figures.none("chain_errors", len(report.findings), "findings"),
    ]


def _due_ends(
    evidence: Evidence, answers: SignedAnswers, by: dict[str, list[dict[str, Any]]]
) -> dict[str, Any]:
    """By escalation the place of the answer that must have ended it and what it says; None for time."""
    moments = {
        (one.partition, one.offset): one.timestamp_ms
        for one in evidence.inputs
        if one.topic == evidence.site.real(REVIEWS)
    }
    due: dict[str, Any] = {}
    for opened in by[OPENED]:
        ends_ms = opened["input"]["timestamp"] + (
            answers.hasty_ms if opened["agent_id"] == answers.hasty_agent else answers.ttl_ms
        )
        later_ms = opened["input"]["timestamp"] + answers.next_ms
        votes: set[str] = set()
        due[opened["escalation_id"]] = None
        mine = ((at, said) for at, said in sorted(answers.good.items()) if said[0] == opened["escalation_id"])
        for at, (_, approver, decision) in mine:
            if moments[at] >= ends_ms:
                break
            if approver == answers.later and moments[at] < later_ms:
                continue
            votes |= {approver} if decision == "approve" else set()
            if decision == "deny" or len(votes) == QUORUM[opened["tier"]]:
                due[opened["escalation_id"]] = (at, decision)
                break
    return due


def _wrong_ends(evidence: Evidence, answers: SignedAnswers, by: dict[str, list[dict[str, Any]]]) -> list[str]:
    ends: dict[str, list[Any]] = defaultdict(list)
    for one in by[RESOLVED]:
        ends[one["escalation_id"]].append(((one["partition"], one["input"]["offset"]), one["decision"]))
    for one in by[EXPIRED]:
        ends[one["escalation_id"]].append(None)
    verdicts = Counter(one["escalationId"] for one in by[RESOLVED_VERDICT])
    approved = {one["escalation_id"] for one in by[RESOLVED] if one["decision"] == "approve"}
    due = _due_ends(evidence, answers, by)
    problems = [f"{name}: ended {ends[name]}, due {one}" for name, one in due.items() if ends[name] != [one]]
    problems += [
        f"{name}: {verdicts[name]} resolved verdicts" for name in due if verdicts[name] != (name in approved)
    ]
    return problems


def wrong_steps(answers: SignedAnswers, by: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Escalations whose steps in the ledger are not those of the route, once each and in order, or lack one
    that was due before the answer or the time that ended it, or have one after that end."""
    remind, then = answers.remind_ms, answers.next_ms
    route = [(REMINDED, remind), (REROUTED, then), (REMINDED, then + remind)]
    found: dict[str, list[tuple[int, str, str]]] = defaultdict(list)
    for one in (*by[REMINDED], *by[REROUTED]):
        found[one["escalation_id"]].append((one["sequence"], one["schema"], one["due_at"]))
    problems = []
    ends = {one["escalation_id"]: one for one in (*by[RESOLVED], *by[EXPIRED])}
    for opened in by[OPENED]:
        name, began = opened["escalation_id"], opened["input"]["timestamp"]
        end = ends.get(name)
        if end is None:
            continue
        ended = _ms(opened["expires_at"]) if end["schema"] == EXPIRED else end["input"]["timestamp"]
        due = [schema for schema, after in route if began + after <= ended]
        taken = sorted(found[name])
        said = [(schema, _ms(at) - began) for _, schema, at in taken]
        in_order = said == route[: len(said)] and len(said) >= len(due)
        if not in_order or any(sequence > end["sequence"] for sequence, _, _ in taken):
            problems.append(f"{name}: took {said}, due {due}")
    return problems


def _ms(moment: str) -> int:
    return round(datetime.fromisoformat(moment).timestamp() * 1000)


def _wrong_answers(evidence: Evidence, by: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Reviews that are not answered exactly once."""
    answered = Counter(
        (one["partition"], one["input"]["offset"])
        for schema in (RESOLVED, "sluice/approval_counted/v1", "sluice/input_refused/v1")
        for one in by[schema]
        if one["input"]["topic"] == REVIEWS
    )
    real = evidence.site.real(REVIEWS)
    places = [(one.partition, one.offset) for one in evidence.inputs if one.topic == real]
    return [f"review {place}: {answered[place]} answers" for place in places if answered[place] != 1]


def _wrong_totals(
    evidence: Evidence, answers: SignedAnswers, by: dict[str, list[dict[str, Any]]]
) -> list[str]:
    """Sessions whose state is not the sum of what was allowed at once and what was approved."""
    due: Counter[str] = Counter()
    for one in (*by[VERDICT], *by[RESOLVED_VERDICT]):
        due[one["session_id"]] += answers.rows * (one["outcome"] == "ALLOW" and one["duplicate_of"] is None)
    states = {one.key: one.value for one in evidence.changelog}
    found = {name: _rows(states[b"s:" + name.encode()]) for name in due}
    wrong = [name for name in due if found[name] != due[name]]
    return [f"{name}: the state has {found[name]} rows, due {due[name]}" for name in wrong]


def _rows(state: bytes | None) -> int:
    return int(json.loads(state or b"{}")["a"][TENANT][0])
