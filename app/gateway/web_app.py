"""The gateway's routes, as a FastAPI application behind the edge."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request, Security
from fastapi.responses import JSONResponse, Response
from fastapi.security import APIKeyHeader
from starlette.exceptions import HTTPException

from app.client.input_kinds import ACTION
from app.gateway.api_keys import ApiKeyFileError, ApiKeyStore, Caller, RateLimiter
from app.gateway.edge import ERROR_SCHEMA, FACTS, Edge, EdgeRules, error_headers
from app.gateway.evaluation_shapes import (
    EVALUATION_SCHEMA,
    PENDING_SCHEMA,
    ErrorResponse,
    EvaluationResponse,
    PendingResponse,
    evaluation_of,
    request_schema,
    status_of,
)
from app.gateway.http_errors import HttpError, unauthorized
from app.gateway.input_requests import RequestContext, WaitLimits, header_text, prepare_action
from topics.headers import API_VERSION

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from app.client.exchange import Exchange
    from app.gateway.decisions import Decisions
    from app.gateway.registry_view import RegistryView
    from app.gateway.response_headers import ResponseFacts

_KEY = Security(APIKeyHeader(name="X-Mnemom-Api-Key", auto_error=False))
_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorResponse} for status in (400, 401, 403, 413, 429, 503, 504)
}
MAX_KEYS_VERIFIED_AT_ONCE = 2
"""Each takes 19 MiB and some 20 ms of a core."""


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


def build_app(parts: GatewayParts) -> Edge:
    """The application. Its lifespan connects and disconnects."""
    routes = Routes(parts)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await parts.registry.look()
        await parts.exchange.start()
        following = asyncio.create_task(parts.registry.follow())
        try:
            yield
        finally:
            following.cancel()
            await asyncio.wait([following])
            await parts.exchange.close()
            await parts.registry.close()

    app = FastAPI(
        title="Sluice gateway", version=API_VERSION, lifespan=lifespan, docs_url=None, redoc_url=None
    )
    app.add_exception_handler(HttpError, _told)
    app.add_exception_handler(HTTPException, _told)
    app.add_api_route(
        "/v1/evaluate",
        routes.evaluate,
        methods=["POST"],
        summary="Decide on an action",
        response_class=Response,
        responses={
            **_ERRORS,
            200: {"model": EvaluationResponse, "description": "allowed; in standard mode, any decision"},
            202: {"model": EvaluationResponse, "description": "needs_human"},
            422: {"model": EvaluationResponse | ErrorResponse, "description": "denied, with `error` in it"},
        },
        openapi_extra={
            "requestBody": {"required": True, "content": {"application/json": {"schema": request_schema()}}}
        },
    )
    app.add_api_route(
        "/v1/verdicts/{verdict_id}",
        routes.verdict,
        methods=["GET"],
        summary="A decision by its id",
        response_class=Response,
        responses={
            **_ERRORS,
            200: {"model": EvaluationResponse},
            202: {"model": PendingResponse, "description": "not decided yet"},
            404: {"model": ErrorResponse},
        },
    )
    app.add_api_route("/healthz", routes.health, methods=["GET"], summary="The process answers")
    app.add_api_route(
        "/readyz",
        routes.ready,
        methods=["GET"],
        summary="It can decide",
        responses={503: {"model": ErrorResponse}},
    )
    return Edge(app, parts.edge)


class Routes:
    """What each route does."""

    def __init__(self, parts: GatewayParts) -> None:
        self._parts = parts
        self._verifying = asyncio.Semaphore(MAX_KEYS_VERIFIED_AT_ONCE)

    async def health(self) -> dict[str, str]:
        """The process answers."""
        return {"status": "ok"}

    async def ready(self) -> dict[str, str]:
        """Whether it reads answers and the registry."""
        if not self._parts.exchange.reader.is_reading:
            raise HttpError(503, "not_ready", "the reader of answers has ended")
        if not self._parts.registry.is_fresh:
            raise HttpError(503, "not_ready", "the registry was not read for a while")
        return {"status": "ready"}

    async def evaluate(self, request: Request, _key: str | None = _KEY) -> Response:
        """Decide on an action (seeds 000 and 001)."""
        context = await self._context(request)
        facts, parts = _facts(request), self._parts
        prepared = prepare_action(await request.body(), context, parts.registry, parts.wait)
        facts.agent, facts.session = prepared.agent.id, prepared.session
        record = await parts.decisions.ask(ACTION, prepared, context.request_id)
        return _evaluation(record, facts, status_of(record))

    async def verdict(self, request: Request, verdict_id: str, _key: str | None = _KEY) -> Response:
        """The decision of this id, as POST /v1/evaluate gives it."""
        context = await self._context(request)
        facts = _facts(request)
        record = await self._parts.decisions.verdict(verdict_id, context.caller)
        if record is not None:
            return _evaluation(record, facts, 200)
        facts.schema = PENDING_SCHEMA
        return _json(202, PendingResponse(verdict_id=verdict_id).model_dump())

    async def _context(self, request: Request) -> RequestContext:
        """Who asks, and for whom. Raises HttpError."""
        caller, facts = await self._caller(request), _facts(request)
        facts.caller = f"{caller.tenant}/{caller.key_id}"
        wait_s = self._parts.rate.take(caller.key_id, time.monotonic())
        if wait_s is not None:
            told = "this API key has asked too often; come again later"
            raise HttpError(429, "too_many_requests", told).after(max(1, round(wait_s + 0.5)))
        agent, session = (header_text(request.headers.get(f"x-mnemom-{one}")) for one in ("agent", "session"))
        facts.agent, facts.session = agent, session
        return RequestContext(caller, facts.request_id, agent, session)

    async def _caller(self, request: Request) -> Caller:
        given = request.headers.getlist("x-mnemom-api-key")
        if len(given) != 1:
            raise unauthorized("give one API key in X-Mnemom-Api-Key")
        try:
            caller = self._parts.keys.known(given[0])
            if caller is None:
                async with self._verifying:
                    caller = await asyncio.to_thread(self._parts.keys.verify, given[0])
        except ApiKeyFileError as error:
            raise HttpError(503, "unavailable", str(error)) from None
        if caller is None:
            raise unauthorized("this API key does not count")
        return caller


def _facts(request: Request) -> ResponseFacts:
    facts: ResponseFacts = getattr(request.state, FACTS)
    return facts


def _evaluation(record: Mapping[str, Any], facts: ResponseFacts, status: int) -> Response:
    facts.schema = EVALUATION_SCHEMA
    facts.checkpoints, facts.advisories = record["checkpoints"], record["advisories"]
    facts.agent, facts.session = record["agent_id"], record["session_id"]
    facts.is_decision_on_action = True
    facts.log |= {"verdict_id": record["verdict_id"], "verdict": record["verdict"]}
    return _json(status, evaluation_of(record))


def _json(status: int, body: Mapping[str, Any]) -> Response:
    written = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(written.encode(), status, media_type="application/json")


async def _told(request: Request, error: Exception) -> Response:
    """An error as this API writes it, also those of the framework (no such path, no such method)."""
    if isinstance(error, HTTPException):
        headers = dict(error.headers or {})
        error = HttpError(error.status_code, _CODES.get(error.status_code, "error"), str(error.detail))
    else:
        headers = {}
    assert isinstance(error, HttpError)  # noqa: S101 - registered for these two
    _facts(request).schema = ERROR_SCHEMA
    headers |= {name.decode(): value.decode() for name, value in error_headers(error)}
    return JSONResponse(error.body, error.status, headers)


_CODES = {404: "not_found", 405: "method_not_allowed"}
