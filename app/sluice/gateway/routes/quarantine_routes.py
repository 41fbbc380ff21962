"""The routes of what held memories say, and of their counts: for reviewers' keys, not for agents'."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel
from starlette.requests import Request  # noqa: TC002 - FastAPI reads the annotations
from starlette.responses import Response  # noqa: TC002 - as above

from sluice.core.reports.pending_subject import LEFT, OPENS, read_status
from sluice.gateway.http.http_errors import HttpError, make_not_found
from sluice.gateway.openapi_shapes import build_answer_fields
from sluice.gateway.routes.answer_rendering import render_answer
from sluice.gateway.routes.callers import Callers, read_facts
from sluice.gateway.routes.deciding_routes import respond
from sluice.gateway.routes.declared_routes import declare
from sluice.gateway.routes.reading_routes import COME_AGAIN_S, LedgerUnreadable, LedgerWork

if TYPE_CHECKING:
    from sluice.gateway.http.api_keys import Caller
    from sluice.gateway.subjects import Subjects

HELD_SCHEMA, COUNTS_SCHEMA = "sluice/held_memory/v1", "sluice/memory_counts/v1"
NEVER_HELD = "never held"


class HeldMemoryResponse(BaseModel):
    """One memory whole; `content` null where its input is gone, or is not what was decided on."""

    memory_id: str
    state: Literal["waiting", "approved", "rejected", "expired", "evicted", "never held"]
    decision: dict[str, Any]
    events: list[dict[str, Any]]
    content: str | None


class MemoryCountsResponse(BaseModel):
    """How many writes were decided how, of each agent and together."""

    by: Literal["agent"]
    rows: list[dict[str, Any]]
    overall: dict[str, int]


@dataclass(frozen=True, slots=True)
class QuarantineRoutes:
    """The parts that the routes are made of."""

    callers: Callers
    subjects: Subjects
    ledger: LedgerWork

    @declare(
        "GET /v1/quarantine/{subject_id}",
        "A memory with its content, for its reviewers",
        {200: HeldMemoryResponse, 404: None, 409: (None, "not decided yet")},
    )
    async def show(self, request: Request, subject_id: str) -> Response:
        """One memory whole, as `sluice quarantine show` has it."""
        caller = await self._require_reviewer(request)
        if not subject_id.startswith("memory:"):
            raise make_not_found(subject_id)
        async with self.callers.take_turn(caller):
            decision = await self.subjects.fetch_decision(subject_id, caller)
            followed = await self.subjects.fetch_followed(decision, caller)
            content = await self.subjects.fetch_content(decision)
        events = [record for record in followed if record.get("schema") in {*OPENS, *LEFT}]
        body = {
            "memory_id": subject_id,
            "state": read_status(events[-1]) if events else NEVER_HELD,
            "decision": build_answer_fields(decision),
            "events": [build_answer_fields(event) for event in events],
            "content": content["content"] if isinstance(content, dict) else None,
        }
        return respond(render_answer(200, body, HELD_SCHEMA), read_facts(request))

    @declare("GET /v1/quarantine/stats", "How many memories were decided how", {200: MemoryCountsResponse})
    async def stats(self, request: Request) -> Response:
        """How many writes of the tenant's agents were decided how, as `sluice quarantine stats` has it."""
        caller = await self._require_reviewer(request)
        async with self.callers.take_turn(caller):
            try:
                counts = await self.ledger.memory_counts(caller.tenant)
            except LedgerUnreadable as error:
                raise HttpError(503, "unavailable", str(error)).set_retry_after(COME_AGAIN_S) from None
        rows = [count for count in counts if caller.is_bound_to(count["agent"])]
        return respond(render_answer(200, _add_sum(rows), COUNTS_SCHEMA), read_facts(request))

    async def _require_reviewer(self, request: Request) -> Caller:
        """Raises HttpError: 403 for an agent's key."""
        caller = (await self.callers.identify(request)).caller
        if caller.role != "reviewer":
            raise HttpError(403, "reviewer_key_needed", "only a reviewer's key reads what is held")
        return caller


def _add_sum(rows: list[dict[str, Any]]) -> dict[str, Any]:
    overall: Counter[str] = Counter()
    for row in rows:
        overall.update({name: count for name, count in row.items() if name != "agent"})
    return {"by": "agent", "rows": rows, "overall": dict(overall)}
