"""The end of an escalation: found by its id, whether it comes while somebody waits or came long before."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from app.client.answers import ClientError, InputPlace, NeedsHuman, Verdict
from app.client.input_kinds import ESCALATIONS, REVIEWS, VERDICTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.client.answer_reader import AnswerReader

LONGEST_MS = 24 * 3600 * 1000
"""How far back the end is sought of what an earlier input had escalated."""
TO_DO = "Wait longer for the approver, or call again with the same action_id: the wait goes on"


async def await_end(reader: AnswerReader, verdict: Verdict, timeout_s: float) -> Verdict:
    """What a person, or time, made of an escalated action: the resolved verdict where it was approved, else a
    denied one. Raises NeedsHuman where nobody answered within the time, and ConnectionError."""
    name = verdict.escalation_id or ""
    since = _since(verdict, name)
    partition, topics = since.partition, (ESCALATIONS,)
    try:
        async with asyncio.timeout(timeout_s), reader.heeding(partition, topics):
            answering = reader.expect([name], partition)
            found = await reader.look_back([name], since, topics)
            if found is None:
                found = await asyncio.shield(answering)
            end = found.record
            resolved = end.get("resolved_verdict_id")
            if resolved is None:
                return _denied(verdict, end)
            at = InputPlace(partition, 0, end["input"]["timestamp"])
            answer = await reader.look_back([resolved], at, [VERDICTS])
    except TimeoutError:
        raise NeedsHuman(verdict, TO_DO) from None
    if answer is None:
        raise ClientError(f"{resolved}: approved, but its verdict is not there", "Tell the operator")
    return Verdict.of(answer.record)


async def narrowed_parameters(reader: AnswerReader, resolved: Verdict) -> Mapping[str, Any] | None:
    """The parameters that the approver put in place of the action's own; None: it was approved as it is.

    They lie in the review; the verdict holds its digest.
    """
    if resolved.record.get("narrowed") is None:
        return None
    place = resolved.input
    at = InputPlace(place["partition"], place["offset"], place["timestamp"])
    value = await reader.value_at(REVIEWS, at)
    if value is None or "sha256:" + sha256(value).hexdigest() != place["digest"]:
        raise ClientError("the review that narrowed the action is no longer there", "Propose it again")
    found: Mapping[str, Any] = json.loads(value)["parameters"]
    return found


def _since(verdict: Verdict, escalation_id: str) -> InputPlace:
    """From where on the end may lie: the action came there; a repeat of it came later."""
    place = verdict.input
    partition, offset = map(int, escalation_id.split(":")[2:4])
    back_ms = LONGEST_MS if verdict.duplicate_of is not None else 0
    return InputPlace(partition, offset, place["timestamp"] - back_ms)


def _denied(verdict: Verdict, end: Mapping[str, Any]) -> Verdict:
    if "approver_id" in end:
        reason = f"approval_denied: {end['approver_id']}: {end['justification']}"
    else:
        reason = f"approval_expired: {end['reason']}"
    return replace(verdict, verdict="denied", gate="approval", reason=reason)
