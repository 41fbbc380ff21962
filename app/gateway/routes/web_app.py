"""The gateway's application: its routes, their OpenAPI document, and what starts and stops with it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Security
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.security import APIKeyHeader
from starlette.exceptions import HTTPException

from app.gateway.http.edge import ERROR_SCHEMA, Edge, EdgeRules, error_headers
from app.gateway.http.http_errors import HttpError
from app.gateway.idempotency import AnswerStore, IdempotentRequests
from app.gateway.openapi_shapes import (
    AdvisoriesResponse,
    ErrorResponse,
    EscalationResponse,
    EvaluationResponse,
    PendingResponse,
    RerunResponse,
    ReviewResponse,
    SessionResponse,
    WaitingResponse,
    action_schema,
    answer_schema,
    outcome_schema,
    retrieval_schema,
    review_schema,
    write_schema,
)
from app.gateway.routes.callers import Callers, facts_of
from app.gateway.routes.deciding_routes import DecidingRoutes
from app.gateway.routes.reading_routes import LedgerWork, ReadingRoutes
from app.gateway.routes.review_routes import ReviewRoutes
from topics.headers import API_VERSION
from topics.records import MemoryDecision, ReservationSettled, ServedRetrieval

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.requests import Request

    from app.client.exchange import Exchange
    from app.gateway.decisions import Decisions
    from app.gateway.http.api_keys import ApiKeyStore, RateLimiter
    from app.gateway.input_requests import WaitLimits
    from app.gateway.recent_records import RecentRecords
    from app.gateway.registry_view import RegistryView
    from app.gateway.waiting_subjects import WaitingSubjects

log = logging.getLogger(__name__)
_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorResponse} for status in (400, 401, 403, 408, 413, 429, 503, 504, "default")
}
_KEYED: dict[str, Any] = {
    "dependencies": [Security(APIKeyHeader(name="X-Mnemom-Api-Key", auto_error=False))],
    "response_class": Response,
}
_IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "the same request under it again gets the same answer, for 24 h",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}


@dataclass(frozen=True, slots=True)
class GatewayParts:
    """What the routes stand on."""

    exchange: Exchange
    decisions: Decisions
    registry: RegistryView
    keys: ApiKeyStore
    rate: RateLimiter
    wait: WaitLimits
    edge: EdgeRules
    answers: AnswerStore
    subjects: WaitingSubjects
    ledger: LedgerWork
    recent: RecentRecords
    fail: Callable[[], None]


def build_app(parts: GatewayParts) -> Edge:
    """The application. Its lifespan connects and disconnects."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await parts.registry.look()
        await parts.exchange.start()
        await parts.subjects.start(parts.exchange.partitions)
        tasks = [asyncio.create_task(parts.registry.follow()), asyncio.create_task(_watch(parts))]
        try:
            yield
        finally:
            for one in tasks:
                one.cancel()
            await asyncio.wait(tasks)
            await parts.subjects.close()
            await parts.exchange.close()
            await parts.registry.close()
            await parts.answers.close()

    app = FastAPI(
        title="Sluice gateway", version=API_VERSION, lifespan=lifespan, docs_url=None, redoc_url=None
    )
    app.add_exception_handler(HttpError, _told)
    app.add_exception_handler(HTTPException, _told)
    app.add_exception_handler(RequestValidationError, _told)
    app.add_exception_handler(Exception, _failed)
    callers = Callers(parts.keys, parts.rate)
    _add_deciding(
        app,
        DecidingRoutes(
            callers, parts.decisions, parts.registry, parts.wait, IdempotentRequests(parts.answers)
        ),
    )
    standing = (parts.decisions, parts.exchange, parts.registry, parts.subjects, parts.ledger, parts.recent)
    _add_reading(app, ReadingRoutes(callers, *standing))
    _add_reviewing(app, ReviewRoutes(callers, parts.decisions, parts.subjects, parts.wait))
    return Edge(app, parts.edge)


async def _watch(parts: GatewayParts) -> None:
    """End the process where a reader has ended: the supervisor starts it again, and nothing is lost."""
    ends = [asyncio.ensure_future(one.ended()) for one in (parts.exchange.reader, parts.subjects)]
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in ends:
            one.cancel()
    log.error("the gateway stops: its reader of answers, or of what waits for a person, has ended")
    parts.fail()


def _add_deciding(app: FastAPI, routes: DecidingRoutes) -> None:
    app.add_api_route(
        "/v1/evaluate",
        routes.evaluate,
        methods=["POST"],
        summary="Decide on an action",
        responses={
            **_ERRORS,
            200: {"model": EvaluationResponse, "description": "allowed; in standard mode, any decision"},
            202: {"model": EvaluationResponse, "description": "needs_human"},
            422: {"model": EvaluationResponse | ErrorResponse, "description": "denied, with `error` in it"},
        },
        openapi_extra=_with_body(action_schema()),
        **_KEYED,
    )

    records: tuple[tuple[str, Any, str, dict[str, Any], dict[str, Any]], ...] = (
        (
            "/v1/memory/evaluate",
            routes.memory,
            "Decide whether a memory may be kept",
            write_schema(),
            answer_schema(MemoryDecision),
        ),
        (
            "/v1/retrievals/evaluate",
            routes.retrieval,
            "Decide which items the agent may see",
            retrieval_schema(),
            answer_schema(ServedRetrieval),
        ),
        (
            "/v1/outcomes",
            routes.outcome,
            "Take what an action really did",
            outcome_schema(),
            answer_schema(ReservationSettled),
        ),
    )
    for path, handler, summary, asked, answered in records:
        app.add_api_route(
            path,
            handler,
            methods=["POST"],
            summary=summary,
            responses={
                **_ERRORS,
                200: {"description": "decided", "content": {"application/json": {"schema": answered}}},
                202: {"model": PendingResponse, "description": "an outcome that waits for its action"},
                422: {"model": ErrorResponse},
            },
            openapi_extra=_with_body(asked),
            **_KEYED,
        )


def _add_reading(app: FastAPI, routes: ReadingRoutes) -> None:
    app.add_api_route(
        "/v1/verdicts/{verdict_id}",
        routes.verdict,
        methods=["GET"],
        summary="A decision by its id",
        responses={
            **_ERRORS,
            200: {"model": EvaluationResponse},
            202: {"model": PendingResponse, "description": "not decided yet"},
            404: {"model": ErrorResponse},
        },
        **_KEYED,
    )
    app.add_api_route(
        "/v1/verdicts/{verdict_id}/rerun",
        routes.rerun,
        methods=["POST"],
        summary="Decide again what was decided",
        responses={
            **_ERRORS,
            200: {"model": RerunResponse},
            404: {"model": ErrorResponse},
            409: {"model": ErrorResponse, "description": "not decided yet"},
        },
        **_KEYED,
    )
    app.add_api_route(
        "/v1/sessions/{session_id:path}",
        routes.session,
        methods=["GET"],
        summary="A session's totals",
        responses={**_ERRORS, 200: {"model": SessionResponse}, 404: {"model": ErrorResponse}},
        **_KEYED,
    )
    app.add_api_route(
        "/v1/agents/{agent_id}/advisories",
        routes.advisories,
        methods=["GET"],
        summary="All advisories of an agent's newest actions",
        responses={**_ERRORS, 200: {"model": AdvisoriesResponse}},
        **_KEYED,
    )
    app.add_api_route(
        "/v1/quality/report",
        routes.quality,
        methods=["GET"],
        summary="How retrieved items were decided",
        responses={**_ERRORS, 200: {"model": dict[str, Any]}},
        **_KEYED,
    )
    app.add_api_route("/healthz", routes.health, methods=["GET"], summary="The process answers")
    app.add_api_route(
        "/readyz",
        routes.ready,
        methods=["GET"],
        summary="It can decide",
        responses={503: {"model": ErrorResponse}},
    )


def _add_reviewing(app: FastAPI, routes: ReviewRoutes) -> None:
    waiting = {**_ERRORS, 200: {"model": WaitingResponse}}
    answered = {
        **_ERRORS,
        200: {"model": ReviewResponse},
        404: {"model": ErrorResponse},
        409: {"model": ErrorResponse},
        422: {
            "model": ErrorResponse,
            "description": "refused: ended, no approver, wrong role",
        },
    }
    asked = {"requestBody": _with_body(review_schema())["requestBody"]}
    for path, handler, summary in (
        ("/v1/escalations", routes.escalations, "What waits for an approver"),
        ("/v1/quarantine", routes.quarantine, "Memories that wait for a reviewer"),
    ):
        app.add_api_route(path, handler, methods=["GET"], summary=summary, responses=waiting, **_KEYED)
    app.add_api_route(
        "/v1/escalations/{subject_id}",
        routes.escalation,
        methods=["GET"],
        summary="How an escalated action stands; waits for its end",
        responses={
            **_ERRORS,
            200: {"model": EscalationResponse},
            202: {"model": EscalationResponse, "description": "it waits"},
            404: {"model": ErrorResponse},
        },
        **_KEYED,
    )
    for path, answer, summary in (
        ("/v1/escalations/{subject_id}/decision", routes.decide_escalation, "Approve or deny"),
        ("/v1/quarantine/{subject_id}/review", routes.review_memory, "Approve or reject a memory"),
    ):
        app.add_api_route(
            path, answer, methods=["POST"], summary=summary, responses=answered, openapi_extra=asked, **_KEYED
        )


def _with_body(schema: dict[str, Any]) -> dict[str, Any]:
    content = {"application/json": {"schema": schema}}
    return {"requestBody": {"required": True, "content": content}, "parameters": [_IDEMPOTENCY_KEY]}


async def _failed(request: Request, _: Exception) -> Response:
    """A fault of ours; the edge logs it."""
    return await _told(request, HttpError(500, "internal_error", "the gateway failed; its log says why"))


async def _told(request: Request, error: Exception) -> Response:
    """An error as this API writes it, also those of the framework (no such path, no such method)."""
    headers: dict[str, str] = {}
    if isinstance(error, HTTPException):
        headers |= error.headers or {}
        error = HttpError(error.status_code, _CODES.get(error.status_code, "error"), str(error.detail))
    if isinstance(error, RequestValidationError):
        wrong = error.errors()[0]
        error = HttpError(400, "invalid_value", wrong["msg"], path=".".join(map(str, wrong["loc"])))
    assert isinstance(error, HttpError)  # noqa: S101 - registered for these three
    facts_of(request).schema = ERROR_SCHEMA
    headers |= {name.decode(): value.decode() for name, value in error_headers(error)}
    return JSONResponse(error.body, error.status, headers)


_CODES = {404: "not_found", 405: "method_not_allowed"}
