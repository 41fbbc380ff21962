"""What became of escalations, worked out a second time from the answers as they lie on the broker.

Imports nothing of the core. The first answers that count, by their offsets, end an escalation if their broker
time is before its own end; else time does. An answer that no follower of its partition has yet copied is
visible to nobody, however early it was stored: while a broker is away, time may overtake it. Rows count
when an action is allowed, at once or by approval.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from load.installations.approvers import (
    COUNTED,
    EXPIRED,
    HASTY_AGENT,
    HASTY_MS,
    LATER,
    NEXT_MS,
    OPENED,
    QUORUM,
    REFUSED,
    REMIND_MS,
    REMINDED,
    REROUTED,
    RESOLVED,
    ROWS,
    TTL_MS,
    UNREADABLE,
    WhatWasSaid,
    is_of_people,
)
from load.installations.neutral_policy import TENANT
from load.recomputation import figures
from load.recomputation.quarantine_recount import milliseconds
from load.recomputation.stored_sessions import read_stored_sessions
from sluice_topics.catalog import ACTIONS, REVIEWS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from load.installations.installation import Evidence
    from load.recomputation.figures import RunFigure
    from sluice.adapters.kafka.kafka_read import StoredRecord

VERDICT, RESOLVED_VERDICT = "sluice/verdict/v1", "sluice/resolved_verdict/v1"
ANSWERS = (RESOLVED, COUNTED, REFUSED)
UNSIGNED = "unsigned_agent"
ENDED_BY_TIME = "it ended EXPIRED"


def approval_figures(
    evidence: Evidence, *, broker_away: bool = False, signing: bool = True
) -> list[RunFigure]:
    """How escalations ended, and goals of zero for all that must not be; none without people.
    `broker_away`: for a while, and approvals may have found no action to judge, and answers may have become
    visible after the end of what they answered. `signing`: an agent
    that signs acts there too."""
    statements = evidence.installation.statements
    if statements is None:
        return []
    ledger = [json.loads(record.value or b"null") for record in evidence.ledger if is_of_people(record.key)]
    by: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for body in sorted(ledger, key=lambda body: (body["partition"], body["sequence"])):
        by[body["schema"]].append(body)
    due = _due_ends(evidence, statements, by)
    overtaken = find_overtaken(due, by)
    problems = [
        *_wrong_ends(due | dict.fromkeys(overtaken), by),
        *_find_unanswered(evidence, by, REVIEWS, ANSWERS),
    ]
    wrong, unsigned = _wrong_totals(evidence, by), _wrong_signatures(statements, by)
    unanswered, steps = _find_unanswered(evidence, by, ACTIONS, (VERDICT,)), wrong_steps(by)
    for problem in [*problems, *steps, *wrong, *unsigned, *unanswered][:5]:
        print(f"  approvals: {problem}")
    decisions = Counter(body["decision"] for body in by[RESOLVED])
    unread = sum(body["reason"] == UNREADABLE for body in by[REFUSED])
    for name in [] if broker_away else sorted(overtaken):
        print(f"  approvals: time overtook the answer to {name}")
    while_away = figures.report if broker_away else figures.none
    signed = figures.some if signing else figures.none
    return [
        while_away("actions_unavailable", unread, "reviews"),
        while_away("answers_overtaken", len(overtaken), "escalations"),
        figures.some("escalations", len(by[OPENED]), "escalations"),
        figures.some("approved", decisions["approve"], "escalations"),
        figures.some("denied", decisions["deny"], "escalations"),
        figures.some("expired", len(by[EXPIRED]), "escalations"),
        figures.some("reminded", len(by[REMINDED]), "reminders"),
        figures.some("rerouted", len(by[REROUTED]), "escalations"),
        figures.some("answers", statements.sent, "reviews"),
        figures.some("answers_refused", len(by[REFUSED]), "reviews"),
        signed("signed_actions", len(statements.signed), "actions"),
        signed("forged_actions", len(statements.unsigned), "actions"),
        figures.none("wrong_ends", len(problems), "findings"),
        figures.none("wrong_steps", len(steps), "escalations"),
        figures.none("wrong_approved_totals", len(wrong), "sessions"),
        figures.none("wrong_signatures", len(unsigned), "actions"),
        figures.none("unanswered_once", len(unanswered), "actions"),
    ]


def _due_ends(
    evidence: Evidence, statements: WhatWasSaid, by: dict[str, list[dict[str, Any]]]
) -> dict[str, Any]:
    """By escalation the place of the answer that must have ended it and what it says; None for time."""
    reviews = {
        (record.partition, record.offset): record
        for record in evidence.inputs
        if record.topic == evidence.installation.real(REVIEWS)
    }
    good = _find_sent_again(statements, reviews)
    unread = {
        (body["partition"], body["input"]["offset"]) for body in by[REFUSED] if body["reason"] == UNREADABLE
    }
    due: dict[str, Any] = {}
    for opened in by[OPENED]:
        ends_ms = opened["input"]["timestamp"] + (HASTY_MS if opened["agent_id"] == HASTY_AGENT else TTL_MS)
        later_ms = opened["input"]["timestamp"] + NEXT_MS
        votes: set[str] = set()
        due[opened["escalation_id"]] = None
        mine = (
            (at, statement)
            for at, statement in sorted(good.items())
            if statement[0] == opened["escalation_id"]
        )
        for at, (_, approver, decision) in mine:
            if at in unread:
                continue
            if reviews[at].timestamp_ms >= ends_ms:
                break
            if approver == LATER and reviews[at].timestamp_ms < later_ms:
                continue
            votes |= {approver} if decision == "approve" else set()
            if decision == "deny" or len(votes) == QUORUM[opened["tier"]]:
                due[opened["escalation_id"]] = (at, decision)
                break
    return due


def _find_sent_again(
    statements: WhatWasSaid, reviews: Mapping[tuple[int, int], StoredRecord]
) -> dict[tuple[int, int], tuple[str, str, str]]:
    """What was said, at each place where it lies: a producer that got no answer while the broker was away
    sends a review again, and knows only the last place."""
    by_value = {reviews[coordinates].value: statement for coordinates, statement in statements.good.items()}
    return {at: by_value[record.value] for at, record in reviews.items() if record.value in by_value}


def find_overtaken(due: Mapping[str, Any], by: Mapping[str, list[dict[str, Any]]]) -> set[str]:
    """Escalations that time ended although an answer was stored before, which was then refused for that.
    `due`: by escalation the answer that ends it and what it says, or None; `by`: records by schema."""
    late = {
        (refused["partition"], refused["input"]["offset"])
        for refused in by[REFUSED]
        if refused["input"]["topic"] == REVIEWS and refused["message"].startswith(ENDED_BY_TIME)
    }
    expired = {record["escalation_id"] for record in by[EXPIRED]}
    return {name for name, end in due.items() if end is not None and end[0] in late and name in expired}


def _wrong_ends(due: Mapping[str, Any], by: dict[str, list[dict[str, Any]]]) -> list[str]:
    ends: dict[str, list[Any]] = defaultdict(list)
    for body in by[RESOLVED]:
        ends[body["escalation_id"]].append(((body["partition"], body["input"]["offset"]), body["decision"]))
    for body in by[EXPIRED]:
        ends[body["escalation_id"]].append(None)
    verdicts = Counter(body["escalationId"] for body in by[RESOLVED_VERDICT])
    approved = {body["escalation_id"] for body in by[RESOLVED] if body["decision"] == "approve"}
    problems = [f"{name}: ended {ends[name]}, due {end}" for name, end in due.items() if ends[name] != [end]]
    problems += [
        f"{name}: {verdicts[name]} resolved verdicts" for name in due if verdicts[name] != (name in approved)
    ]
    return problems


def wrong_steps(by: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Escalations whose steps in the ledger are not those of the route, once each and in order, or lack one
    that was due before the answer or the time that ended it, or have one after that end."""
    route = [(REMINDED, REMIND_MS), (REROUTED, NEXT_MS), (REMINDED, NEXT_MS + REMIND_MS)]
    steps: dict[str, list[tuple[int, str, str]]] = defaultdict(list)
    for body in (*by[REMINDED], *by[REROUTED]):
        steps[body["escalation_id"]].append((body["sequence"], body["schema"], body["due_at"]))
    problems = []
    ends = {end_body["escalation_id"]: end_body for end_body in (*by[RESOLVED], *by[EXPIRED])}
    for opened in by[OPENED]:
        name, began = opened["escalation_id"], opened["input"]["timestamp"]
        end = ends.get(name)
        if end is None:
            continue
        ended = milliseconds(opened["expires_at"]) if end["schema"] == EXPIRED else end["input"]["timestamp"]
        due = [schema for schema, after in route if began + after <= ended]
        taken = sorted(steps[name])
        written = [(schema, milliseconds(at) - began) for _, schema, at in taken]
        in_order = written == route[: len(written)] and len(written) >= len(due)
        if not in_order or any(sequence > end["sequence"] for sequence, _, _ in taken):
            problems.append(f"{name}: took {written}, due {due}")
    return problems


def _find_unanswered(
    evidence: Evidence, by: dict[str, list[dict[str, Any]]], topic: str, schemas: Sequence[str]
) -> list[str]:
    """Inputs of a topic that have not exactly one record of these schemas."""
    answered = Counter(
        (body["partition"], body["input"]["offset"])
        for schema in schemas
        for body in by[schema]
        if body["input"]["topic"] == topic
    )
    real = evidence.installation.real(topic)
    mine = (record for record in evidence.inputs if record.topic == real and is_of_people(record.key))
    places = [(record.partition, record.offset) for record in mine]
    return [
        f"{topic} {coordinates}: {answered[coordinates]} answers"
        for coordinates in places
        if answered[coordinates] != 1
    ]


def _wrong_signatures(statements: WhatWasSaid, by: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Actions of the agent that signs, allowed without a good signature or denied with one."""
    verdicts = {(body["partition"], body["input"]["offset"]): body for body in by[VERDICT]}
    refused = {
        coordinates
        for coordinates, verdict in verdicts.items()
        if (verdict["blockReason"] or "").startswith(UNSIGNED)
    }
    wrong = (statements.unsigned - refused) | (statements.signed & refused)
    return [
        f"action {location}: {verdicts[location]['outcome'] if location in verdicts else None}"
        for location in wrong
    ]


def _wrong_totals(evidence: Evidence, by: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Sessions whose state is not the sum of what was allowed at once and what was approved."""
    due: Counter[str] = Counter()
    for verdict in (*by[VERDICT], *by[RESOLVED_VERDICT]):
        due[verdict["session_id"]] += ROWS * (
            verdict["outcome"] == "ALLOW" and verdict["duplicate_of"] is None
        )
    states = read_stored_sessions(evidence.changelog)
    rows = {name: states[name.encode()].totals[TENANT][0] for name in due}
    wrong = [name for name in due if rows[name] != due[name]]
    return [f"{name}: the state has {rows[name]} rows, due {due[name]}" for name in wrong]
