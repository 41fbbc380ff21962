"""The routes that read what was decided, and whether the gateway is well."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.requests import Request  # noqa: TC002 - FastAPI reads the annotations
from starlette.responses import Response  # noqa: TC002 - as above

from app.gateway.decisions import kafka_told
from app.gateway.http.http_errors import HttpError, not_found
from app.gateway.idempotency import StoredAnswer
from app.gateway.openapi_shapes import PENDING_SCHEMA, PendingResponse
from app.gateway.routes.answer_rendering import render_evaluation, rendered, written
from app.gateway.routes.callers import Callers, facts_of
from app.gateway.routes.deciding_routes import respond

if TYPE_CHECKING:
    from app.client.exchange import Exchange
    from app.gateway.decisions import Decisions
    from app.gateway.registry_view import RegistryView
    from app.gateway.session_totals import SessionTotals
    from app.gateway.waiting_subjects import WaitingSubjects

RERUN_SCHEMA, SESSION_SCHEMA = "sluice/rerun/v1", "sluice/session/v1"
Reruns = Callable[[str], Awaitable[dict[str, Any]]]
"""Executes the decision of an id again: its status, and what differs or is gone."""
VERDICT_IDS = ("verdict:", "resolved:")
COME_AGAIN_S = 5


class RerunImpossible(Exception):
    """The evidence cannot be read now; the message says why."""


@dataclass(frozen=True, slots=True)
class ReadingRoutes:
    """What the routes stand on."""

    callers: Callers
    decisions: Decisions
    exchange: Exchange
    registry: RegistryView
    subjects: WaitingSubjects
    reruns: Reruns
    totals: SessionTotals
    rerunning: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))

    async def health(self) -> dict[str, str]:
        """The process answers."""
        return {"status": "ok"}

    async def ready(self) -> dict[str, str]:
        """Whether it reads answers and the registry."""
        if not self.exchange.reader.is_reading:
            raise HttpError(503, "not_ready", "the reader of answers has ended")
        if not self.registry.is_fresh:
            raise HttpError(503, "not_ready", "the registry was not read for a while")
        if not self.subjects.is_current:
            raise HttpError(503, "not_ready", "what waits for a person is not read yet, or no more")
        return {"status": "ready"}

    async def session(self, request: Request, session_id: str) -> Response:
        """The totals of a session, as the ledger said them last."""
        context = await self.callers.context(request)
        facts = facts_of(request)
        async with kafka_told():
            home = self.exchange.home(session_id)
            found = await self.totals.of(session_id, home, context.caller)
        if found is None:
            raise not_found("session")
        facts.session = session_id
        return respond(rendered(200, found, SESSION_SCHEMA), facts)

    async def rerun(self, request: Request, verdict_id: str) -> Response:
        """Decide again what was decided (seed 000, "Rerunnability")."""
        context = await self.callers.context(request)
        if not verdict_id.startswith(VERDICT_IDS):
            raise not_found(verdict_id)
        if await self.decisions.decision(verdict_id, context.caller) is None:
            raise HttpError(409, "not_decided", f"{verdict_id} is not decided yet")
        async with self.rerunning:
            try:
                told = await self.reruns(verdict_id)
            except RerunImpossible as error:
                raise HttpError(503, "unavailable", str(error)).after(COME_AGAIN_S) from None
        body = {"verdict_id": verdict_id, "identical": told["status"] == "identical", **told}
        return respond(rendered(200, body, RERUN_SCHEMA), facts_of(request))

    async def verdict(self, request: Request, verdict_id: str) -> Response:
        """The decision of this id, as POST /v1/evaluate gives it."""
        context = await self.callers.context(request)
        if not verdict_id.startswith(VERDICT_IDS):
            raise not_found(verdict_id)
        record = await self.decisions.decision(verdict_id, context.caller)
        if record is not None:
            return respond(render_evaluation(record, 200), facts_of(request))
        pending = PendingResponse(verdict_id=verdict_id).model_dump(exclude_none=True)
        return respond(StoredAnswer(202, written(pending), {"schema": PENDING_SCHEMA}), facts_of(request))
