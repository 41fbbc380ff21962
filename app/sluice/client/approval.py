"""Waiting for the end of an escalation; it is found by its id, even if it came long before the wait began."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sluice.client.answers import ActionAnswer, ClientError, InputLocation, NeedsHuman, RetrievalAnswer
from sluice.client.binding import compute_digest, describe_digest_end, describe_end, describe_resolved_verdict
from sluice.client.input_kinds import ESCALATIONS, REVIEWS, VERDICTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.client.answer_reader import AnswerReader
    from sluice.client.binding import AnswerQuery

LONGEST_MS = 24 * 3600 * 1000
"""How far back to look for the end of an escalation that an earlier input opened."""
TO_DO = "Wait longer for the approver, or call again with the same action_id: the wait goes on"


async def await_end(reader: AnswerReader, verdict: ActionAnswer, timeout_s: float) -> ActionAnswer:
    """The resolved verdict if the escalated action was approved; a denied verdict if it was denied or
    expired.

    Raises NeedsHuman if the escalation does not end within the time, and ConnectionError.
    """
    name = verdict.escalation_id or ""
    since = _locate_start(verdict, name)
    try:
        async with asyncio.timeout(timeout_s):
            end = await _find_end(reader, describe_end(verdict, since.timestamp_ms), since)
            resolved = end.get("resolved_verdict_id")
            if resolved is None:
                return _make_denied(verdict, end)
            at = InputLocation(since.partition, 0, end["input"]["timestamp"])
            answer = await reader.look_back(describe_resolved_verdict(verdict, end), at, [VERDICTS])
    except TimeoutError:
        raise NeedsHuman(verdict, TO_DO) from None
    if answer is None:
        raise ClientError(f"{resolved}: approved, but its verdict is not there", "Tell the operator")
    return ActionAnswer.of(answer.record)


async def are_items_approved(reader: AnswerReader, first: RetrievalAnswer, timeout_s: float) -> bool:
    """Whether a person approves a retrieval's withheld items within the time. False: they were denied, they
    expired, or nobody answered. Raises ConnectionError."""
    waiting = {item["escalation_id"] for item in first.withheld} - {None}
    if not waiting:
        return False
    (name,) = waiting
    partition, offset = map(int, name.split(":")[2:4])
    request = first.record["input"]
    since = InputLocation(partition, offset, request["timestamp"])
    sought = describe_digest_end(name, request["digest"], since.timestamp_ms)
    try:
        async with asyncio.timeout(timeout_s):
            end = await _find_end(reader, sought, since)
    except TimeoutError:
        return False
    return end.get("decision") == "approve"


async def _find_end(reader: AnswerReader, sought: AnswerQuery, since: InputLocation) -> Mapping[str, Any]:
    """The record that ends an escalation. `since`: from where on it may be."""
    topics = (ESCALATIONS,)
    async with reader.read_partition(since.partition, topics):
        answering = reader.expect(sought, since.partition, topics)
        answer = await reader.look_back(sought, since, topics)
        if answer is None:
            answer = await asyncio.shield(answering)
        return answer.record


async def fetch_narrowed_parameters(reader: AnswerReader, resolved: ActionAnswer) -> Mapping[str, Any] | None:
    """The parameters by which the approver replaced the action's own; None: it was approved as proposed.

    The review has the parameters; the verdict has their digest.
    """
    if resolved.record.get("narrowed") is None:
        return None
    coordinates = resolved.input
    at = InputLocation(coordinates["partition"], coordinates["offset"], coordinates["timestamp"])
    value = await reader.fetch_value(REVIEWS, at)
    if value is None or compute_digest(value) != coordinates["digest"]:
        raise ClientError("the review that narrowed the action is no longer there", "Propose it again")
    parameters: Mapping[str, Any] = json.loads(value)["parameters"]
    return parameters


def _locate_start(verdict: ActionAnswer, escalation_id: str) -> InputLocation:
    """Return where to begin to look for the end: at the action's own input; a repeat of it came later."""
    coordinates = verdict.input
    partition, offset = map(int, escalation_id.split(":")[2:4])
    back_ms = LONGEST_MS if verdict.duplicate_of is not None else 0
    return InputLocation(partition, offset, coordinates["timestamp"] - back_ms)


def _make_denied(verdict: ActionAnswer, end: Mapping[str, Any]) -> ActionAnswer:
    if "approver_id" in end:
        reason = f"approval_denied: {end['approver_id']}: {end['justification']}"
    else:
        reason = f"approval_expired: {end['reason']}"
    return replace(verdict, verdict="denied", gate="approval", reason=reason)
