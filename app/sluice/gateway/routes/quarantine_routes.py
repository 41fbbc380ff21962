"""The routes of what held memories say, and of their counts: for reviewers' keys, not for agents'."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel
from starlette.requests import Request  # noqa: TC002 - FastAPI reads the annotations
from starlette.responses import Response  # noqa: TC002 - as above

from sluice.gateway.http.http_errors import HttpError, not_found
from sluice.gateway.openapi_shapes import answer_fields
from sluice.gateway.routes.answer_rendering import rendered
from sluice.gateway.routes.callers import Callers, facts_of
from sluice.gateway.routes.deciding_routes import respond
from sluice.gateway.routes.reading_routes import COME_AGAIN_S, LedgerUnreadable, LedgerWork
from sluice.notify.told_subject import LEFT

if TYPE_CHECKING:
    from sluice.gateway.http.api_keys import Caller
    from sluice.gateway.subjects import Subjects

HELD_SCHEMA, COUNTS_SCHEMA = "sluice/held_memory/v1", "sluice/memory_counts/v1"
STATES = {"sluice/quarantine_entered/v1": "waiting", **LEFT}
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
    """What the routes stand on."""

    callers: Callers
    subjects: Subjects
    ledger: LedgerWork

    async def show(self, request: Request, subject_id: str) -> Response:
        """One memory whole, as `sluice quarantine show` has it."""
        caller = await self._reviewer(request)
        if not subject_id.startswith("memory:"):
            raise not_found(subject_id)
        async with self.callers.turn(caller):
            decision = await self.subjects.decision(subject_id, caller)
            followed = await self.subjects.followed(decision, caller)
            content = await self.subjects.content(decision)
        events = [one for one in followed if one.get("schema") in STATES]
        body = {
            "memory_id": subject_id,
            "state": STATES[events[-1]["schema"]] if events else NEVER_HELD,
            "decision": answer_fields(decision),
            "events": [answer_fields(one) for one in events],
            "content": content["content"] if isinstance(content, dict) else None,
        }
        return respond(rendered(200, body, HELD_SCHEMA), facts_of(request))

    async def stats(self, request: Request) -> Response:
        """How many writes of the tenant's agents were decided how, as `sluice quarantine stats` has it."""
        caller = await self._reviewer(request)
        async with self.callers.turn(caller):
            try:
                counts = await self.ledger.memory_counts(caller.tenant)
            except LedgerUnreadable as error:
                raise HttpError(503, "unavailable", str(error)).after(COME_AGAIN_S) from None
        rows = [one for one in counts if caller.speaks_for(one["agent"])]
        return respond(rendered(200, _with_sum(rows), COUNTS_SCHEMA), facts_of(request))

    async def _reviewer(self, request: Request) -> Caller:
        """Raises HttpError: 403 for an agent's key."""
        caller = (await self.callers.context(request)).caller
        if caller.role != "reviewer":
            raise HttpError(403, "reviewer_key_needed", "only a reviewer's key reads what is held")
        return caller


def _with_sum(rows: list[dict[str, Any]]) -> dict[str, Any]:
    overall: Counter[str] = Counter()
    for one in rows:
        overall.update({name: count for name, count in one.items() if name != "agent"})
    return {"by": "agent", "rows": rows, "overall": dict(overall)}
