"""The routes that read what was decided, and whether the gateway is well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.requests import Request  # noqa: TC002 - FastAPI reads the annotations
from starlette.responses import Response  # noqa: TC002 - as above

from app.gateway.answer_rendering import render_evaluation, written
from app.gateway.callers import Callers, facts_of
from app.gateway.deciding_routes import respond
from app.gateway.http_errors import HttpError, not_found
from app.gateway.idempotency import StoredAnswer
from app.gateway.openapi_shapes import PENDING_SCHEMA, PendingResponse

if TYPE_CHECKING:
    from app.client.exchange import Exchange
    from app.gateway.decisions import Decisions
    from app.gateway.registry_view import RegistryView
    from app.gateway.waiting_subjects import WaitingSubjects

VERDICT_IDS = ("verdict:", "resolved:")


@dataclass(frozen=True, slots=True)
class ReadingRoutes:
    """What the routes stand on."""

    callers: Callers
    decisions: Decisions
    exchange: Exchange
    registry: RegistryView
    subjects: WaitingSubjects

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

    async def verdict(self, request: Request, verdict_id: str) -> Response:
        """The decision of this id, as POST /v1/evaluate gives it."""
        context = await self.callers.context(request)
        if not verdict_id.startswith(VERDICT_IDS):
            raise not_found(verdict_id)
        record = await self.decisions.decision(verdict_id, context.caller)
        if record is not None:
            return respond(render_evaluation(record, 200), facts_of(request))
        pending = PendingResponse(verdict_id=verdict_id).model_dump()
        return respond(StoredAnswer(202, written(pending), {"schema": PENDING_SCHEMA}), facts_of(request))
