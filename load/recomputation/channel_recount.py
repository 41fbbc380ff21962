"""What people were told by each channel, and what Slack shows, held against the ledger, without the core."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from load.installations.approvers import COUNTED, EXPIRED, OPENED, REFUSED, REROUTED, RESOLVED, is_of_people
from load.recomputation import figures
from sluice_topics.catalog import REVIEWS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from load.inputs.answering import SubmittedAnswer
    from load.installations.installation import Evidence
    from load.recomputation.figures import RunFigure

Messages = Mapping[tuple[str, str], Mapping[str, Any]]
"""What Slack holds, by channel and ts."""


def label_answers(evidence: Evidence, answers: Mapping[str, SubmittedAnswer]) -> None:
    """Find the answers again on the broker, by their justifications, for the recount of approvals."""
    statements = evidence.installation.statements
    if statements is None:
        raise ValueError("an installation without people")
    for record in _reviews(evidence):
        body = json.loads(record.value or b"{}")
        statements.sent += 1
        if answers[body["justification"]].may_count:
            coordinates = record.partition, record.offset
            statements.good[coordinates] = (body["subject_id"], body["approver_id"], body["decision"])


def channel_figures(
    evidence: Evidence, answers: Mapping[str, SubmittedAnswer], messages: Messages, channels: Sequence[str]
) -> list[RunFigure]:
    """Answers of each channel that counted, and goals of zero for what people were told wrongly."""
    why = {
        (record.partition, record.offset): json.loads(record.value or b"{}")["justification"]
        for record in _reviews(evidence)
    }
    counted, refused = Counter[str](), Counter[str]()
    ended = {
        body["escalation_id"]: at_ms
        for body, at_ms in _read_times(evidence)
        if body["schema"] in (RESOLVED, EXPIRED)
    }
    for body in _ledger(evidence):
        coordinates = body["partition"], (body.get("input") or {}).get("offset")
        if body["schema"] in (RESOLVED, COUNTED):
            counted[why[coordinates]] += 1
        elif body["schema"] == REFUSED:
            refused[why[coordinates]] += 1
    wrong = [
        f"{name}: told {answer.result} after {answer.tries} tries, {counted[name]} counted, "
        f"{refused[name]} refused"
        for name, answer in answers.items()
        if (answer.result == "counts" and counted[name] != 1)
        or (answer.result == "refused" and not refused[name])
        or (answer.result == "closed" and ended[answer.answer.opened["escalation_id"]] > answer.told_ms)
        or (answer.result == "barred" and answer.may_count)
        or counted[name] > 1
    ]
    shown = _wrong_messages(evidence, messages)
    for problem in [*wrong, *shown][:5]:
        print(f"  channels: {problem}")
    by = Counter(answers[name].channel for name in counted)
    return [
        *(figures.some(f"counted_by_{name}", by[name], "answers") for name in channels),
        figures.some("answered_again", sum(answer.tries > 1 for answer in answers.values()), "answers"),
        figures.some(
            "told_that_it_ended", sum(answer.result == "closed" for answer in answers.values()), "answers"
        ),
        figures.none("wrongly_told", len(wrong), "answers"),
        figures.some("messages", len(messages), "messages"),
        figures.none("wrong_messages", len(shown), "escalations"),
    ]


def _wrong_messages(evidence: Evidence, messages: Messages) -> list[str]:
    """Escalations that are not shown once in the channel of each group that got them, with their end."""
    words: dict[str, str] = {}
    groups: dict[str, list[str]] = defaultdict(list)
    for body in _ledger(evidence):
        name = str(body.get("escalation_id"))
        if body["schema"] == RESOLVED:
            verb = "Approved" if body["decision"] == "approve" else "Denied"
            words[name] = f"{verb} by {body['approver_id']}"
        elif body["schema"] == EXPIRED:
            words[name] = "Expired"
        elif body["schema"] in (OPENED, REROUTED):
            groups[name].append(f"C0{body['group'].upper()}")
    shown: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for (channel, _), message in messages.items():
        name = message["metadata"]["event_payload"]["subject_id"]
        shown[name].append((channel, message["blocks"][0]["text"]["text"]))
    return [
        f"{name}: shown {shown[name]}, due {words[name]} in {channels}"
        for name, channels in groups.items()
        if sorted(channel for channel, _ in shown[name]) != sorted(channels)
        or not all(text.startswith(words[name]) for _, text in shown[name])
    ]


def _reviews(evidence: Evidence) -> list[Any]:
    real = evidence.installation.real(REVIEWS)
    return [record for record in evidence.inputs if record.topic == real and is_of_people(record.key)]


def _ledger(evidence: Evidence) -> list[dict[str, Any]]:
    return [body for body, _ in _read_times(evidence)]


def _read_times(evidence: Evidence) -> list[tuple[dict[str, Any], int]]:
    """The ledger's records with the broker's time, ms."""
    mine = (record for record in evidence.ledger if is_of_people(record.key))
    return [(json.loads(record.value or b"null"), record.timestamp_ms) for record in mine]
