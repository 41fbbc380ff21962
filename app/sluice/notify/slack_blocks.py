"""An escalation, a held memory or an alarm as Slack shows it: a message, and the form for an answer. Pure.

What agents and other people wrote stands in `plain_text` objects and in preformatted rich text, in which
Slack reads no markup, mentions or links; the line for notifications, which has no such form, is escaped as
Slack asks for. Everything is cut to Slack's bounds, and characters that cannot be seen stand by their number.

Slack: "Formatting text for app surfaces", "Block Kit reference", as of 2026.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sluice.core.reports.value_words import describe_values
from sluice.text.plurals import count_noun
from sluice.text.visible import visible_text

if TYPE_CHECKING:
    from sluice.notify.reported_subject import ReportedSubject

Block = dict[str, Any]
HEADER_CHARS, FIELD_CHARS, SECTION_CHARS = 150, 300, 1000
MESSAGE_CHARS = 1500
"""Of the parameters, in a message."""
FORM_CHARS = 12_000
"""Of the action, in a form: who approves must have seen all of it."""
PIECE_CHARS = 2_500
MOST_VALUES = 8
"""Of the looked-up values of an action, in a message and in a form."""
MOST_JUSTIFICATION = 1000
EVENT_TYPE = "sluice_subject"
"""Of a message's metadata, by which it is found again."""
DECISION_ACTION, DECISION_FORM, PAGE_ACTION = "sluice_decision", "sluice_decision_form", "sluice_page"
JUSTIFICATION, REMEMBER = "justification", "remember_days"
OWN_KEY = "The policy demands the approver's own key: answer with `sluice escalations` in a terminal."
DAYS_HINT = (
    "Once it was carried out, its values are not asked about again until then. Empty: this action alone."
)
REVIEW = "Review it on the review pages, or with `sluice quarantine review` in a terminal."
_NAMES = {"action": "Action", "retrieval": "Request", "memory": "Write"}
_KINDS = {"action": "an action", "retrieval": "a retrieval", "memory": "a memory"}


def escape(text: str, most: int = FIELD_CHARS) -> str:
    """Escape a text for Slack's mrkdwn: no control character of it is left, so that no text mentions, links
    or marks up."""
    return shorten(text, most).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def shorten(text: str, most: int) -> str:
    """The text as it is seen, at most so many characters, and how many were left out."""
    visible = visible_text(text)
    if len(visible) <= most:
        return visible
    subject = f" … {count_noun(len(visible) - most, 'character')} more"
    return (visible[: max(0, most - len(subject))] + subject)[:most]


def write_headline(subject: ReportedSubject) -> str:
    """One line: how it stands, and with whom."""
    if subject.kind == "alarm":
        return f"Alarm ({subject.tier}) for {subject.role}: {subject.name}"
    what = subject.tool or _KINDS[subject.kind]
    if subject.status == "waiting":
        who = subject.group or (
            f"a {subject.role}" if subject.kind == "memory" else f"an approver ({subject.role})"
        )
        return f"{subject.tier or subject.kind.capitalize()}: {what} of {subject.agent} waits for {who}"
    by = f" by {subject.by}" if subject.by else ""
    blocked = ", and blocked all the same" if subject.came_to else ""
    return f"{subject.status.capitalize()}{by}{blocked}: {what} of {subject.agent}"


def build_message(subject: ReportedSubject, page: str | None = None) -> dict[str, Any]:
    """The `text` and `blocks` of its message, with buttons as long as it waits. `page`: its address on the
    review pages; None where there are none."""
    blocks: list[Block] = [
        {"type": "header", "text": _build_plain(write_headline(subject), HEADER_CHARS)},
        {
            "type": "section",
            "fields": [_build_plain(f"{name}: {value}") for name, value in _list_facts(subject)],
        },
        _build_section(subject.reason if subject.kind == "alarm" else f"Why it waits: {subject.reason}"),
    ]
    if subject.parameters is not None:
        blocks.append(_build_preformatted(shorten(subject.parameters, MESSAGE_CHARS)))
    blocks += _describe_looked_up(subject)
    blocks += _describe_approved(subject, subject.narrowed and shorten(subject.narrowed, MESSAGE_CHARS))
    if subject.status not in {"waiting", "raised"}:
        blocks.append(_build_section(_describe_end(subject)))
    elif subject.own_key or subject.kind == "memory":
        blocks.append(_build_section(OWN_KEY if subject.own_key else REVIEW))
    buttons = _build_buttons(subject, page) if subject.status == "waiting" else []
    if buttons:
        blocks.append({"type": "actions", "elements": buttons})
    names = " · ".join(filter(None, (subject.subject_id, subject.digest)))
    blocks.append({"type": "context", "elements": [_build_plain(names)]})
    return {"text": escape(write_headline(subject), SECTION_CHARS), "blocks": blocks}


def build_metadata(subject: ReportedSubject) -> dict[str, Any]:
    """Build the metadata by which the message is found again."""
    return {"event_type": EVENT_TYPE, "event_payload": {"subject_id": subject.subject_id}}


def write_reminder(subject: ReportedSubject) -> str:
    """The text of a reply under the message, which notifies people as an update does not."""
    return escape(f"{write_headline(subject)}, until {subject.expires_at}", SECTION_CHARS)


def build_plain_message(subject: ReportedSubject) -> dict[str, Any]:
    """The text alone, where Slack refuses the blocks: the escalation is answered elsewhere."""
    where = "answer it with `sluice escalations` or on the review pages"
    if subject.kind == "alarm":
        where = shorten(subject.reason, FIELD_CHARS)
    return {
        "text": f"{escape(write_headline(subject), SECTION_CHARS)} ({escape(subject.subject_id)}): {where}"
    }


def _describe_looked_up(subject: ReportedSubject) -> list[Block]:
    """Describe the values of the action that were looked up and did not simply pass, one block each."""
    blocks = []
    for words in describe_values(subject.values[:MOST_VALUES], subject.agent):
        value = "" if words.value is None else f"\n{shorten(words.value, FIELD_CHARS)}"
        blocks.append(_build_section(f"{shorten(words.sentence, SECTION_CHARS - len(value))}{value}"))
    more = len(subject.values) - len(blocks)
    return [*blocks, _build_section(f"and {count_noun(more, 'other value')}")] if more > 0 else blocks


def _describe_approved(subject: ReportedSubject, narrowed: str | None) -> list[Block]:
    """Describe what exactly the approvals so far are for, while it waits."""
    if subject.status != "waiting" or not subject.approved_by:
        return []
    approved = f"Approved so far by {', '.join(subject.approved_by)}: "
    if not subject.is_narrowed:
        return [_build_section(f"{approved}exactly what waits.")]
    head = _build_section(f"{approved}other parameters. An approval for others starts the count again.")
    pieces = [(narrowed or "")[at : at + PIECE_CHARS] for at in range(0, len(narrowed or ""), PIECE_CHARS)]
    return [head, *map(_build_preformatted, pieces)]


def build_form(
    decision: str, subject: ReportedSubject, action: str, private: dict[str, Any]
) -> dict[str, Any]:
    """The form (a modal view) that shows the whole action and asks for a justification."""
    verb = "Approve" if decision == "approve" else "Deny"
    pieces = [action[at : at + PIECE_CHARS] for at in range(0, len(action), PIECE_CHARS)]
    asked: Block = {
        "type": "input",
        "block_id": JUSTIFICATION,
        "label": _build_plain("Justification, for the record"),
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
        "title": _build_plain(f"{verb} an escalation", 24),
        "submit": _build_plain(verb),
        "close": _build_plain("Cancel"),
        "private_metadata": json.dumps(private),
        "blocks": [
            _build_section(write_headline(subject)),
            {
                "type": "section",
                "fields": [_build_plain(f"{name}: {value}") for name, value in _list_facts(subject)],
            },
            _build_section(f"Why it waits: {subject.reason}"),
            *(_build_preformatted(piece) for piece in pieces),
            *_describe_looked_up(subject),
            *_describe_approved(subject, subject.narrowed),
            {"type": "context", "elements": [_build_plain(f"{subject.subject_id} · {subject.digest}")]},
            asked,
            *([_build_days_input()] if decision == "approve" and subject.may_remember else []),
        ],
    }


def _build_days_input() -> Block:
    """Ask for how many days the action's values are known by an approval."""
    return {
        "type": "input",
        "block_id": REMEMBER,
        "optional": True,
        "label": _build_plain("Known for so many days, for this agent and tool"),
        "hint": _build_plain(DAYS_HINT),
        "element": {
            "type": "number_input",
            "action_id": REMEMBER,
            "is_decimal_allowed": False,
            "min_value": "1",
            "max_value": "30",
        },
    }


def build_notice_view(title: str, text: str) -> dict[str, Any]:
    """A view that only says something."""
    return {
        "type": "modal",
        "title": _build_plain(title, 24),
        "close": _build_plain("Close"),
        "blocks": [_build_section(text)],
    }


def _list_facts(subject: ReportedSubject) -> list[tuple[str, str]]:
    if subject.kind == "alarm":
        fields = {"Tenant": subject.tenant, "Session": subject.session, "Reported by": subject.agent}
        about = [("For", subject.role), ("Subject", subject.name), ("Raised", subject.expires_at)]
        return [*about, *((name, value) for name, value in fields.items() if value)]
    quorum = f", {subject.approvals} of {count_noun(subject.quorum, 'approval')}" if subject.quorum else ""
    facts = [
        ("Agent", subject.agent),
        ("Tenant", subject.tenant),
        ("Session", subject.session),
        (_NAMES[subject.kind], subject.name),
        ("Needs", f"{subject.role}{quorum}"),
        ("Until", subject.expires_at),
    ]
    if subject.tier is not None:
        facts.append(("Tier", subject.tier))
    if subject.source is not None:
        facts.append(("Source", subject.source))
    if subject.group is not None:
        then = f", {subject.next_group} from {subject.next_at} on" if subject.next_group else ""
        facts.append(("Group", f"{' → '.join(subject.groups)}{then}"))
    return facts


def _describe_end(subject: ReportedSubject) -> str:
    blocked = f" A gate blocked it: {subject.came_to}." if subject.came_to else ""
    by = f" by {subject.by}{f' ({subject.via})' if subject.via else ''}" if subject.by else ""
    return f"{subject.status.capitalize()}{by} at {subject.ended_at}: {subject.why}.{blocked}"


def _build_plain(text: str, most: int = FIELD_CHARS) -> Block:
    return {"type": "plain_text", "text": shorten(text, most) or "-", "emoji": False}


def _build_section(text: str) -> Block:
    return {"type": "section", "text": _build_plain(text, SECTION_CHARS)}


def _build_preformatted(text: str) -> Block:
    part = {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": text or "-"}]}
    return {"type": "rich_text", "elements": [part]}


def _build_buttons(subject: ReportedSubject, page: str | None) -> list[Block]:
    def build_button(text: str, **more: str) -> Block:
        return {"type": "button", "text": _build_plain(text), **more}

    answers = [("approve", "primary"), ("deny", "danger")]
    blocks = [
        build_button(
            f"{decision.capitalize()} …",
            action_id=f"{DECISION_ACTION}_{decision}",
            style=style,
            value=subject.subject_id,
        )
        for decision, style in ([] if subject.own_key or subject.kind == "memory" else answers)
    ]
    return blocks if page is None else [*blocks, build_button("Open", action_id=PAGE_ACTION, url=page)]
