"""The routes that read what was decided, and whether the gateway is well."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

from fastapi import Query
from starlette.requests import Request  # noqa: TC002 - FastAPI reads the annotations
from starlette.responses import Response

from sluice.gateway.decisions import translate_faults
from sluice.gateway.http.http_errors import HttpError, make_not_found
from sluice.gateway.idempotency import StoredAnswer
from sluice.gateway.input_requests import require_agent
from sluice.gateway.openapi_shapes import (
    PENDING_SCHEMA,
    AdvisoriesResponse,
    CheckpointResponse,
    EvaluationResponse,
    FreezesResponse,
    InclusionResponse,
    PendingResponse,
    RerunResponse,
    SessionResponse,
)
from sluice.gateway.routes.answer_rendering import (
    read_checkpoint,
    render_answer,
    render_evaluation,
    write_body,
)
from sluice.gateway.routes.callers import Callers, read_facts
from sluice.gateway.routes.deciding_routes import respond
from sluice.gateway.routes.declared_routes import declare, declare_open
from sluice_topics.checkpoints import CHECKPOINT_ID

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sluice.client.exchange import Exchange
    from sluice.gateway.decisions import Decisions
    from sluice.gateway.recent_advisories import RecentAdvisories
    from sluice.gateway.recent_records import RecentRecords
    from sluice.gateway.registry_view import RegistryView
    from sluice.gateway.waiting_subjects import WaitingSubjects

T = TypeVar("T")
RERUN_SCHEMA, SESSION_SCHEMA = "sluice/rerun/v1", "sluice/session/v1"
ADVISORIES_SCHEMA, QUALITY_SCHEMA = "sluice/advisories/v1", "sluice/quality_report/v1"
Limit = Annotated[int, Query(ge=1, le=10_000, description="how many, the newest")]
Day = Annotated[
    str | None,
    Query(pattern=r"^\d{4}-\d\d-\d\d$", description="a day in UTC: 2026-01-31"),
]
SessionId = Annotated[str | None, Query(min_length=1, max_length=256, description="the session of the call")]
FREEZES_SCHEMA = "sluice/freezes/v1"
INDEX_SCHEMA = "sluice/index/v1"
INDEX = {"pages": "/review", "openapi": "/openapi.json", "health": "/healthz", "ready": "/readyz"}
CHECKPOINT_SCHEMA = "sluice/integrity_checkpoint/v1"
VERDICT_IDS = ("verdict:", "resolved:")
COME_AGAIN_S = 5


class LedgerUnreadable(Exception):
    """The ledger cannot be read now; the message says why."""


class LedgerWork(NamedTuple):
    """What reads much of the ledger, in a thread of its own. Each raises LedgerUnreadable.

    `rerun` executes the decision of an id again: its status, and what differs or is gone. `quality`: the
    report of a tenant's retrievals between two days, None for no bound. `quality_page`: that report of all
    days, as an HTML document. `memory_counts`: how many writes of each agent of a tenant were decided how.
    `prove`: that the records of an id are in the ledger of the last tree head; None: of no head yet.
    """

    rerun: Callable[[str], Awaitable[dict[str, Any]]]
    quality: Callable[[str, str | None, str | None], Awaitable[dict[str, Any]]]
    quality_page: Callable[[str], Awaitable[str]]
    memory_counts: Callable[[str], Awaitable[list[dict[str, Any]]]]
    prove: Callable[[str], Awaitable[dict[str, Any] | None]]


@dataclass(frozen=True, slots=True)
class ReadingRoutes:
    """The parts that the routes are made of."""

    callers: Callers
    decisions: Decisions
    exchange: Exchange
    registry: RegistryView
    subjects: WaitingSubjects
    ledger: LedgerWork
    recent: RecentRecords
    advised: RecentAdvisories
    one_at_a_time: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))

    @declare_open("GET /", "", {}, include_in_schema=False)
    async def index(self, request: Request) -> Response:
        """The way in: people get to the pages, programs get the addresses of what there is."""
        if "application/json" in request.headers.get("accept", ""):
            return respond(render_answer(200, INDEX, INDEX_SCHEMA), read_facts(request))
        return Response(status_code=303, headers={"Location": INDEX["pages"]})

    @declare_open("GET /healthz", "The process answers", {})
    async def health(self) -> dict[str, str]:
        """The process answers."""
        return {"status": "ok"}

    @declare_open("GET /readyz", "It can decide", {503: None})
    async def ready(self) -> dict[str, str]:
        """Whether the broker is there, and it reads answers and the registry."""
        if self.exchange.is_broker_away:
            raise HttpError(503, "not_ready", "the broker is away")
        if not self.exchange.reader.is_reading:
            raise HttpError(503, "not_ready", "the reader of answers has ended")
        if not self.registry.is_fresh:
            raise HttpError(503, "not_ready", "the registry was not read for a while")
        if not self.subjects.is_current:
            raise HttpError(503, "not_ready", "what waits for a person is not read yet, or no more")
        return {"status": "ready"}

    @declare("GET /v1/sessions/{session_id:path}", "A session's totals", {200: SessionResponse, 404: None})
    async def session(self, request: Request, session_id: str) -> Response:
        """The totals of a session, as the ledger said them last."""
        context = await self.callers.identify(request)
        facts = read_facts(request)
        async with translate_faults(), self.callers.take_turn(context.caller):
            home = self.exchange.find_partition(session_id)
            totals = await self.recent.fetch_totals(session_id, home, context.caller)
        if totals is None:
            raise make_not_found("session")
        facts.session = session_id
        return respond(render_answer(200, totals, SESSION_SCHEMA), facts)

    @declare(
        "GET /v1/agents/{agent_id}/advisories",
        "All advisories of an agent's newest actions",
        {200: AdvisoriesResponse},
    )
    async def advisories(self, request: Request, agent_id: str, limit: Limit = 100) -> Response:
        """The advisories of an agent's newest actions, all of them (seed 002, X-Mnemom-Advisory)."""
        context = await self.callers.identify(request)
        agent = require_agent(agent_id, context.caller, self.registry).id
        facts = read_facts(request)
        facts.agent = agent
        async with translate_faults(), self.callers.take_turn(context.caller):
            advisories = await self.advised.fetch_advisories(
                context.caller.tenant, agent, self.exchange.partitions
            )
            body = {"agent_id": agent, "advisories": advisories[:limit], "count": len(advisories)}
            return respond(render_answer(200, body, ADVISORIES_SCHEMA), facts)

    @declare(
        "GET /v1/agents/{agent_id}/freezes",
        "What is frozen of an agent: ask right before a tool starts",
        {200: FreezesResponse},
    )
    async def freezes(self, request: Request, agent_id: str, session_id: SessionId = None) -> Response:
        """What is frozen of an agent in a session, as this gateway follows the registry: no question to the
        broker. Raises HttpError, 503 too where the registry was not read lately: nobody knows then."""
        context = await self.callers.identify(request)
        agent = require_agent(agent_id, context.caller, self.registry).id
        facts = read_facts(request)
        facts.agent = agent
        if not self.registry.is_fresh:
            raise HttpError(503, "not_ready", "the registry was not read for a while: start no tool")
        frozen = self.registry.registry.find_freezes(context.caller.tenant, agent, session_id or "")
        listed = [
            {
                "freeze": freeze.key,
                "subject": freeze.subject,
                "subject_id": freeze.subject_id,
                "stage": freeze.stage,
                "reason": freeze.reason,
            }
            for freeze in frozen
        ]
        body = {"agent_id": agent, "session_id": session_id, "may_start": not listed, "freezes": listed}
        return respond(render_answer(200, body, FREEZES_SCHEMA), facts)

    @declare("GET /v1/quality/report", "How retrieved items were decided", {200: dict[str, Any]})
    async def quality(self, request: Request, since: Day = None, until: Day = None) -> Response:
        """How the tenant's retrieved items were decided (seed 004)."""
        context = await self.callers.identify(request)
        if context.caller.agents is not None:
            raise HttpError(403, "tenant_key_needed", "the report is about all agents: so must the key be")
        for name, day in (("since", since), ("until", until)):
            _check_day(name, day)
        report = await self._read_ledger(partial(self.ledger.quality, context.caller.tenant, since, until))
        return respond(render_answer(200, report, QUALITY_SCHEMA), read_facts(request))

    @declare(
        "POST /v1/verdicts/{verdict_id}/rerun",
        "Decide again what was decided",
        {200: RerunResponse, 404: None, 409: (None, "not decided yet")},
    )
    async def rerun(self, request: Request, verdict_id: str) -> Response:
        """Decide again what was decided (seed 000, "Rerunnability")."""
        await self._require_decided(request, verdict_id)
        result = await self._read_ledger(partial(self.ledger.rerun, verdict_id))
        body = {"verdict_id": verdict_id, "identical": result["status"] == "identical", **result}
        return respond(render_answer(200, body, RERUN_SCHEMA), read_facts(request))

    @declare(
        "GET /v1/verdicts/{verdict_id}/proof",
        "The proof that a decision is in the ledger that a tree head signs",
        {200: InclusionResponse, 404: None, 409: (None, "not decided, or in no tree head yet")},
    )
    async def proof(self, request: Request, verdict_id: str) -> Response:
        """The proof that a decision is in the ledger that a tree head signs (docs/tree-heads.md)."""
        await self._require_decided(request, verdict_id)
        proof = await self._read_ledger(partial(self.ledger.prove, verdict_id))
        if proof is None:
            raise HttpError(409, "no_tree_head", f"no tree head signs {verdict_id} yet")
        return respond(render_answer(200, proof, proof["schema"]), read_facts(request))

    async def _require_decided(self, request: Request, verdict_id: str) -> None:
        """Raises HttpError where the caller may not see the decision, or there is none yet."""
        context = await self.callers.identify(request)
        if not verdict_id.startswith(VERDICT_IDS):
            raise make_not_found(verdict_id)
        if await self.decisions.fetch_decision(verdict_id, context.caller) is None:
            raise HttpError(409, "not_decided", f"{verdict_id} is not decided yet")

    async def _read_ledger(self, read: Callable[[], Awaitable[T]]) -> T:
        """What is read from the whole ledger, by one request at a time. Raises HttpError."""
        async with self.one_at_a_time:
            try:
                return await read()
            except LedgerUnreadable as error:
                raise HttpError(503, "unavailable", str(error)).set_retry_after(COME_AGAIN_S) from None

    @declare(
        "GET /v1/verdicts/{verdict_id}",
        "A decision by its id",
        {200: EvaluationResponse, 202: (PendingResponse, "not decided yet"), 404: None},
    )
    async def verdict(self, request: Request, verdict_id: str) -> Response:
        """The decision of this id, as POST /v1/evaluate gives it."""
        context = await self.callers.identify(request)
        if not verdict_id.startswith(VERDICT_IDS):
            raise make_not_found(verdict_id)
        record = await self.decisions.fetch_decision(verdict_id, context.caller)
        if record is not None:
            return respond(render_evaluation(record, 200), read_facts(request))
        pending = PendingResponse(verdict_id=verdict_id).model_dump(exclude_none=True)
        return respond(
            StoredAnswer(202, write_body(pending), {"schema": PENDING_SCHEMA}), read_facts(request)
        )

    @declare(
        "GET /v1/integrity-checkpoints/{checkpoint_id}",
        "What a model made of an agent's reasoning",
        {200: CheckpointResponse, 404: None},
    )
    async def checkpoint(self, request: Request, checkpoint_id: str) -> Response:
        """The analysis of an agent's reasoning and what attests it (seed 002, X-AIP-Checkpoint-Id)."""
        context = await self.callers.identify(request)
        verdict_id = checkpoint_id.removeprefix(CHECKPOINT_ID)
        if verdict_id == checkpoint_id or not verdict_id.startswith(VERDICT_IDS):
            raise make_not_found(checkpoint_id)
        record = await self.decisions.fetch_decision(verdict_id, context.caller)
        checkpoint = None if record is None else read_checkpoint(record)
        if checkpoint is None:
            raise make_not_found(checkpoint_id)
        return respond(render_answer(200, checkpoint, CHECKPOINT_SCHEMA), read_facts(request))


def _check_day(name: str, day: str | None) -> None:
    try:
        if day is not None:
            date.fromisoformat(day)
    except ValueError:
        raise HttpError(400, "invalid_value", f"no day: {day}", path=name) from None
