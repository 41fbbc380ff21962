"""The routes of what waits for a person: lists, one escalation's end, and reviewers' signed answers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Query
from starlette.requests import Request  # noqa: TC002 - FastAPI reads the annotations
from starlette.responses import Response  # noqa: TC002 - as above

from sluice.client.input_kinds import ACTIONS, ESCALATIONS, MEMORY_WRITES, QUARANTINE, RETRIEVALS
from sluice.core.foundation.input_record import escalation_id, memory_id, read_coordinates, verdict_id
from sluice.core.reports.pending_subject import read_status
from sluice.gateway.http.http_errors import HttpError, make_not_found
from sluice.gateway.input_requests import prepare_review
from sluice.gateway.openapi_shapes import (
    ESCALATION_SCHEMA,
    WAITING_SCHEMA,
    EscalationResponse,
    ReviewResponse,
    WaitingResponse,
    build_answer_fields,
    build_review_schema,
)
from sluice.gateway.routes.answer_rendering import build_evaluation, render_answer, render_review
from sluice.gateway.routes.callers import Callers, read_facts
from sluice.gateway.routes.deciding_routes import respond
from sluice.gateway.routes.declared_routes import declare
from sluice.gateway.waiting_subjects import WaitingSubjects, is_of_caller

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.client.answers import ActionAnswer
    from sluice.gateway.decisions import Decisions
    from sluice.gateway.http.api_keys import Caller
    from sluice.gateway.idempotency import StoredAnswer
    from sluice.gateway.input_requests import WaitLimits
    from sluice.gateway.subjects import Subjects

MOST_LISTED = 1000
_OF_RETRIEVALS = escalation_id(f"{RETRIEVALS}:")
Wait = Annotated[float, Query(ge=0, le=3600, description="seconds to wait for its end")]


_TAKEN: dict[int | str, Any] = {
    200: ReviewResponse,
    404: None,
    409: None,
    422: (None, "refused: ended, no approver, wrong role"),
}


@dataclass(frozen=True, slots=True)
class ReviewRoutes:
    """The parts that the routes are made of."""

    callers: Callers
    decisions: Decisions
    subjects: WaitingSubjects
    wait: WaitLimits
    contents: Subjects

    @declare("GET /v1/escalations", "What waits for an approver", {200: WaitingResponse})
    async def escalations(self, request: Request) -> Response:
        """Actions and retrievals of the caller's agents that wait for a person."""
        return await self._list(request, ESCALATIONS)

    @declare("GET /v1/quarantine", "Memories that wait for a reviewer", {200: WaitingResponse})
    async def quarantine(self, request: Request) -> Response:
        """Memories of the caller's agents that wait for a reviewer."""
        return await self._list(request, QUARANTINE)

    @declare(
        "GET /v1/escalations/{subject_id}",
        "How an escalated action stands; waits for its end",
        {200: EscalationResponse, 202: (EscalationResponse, "it waits"), 404: None},
    )
    async def escalation(self, request: Request, subject_id: str, wait: Wait = 0) -> Response:
        """How an escalated action stands: 202 while it waits, 200 once it ended."""
        context = await self.callers.identify(request)
        wait_s = min(wait, self.wait.longest_s)
        subject = self.subjects.get(ESCALATIONS, subject_id)
        if subject is not None:
            if not is_of_caller(subject.fields, context.caller):
                raise make_not_found(subject_id)
            if not await self.subjects.wait_for_end(ESCALATIONS, subject_id, wait_s):
                waiting = self.subjects.get(ESCALATIONS, subject_id) or subject
                return respond(_render_pending(subject_id, waiting.fields), read_facts(request))
        if subject_id.startswith(_OF_RETRIEVALS):
            ended = await self.decisions.fetch_retrieval_end(subject_id, context.caller)
            return respond(_render_retrieval_end(subject_id, ended), read_facts(request))
        first = await self._fetch_first_verdict(subject_id, context.caller)
        end = await self.decisions.fetch_end(first)
        if end is None:
            opened = {} if subject is None else subject.fields
            return respond(_render_pending(subject_id, opened), read_facts(request))
        narrowed = await self.decisions.fetch_narrowed(end)
        if narrowed is not None and context.caller.role is None:  # reviewers see tokens, as on the pages
            narrowed = await self.contents.open_narrowed(first, narrowed)
        return respond(_render_end(subject_id, first, end, narrowed), read_facts(request))

    @declare(
        "POST /v1/escalations/{subject_id}/decision",
        "Approve or deny",
        _TAKEN,
        body=build_review_schema(),
    )
    async def decide_escalation(self, request: Request, subject_id: str) -> Response:
        """A signed answer of an approver to an escalated action."""
        return await self._review(request, subject_id, ESCALATIONS)

    @declare(
        "POST /v1/quarantine/{subject_id}/review",
        "Approve or reject a memory",
        _TAKEN,
        body=build_review_schema(),
    )
    async def review_memory(self, request: Request, subject_id: str) -> Response:
        """A signed answer of a reviewer to a held memory."""
        return await self._review(request, subject_id, QUARANTINE)

    async def _list(self, request: Request, topic: str) -> Response:
        context = await self.callers.identify(request)
        async with self.callers.take_turn(context.caller):
            waiting = self.subjects.list_waiting(topic, context.caller)
            body = {
                "waiting": [build_answer_fields(subject.fields) for subject in waiting[:MOST_LISTED]],
                "count": len(waiting),
            }
            return respond(render_answer(200, body, WAITING_SCHEMA), read_facts(request))

    async def _fetch_first_verdict(self, subject_id: str, caller: Caller) -> dict[str, Any]:
        at = _read_place(subject_id, ACTIONS)
        if at is None or escalation_id(at) != subject_id:
            raise make_not_found(subject_id)
        first = await self.decisions.fetch_decision(verdict_id(at), caller)
        if first is None or first["escalationId"] != subject_id:
            raise make_not_found(subject_id)
        return first

    async def _review(self, request: Request, subject_id: str, topic: str) -> Response:
        context = await self.callers.identify(request)
        subject = self.subjects.get(topic, subject_id)
        opened: Mapping[str, Any] = (
            await self._fetch_ended(subject_id, topic, context.caller) if subject is None else subject.fields
        )
        if not is_of_caller(opened, context.caller):
            raise make_not_found(subject_id)
        prepared = prepare_review(await request.body(), subject_id, str(opened["session_id"]), self.wait)
        parameters = json.loads(prepared.value).get("parameters")
        if topic == ESCALATIONS and parameters is not None:
            await self.contents.require_sealed(opened, parameters)
        record = await self.decisions.review(prepared, subject_id, context.request_id)
        return respond(render_review(record), read_facts(request))

    async def _fetch_ended(self, subject_id: str, topic: str, caller: Caller) -> dict[str, Any]:
        """The decision on what does not wait: the worker refuses an answer to it, and says why."""
        if topic == ESCALATIONS:
            if subject_id.startswith(_OF_RETRIEVALS):
                return await self.decisions.fetch_retrieval_end(subject_id, caller)
            return await self._fetch_first_verdict(subject_id, caller)
        at = _read_place(subject_id, MEMORY_WRITES)
        if at is None or memory_id(at) != subject_id:
            raise make_not_found(subject_id)
        decision = await self.decisions.fetch_decision(subject_id, caller)
        if decision is None:
            raise HttpError(409, "not_decided", f"{subject_id} is not decided yet")
        return decision


def _read_place(an_id: str, topic: str) -> str | None:
    """The coordinates in an id of this topic."""
    try:
        coordinates = read_coordinates(an_id)
    except ValueError:
        return None
    return ":".join(map(str, coordinates)) if coordinates[0] == topic else None


def _render_pending(subject_id: str, opened: Mapping[str, Any]) -> StoredAnswer:
    body = {**build_answer_fields(opened), "escalation_id": subject_id, "status": "pending"}
    return render_answer(202, body, ESCALATION_SCHEMA)


def _render_retrieval_end(subject_id: str, end: dict[str, Any]) -> StoredAnswer:
    reason = end.get("reason") or f"{end.get('approver_id')}: {end.get('justification')}"
    body = {"escalation_id": subject_id, "status": read_status(end), "reason": reason}
    return render_answer(200, {**body, "usable_until": end.get("usable_until")}, ESCALATION_SCHEMA)


def _render_end(
    subject_id: str, first: dict[str, Any], end: ActionAnswer, narrowed: dict[str, Any] | None
) -> StoredAnswer:
    was_approved = end.record["verdict_id"] != first["verdict_id"]
    denied = "expired" if (end.reason or "").startswith("approval_expired") else "denied"
    body = {
        "escalation_id": subject_id,
        "status": "approved" if was_approved else denied,
        "verdict_id": first["verdict_id"],
        "reason": end.reason,
        "parameters": narrowed,
        "resolved": build_evaluation(end.record) if was_approved else None,
    }
    return render_answer(200, body, ESCALATION_SCHEMA)
