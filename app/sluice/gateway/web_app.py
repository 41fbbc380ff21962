"""The gateway's application: its routes, their OpenAPI document, and what starts and stops with it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from sluice.client.sealing import NoSealing
from sluice.gateway.http.edge import ERROR_SCHEMA, Edge, EdgeRules, build_error_headers
from sluice.gateway.http.http_errors import HttpError
from sluice.gateway.idempotency import IdempotencyStore, IdempotentRequests
from sluice.gateway.pages.answers import AnswerPages
from sluice.gateway.pages.audit import AuditPage
from sluice.gateway.pages.freezes import Freezes
from sluice.gateway.pages.grants import Grants
from sluice.gateway.pages.over_time import OverTime
from sluice.gateway.pages.page_routes import PageRoutes, add_pages
from sluice.gateway.pages.page_views import PageViews
from sluice.gateway.pages.search import Search
from sluice.gateway.routes.callers import Callers, read_facts
from sluice.gateway.routes.deciding_routes import DecidingRoutes
from sluice.gateway.routes.declared_routes import add_routes
from sluice.gateway.routes.hook_routes import HookRoutes
from sluice.gateway.routes.quarantine_routes import QuarantineRoutes
from sluice.gateway.routes.reading_routes import LedgerWork, ReadingRoutes
from sluice.gateway.routes.review_routes import ReviewRoutes
from sluice.gateway.subjects import Subjects
from sluice_topics.headers import API_VERSION

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from starlette.requests import Request

    from sluice.client.exchange import Exchange
    from sluice.client.sealing import SealingView
    from sluice.gateway.decisions import Decisions
    from sluice.gateway.delegated_answers import DelegatedAnswers
    from sluice.gateway.http.api_keys import ApiKeyStore
    from sluice.gateway.http.edge import ObserveRequest, RequestTracer
    from sluice.gateway.http.rate_limits import RateLimit
    from sluice.gateway.input_requests import WaitLimits
    from sluice.gateway.ledger_scan import LedgerScan
    from sluice.gateway.pages.visitors import Visitors
    from sluice.gateway.recent_advisories import RecentAdvisories
    from sluice.gateway.recent_records import RecentRecords
    from sluice.gateway.registry_view import RegistryView
    from sluice.gateway.routes.slack_routes import SlackApp
    from sluice.gateway.waiting_subjects import WaitingSubjects

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GatewayParts:
    """The parts that the routes are made of. `observe`, `tracer`: see Edge; `note_serving` is told when it is
    connected, and when it stops; `flush_traces` is called last, in a thread; `sealing` seals personal data of
    inputs."""

    exchange: Exchange
    decisions: Decisions
    registry: RegistryView
    keys: ApiKeyStore
    rate: RateLimit
    wait: WaitLimits
    edge: EdgeRules
    answers: IdempotencyStore
    subjects: WaitingSubjects
    ledger: LedgerWork
    recent: RecentRecords
    scan: LedgerScan
    advised: RecentAdvisories
    people: DelegatedAnswers
    visitors: Visitors
    fail: Callable[[], None]
    slack: SlackApp | None = None
    observe: ObserveRequest | None = None
    tracer: RequestTracer | None = None
    note_serving: Callable[[bool], None] = lambda _: None
    flush_traces: Callable[[], None] = lambda: None
    sealing: SealingView = field(default_factory=NoSealing)


def build_app(parts: GatewayParts) -> Edge:
    """The application. Its lifespan connects and disconnects."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await parts.registry.look()
        await parts.sealing.start()
        await parts.exchange.start()
        await parts.subjects.start(parts.exchange.partitions)
        tasks = [asyncio.create_task(parts.registry.follow()), asyncio.create_task(_watch(parts))]
        parts.note_serving(True)
        try:
            yield
        finally:
            parts.note_serving(False)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await parts.subjects.close()
            await parts.advised.close()
            await parts.exchange.close()
            await parts.sealing.close()
            await parts.registry.close()
            await parts.visitors.close()
            await parts.answers.close()
            await parts.rate.close()
            await asyncio.to_thread(parts.flush_traces)

    app = FastAPI(
        title="Sluice gateway", version=API_VERSION, lifespan=lifespan, docs_url=None, redoc_url=None
    )
    for kind in (HttpError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, _answer_error)
    app.add_exception_handler(Exception, _answer_fault)
    subjects = Subjects(parts.decisions, parts.exchange, parts.subjects, parts.recent, parts.sealing)
    add_routes(app, *_make_routes(parts, subjects))
    add_pages(app, _make_pages(parts, subjects))
    return Edge(app, parts.edge, parts.observe, parts.tracer)


def _make_routes(parts: GatewayParts, subjects: Subjects) -> Iterator[Any]:
    """The objects whose methods answer the API."""
    callers, repeats = Callers(parts.keys, parts.rate), IdempotentRequests(parts.answers)
    deciding = (parts.decisions, parts.registry, parts.wait)
    yield DecidingRoutes(callers, *deciding, repeats, parts.sealing)
    yield HookRoutes(callers, *deciding, parts.subjects, repeats, parts.sealing)
    standing = (parts.decisions, parts.exchange, parts.registry, parts.subjects, parts.ledger, parts.recent)
    yield ReadingRoutes(callers, *standing, parts.advised)
    yield ReviewRoutes(callers, parts.decisions, parts.subjects, parts.wait, subjects)
    if parts.slack is not None:
        from sluice.gateway.routes.slack_routes import SlackRoutes  # noqa: PLC0415 - only where configured

        yield SlackRoutes(parts.slack, parts.registry, subjects, parts.people)
    yield QuarantineRoutes(callers, subjects, parts.ledger)


def _make_pages(parts: GatewayParts, subjects: Subjects) -> PageRoutes:
    views = PageViews(subjects, parts.people, parts.ledger.quality_page, parts.scan)
    forms = AnswerPages(parts.visitors, views), Freezes(parts.visitors, views)
    return PageRoutes(
        parts.visitors,
        views,
        *forms,
        Grants(views),
        Search(views),
        OverTime(views),
        AuditPage(views),
        parts.rate,
    )


async def _watch(parts: GatewayParts) -> None:
    """End the process where a reader has ended: the supervisor starts it again, and nothing is lost."""
    ends = [
        asyncio.ensure_future(reader.wait_until_ended()) for reader in (parts.exchange.reader, parts.subjects)
    ]
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for end in ends:
            end.cancel()
    log.error("the gateway stops: its reader of answers, or of what waits for a person, has ended")
    parts.fail()


async def _answer_fault(request: Request, _: Exception) -> Response:
    """A fault of ours; the edge logs it."""
    return await _answer_error(
        request, HttpError(500, "internal_error", "the gateway failed; its log says why")
    )


async def _answer_error(request: Request, error: Exception) -> Response:
    """An error as this API writes it, also those of the framework (no such path, no such method)."""
    headers: dict[str, str] = {}
    if isinstance(error, HTTPException):
        headers |= error.headers or {}
        error = HttpError(error.status_code, _CODES.get(error.status_code, "error"), str(error.detail))
    if isinstance(error, RequestValidationError):
        wrong = error.errors()[0]
        error = HttpError(400, "invalid_value", wrong["msg"], path=".".join(map(str, wrong["loc"])))
    assert isinstance(error, HttpError)  # noqa: S101 - registered for these three
    read_facts(request).schema = ERROR_SCHEMA
    headers |= {name.decode(): value.decode() for name, value in build_error_headers(error)}
    return JSONResponse(error.body, error.status, headers)


_CODES = {404: "not_found", 405: "method_not_allowed"}
