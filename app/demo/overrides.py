"""A reviewer's answer to the escalation of a denied item: a signed override, and the agent asks again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.core.clock import milliseconds_of, rfc3339
from app.demo.plan import retrieval_of
from app.demo.retrievals import STORY_AGAIN
from app.demo.trust import REVIEWER

if TYPE_CHECKING:
    from app.demo.answers import Answers
    from app.demo.library import Override
    from app.demo.plan import Planned
    from app.demo.read_answers import Read

_HOUR_MS = 3600 * 1000


@dataclass(frozen=True, slots=True)
class Answered:
    """Registry entries to be signed by the reviewer, and the retrievals to be asked again."""

    entries: list[dict[str, Any]]
    again: list[Planned]


def answer_escalations(answers: Answers, override: Override, time: str) -> Answered:
    """Of every retrieval that opened an escalation; `time` as for `make_plan`."""
    waiting = [one for one in answers.retrievals() if one.escalated]
    entries = [_override(decision, override) for one in waiting for decision in one.escalated]
    return Answered(entries, [_again(one, time) for one in waiting])


def _override(decision: dict[str, Any], override: Override) -> dict[str, Any]:
    """For exactly this item, body, agent and session."""
    until = milliseconds_of(decision["timestamp"]) + override.hours * _HOUR_MS
    spec = {
        "tenant_id": decision["tenant_id"],
        "item_id": decision["item_id"],
        "agent_id": decision["agent_id"],
        "session_id": decision["session_id"],
        "body_digest": decision["body_digest"],
        "approver_id": REVIEWER,
        "expires_at": rfc3339(until),
        "justification": override.justification,
    }
    return {"kind": "quality_override", "id": f"for-{decision['item_id']}", "revision": 1, "spec": spec}


def _again(one: Read, time: str) -> Planned:
    return retrieval_of(one.planned.fields | {"request_id": STORY_AGAIN}, time)
