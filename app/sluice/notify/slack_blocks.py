"""An escalation, a held memory or an alarm as Slack shows it: a message, and the form for an answer. Pure.

What agents and other people wrote stands in `plain_text` objects and in preformatted rich text, in which
Slack reads no markup, mentions or links; the line for notifications, which has no such form, is escaped as
Slack asks for. Everything is cut to Slack's bounds, and characters that cannot be seen stand by their number.

Slack: "Formatting text for app surfaces", "Block Kit reference", as of 2026.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sluice.text.plurals import counted
from sluice.text.visible import visible_text

if TYPE_CHECKING:
    from sluice.notify.told_subject import ToldSubject

Block = dict[str, Any]
HEADER_CHARS, FIELD_CHARS, SECTION_CHARS = 150, 300, 1000
MESSAGE_CHARS = 1500
"""Of the parameters, in a message."""
FORM_CHARS = 12_000
"""Of the action, in a form: who approves must have seen all of it."""
PIECE_CHARS = 2_500
MOST_JUSTIFICATION = 1000
EVENT_TYPE = "sluice_subject"
"""Of a message's metadata, by which it is found again."""
DECISION_ACTION, DECISION_FORM, PAGE_ACTION = "sluice_decision", "sluice_decision_form", "sluice_page"
JUSTIFICATION = "justification"
OWN_KEY = "The policy demands the approver's own key: answer with `sluice escalations` in a terminal."
REVIEW = "Review it on the review pages, or with `sluice quarantine review` in a terminal."
_NAMES = {"action": "Action", "retrieval": "Request", "memory": "Write"}
_KINDS = {"action": "an action", "retrieval": "a retrieval", "memory": "a memory"}


def escape(text: str, most: int = FIELD_CHARS) -> str:
    """For Slack's mrkdwn: no control character of it is left, so that no text mentions, links or marks up."""
    return cut(text, most).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def cut(text: str, most: int) -> str:
    """The text as it is seen, at most so many characters, and how many were left out."""
    seen = visible_text(text)
    if len(seen) <= most:
        return seen
    told = f" … {counted(len(seen) - most, 'character')} more"
    return (seen[: max(0, most - len(told))] + told)[:most]


def headline(told: ToldSubject) -> str:
    """One line: how it stands, and with whom."""
    if told.kind == "alarm":
        return f"Alarm ({told.tier}) for {told.role}: {told.name}"
    what = told.tool or _KINDS[told.kind]
    if told.status == "waiting":
        who = told.group or (f"a {told.role}" if told.kind == "memory" else f"an approver ({told.role})")
        return f"{told.tier or told.kind.capitalize()}: {what} of {told.agent} waits for {who}"
    by = f" by {told.by}" if told.by else ""
    blocked = ", and blocked all the same" if told.came_to else ""
    return f"{told.status.capitalize()}{by}{blocked}: {what} of {told.agent}"


def message_of(told: ToldSubject, page: str | None = None) -> dict[str, Any]:
    """The `text` and `blocks` of its message, with buttons as long as it waits. `page`: its address on the
    review pages; None where there are none."""
    blocks: list[Block] = [
        {"type": "header", "text": _plain(headline(told), HEADER_CHARS)},
        {"type": "section", "fields": [_plain(f"{name}: {value}") for name, value in _facts(told)]},
        _section(told.reason if told.kind == "alarm" else f"Why it waits: {told.reason}"),
    ]
    if told.parameters is not None:
        blocks.append(_preformatted(cut(told.parameters, MESSAGE_CHARS)))
    blocks += _approved(told, told.narrowed and cut(told.narrowed, MESSAGE_CHARS))
    if told.status not in {"waiting", "raised"}:
        blocks.append(_section(_end(told)))
    elif told.own_key or told.kind == "memory":
        blocks.append(_section(OWN_KEY if told.own_key else REVIEW))
    buttons = _buttons(told, page) if told.status == "waiting" else []
    if buttons:
        blocks.append({"type": "actions", "elements": buttons})
    names = " · ".join(filter(None, (told.subject_id, told.digest)))
    blocks.append({"type": "context", "elements": [_plain(names)]})
    return {"text": escape(headline(told), SECTION_CHARS), "blocks": blocks}


def metadata_of(told: ToldSubject) -> dict[str, Any]:
    """By which the message is found again."""
    return {"event_type": EVENT_TYPE, "event_payload": {"subject_id": told.subject_id}}


def reminder_of(told: ToldSubject) -> str:
    """The text of a reply under the message, which notifies people as an update does not."""
    return escape(f"{headline(told)}, until {told.expires_at}", SECTION_CHARS)


def plain_message_of(told: ToldSubject) -> dict[str, Any]:
    """The text alone, where Slack refuses the blocks: the escalation is answered elsewhere."""
    told_where = "answer it with `sluice escalations` or on the review pages"
    if told.kind == "alarm":
        told_where = cut(told.reason, FIELD_CHARS)
    return {"text": f"{escape(headline(told), SECTION_CHARS)} ({escape(told.subject_id)}): {told_where}"}


def _approved(told: ToldSubject, narrowed: str | None) -> list[Block]:
    """What exactly the approvals so far are for, while it waits."""
    if told.status != "waiting" or not told.approved_by:
        return []
    said = f"Approved so far by {', '.join(told.approved_by)}: "
    if not told.is_narrowed:
        return [_section(f"{said}exactly what waits.")]
    head = _section(f"{said}other parameters. An approval for others starts the count again.")
    pieces = [(narrowed or "")[at : at + PIECE_CHARS] for at in range(0, len(narrowed or ""), PIECE_CHARS)]
    return [head, *map(_preformatted, pieces)]


def form_of(decision: str, told: ToldSubject, action: str, private: dict[str, Any]) -> dict[str, Any]:
    """The form (a modal view) that shows the whole action and asks for a justification."""
    verb = "Approve" if decision == "approve" else "Deny"
    pieces = [action[at : at + PIECE_CHARS] for at in range(0, len(action), PIECE_CHARS)]
    asked: Block = {
        "type": "input",
        "block_id": JUSTIFICATION,
        "label": _plain("Justification, for the record"),
        "element": {
            "type": "plain_text_input",
            "action_id": JUSTIFICATION,
            "multiline": True,
            "min_length": 10,
            "max_length": MOST_JUSTIFICATION,
        },
    }
    return {
        "type": "modal",
        "callback_id": DECISION_FORM,
        "title": _plain(f"{verb} an escalation", 24),
        "submit": _plain(verb),
        "close": _plain("Cancel"),
        "private_metadata": json.dumps(private),
        "blocks": [
            _section(headline(told)),
            {"type": "section", "fields": [_plain(f"{name}: {value}") for name, value in _facts(told)]},
            _section(f"Why it waits: {told.reason}"),
            *(_preformatted(one) for one in pieces),
            *_approved(told, told.narrowed),
            {"type": "context", "elements": [_plain(f"{told.subject_id} · {told.digest}")]},
            asked,
        ],
    }


def notice_view(title: str, text: str) -> dict[str, Any]:
    """A view that only says something."""
    return {
        "type": "modal",
        "title": _plain(title, 24),
        "close": _plain("Close"),
        "blocks": [_section(text)],
    }


def _facts(told: ToldSubject) -> list[tuple[str, str]]:
    if told.kind == "alarm":
        given = {"Tenant": told.tenant, "Session": told.session, "Reported by": told.agent}
        about = [("For", told.role), ("Subject", told.name), ("Raised", told.expires_at)]
        return [*about, *((name, value) for name, value in given.items() if value)]
    quorum = f", {told.approvals} of {counted(told.quorum, 'approval')}" if told.quorum else ""
    facts = [
        ("Agent", told.agent),
        ("Tenant", told.tenant),
        ("Session", told.session),
        (_NAMES[told.kind], told.name),
        ("Needs", f"{told.role}{quorum}"),
        ("Until", told.expires_at),
    ]
    if told.tier is not None:
        facts.append(("Tier", told.tier))
    if told.source is not None:
        facts.append(("Source", told.source))
    if told.group is not None:
        then = f", {told.next_group} from {told.next_at} on" if told.next_group else ""
        facts.append(("Group", f"{' → '.join(told.groups)}{then}"))
    return facts


def _end(told: ToldSubject) -> str:
    blocked = f" A gate blocked it: {told.came_to}." if told.came_to else ""
    by = f" by {told.by}{f' ({told.via})' if told.via else ''}" if told.by else ""
    return f"{told.status.capitalize()}{by} at {told.ended_at}: {told.why}.{blocked}"


def _plain(text: str, most: int = FIELD_CHARS) -> Block:
    return {"type": "plain_text", "text": cut(text, most) or "-", "emoji": False}


def _section(text: str) -> Block:
    return {"type": "section", "text": _plain(text, SECTION_CHARS)}


def _preformatted(text: str) -> Block:
    part = {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": text or "-"}]}
    return {"type": "rich_text", "elements": [part]}


def _buttons(told: ToldSubject, page: str | None) -> list[Block]:
    def button(text: str, **more: str) -> Block:
        return {"type": "button", "text": _plain(text), **more}

    answers = [("approve", "primary"), ("deny", "danger")]
    found = [
        button(
            f"{decision.capitalize()} …",
            action_id=f"{DECISION_ACTION}_{decision}",
            style=style,
            value=told.subject_id,
        )
        for decision, style in ([] if told.own_key or told.kind == "memory" else answers)
    ]
    return found if page is None else [*found, button("Open", action_id=PAGE_ACTION, url=page)]
