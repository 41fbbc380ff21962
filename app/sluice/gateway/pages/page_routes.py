"""The pages' routes under /review, and who may come in."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.responses import StreamingResponse

from sluice.gateway.http.edge import EVENTS
from sluice.gateway.http.http_errors import HttpError, make_not_found
from sluice.gateway.pages import rendering
from sluice.gateway.pages.forms import read_form
from sluice.gateway.pages.page_views import ROOT, PageViews, Visit
from sluice.gateway.routes.callers import read_facts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.responses import Response

    from sluice.gateway.http.rate_limits import RateLimit
    from sluice.gateway.pages.answers import AnswerPages
    from sluice.gateway.pages.audit import AuditPage
    from sluice.gateway.pages.freezes import Freezes
    from sluice.gateway.pages.grants import Grants
    from sluice.gateway.pages.log_ins import Session
    from sluice.gateway.pages.over_time import OverTime
    from sluice.gateway.pages.search import Search
    from sluice.gateway.pages.visitors import Visitors

    Handler = Callable[[Visit], Awaitable[Response]]

HEARTBEAT_S = 15.0
MOST_DIGITS = 18
MOST_STREAMS, MOST_STREAMS_OF_ONE = 500, 8
"""Of all people, and of one person."""
SETTLE_S = 0.5
"""After an event: many changes at once are told once."""


@dataclass(slots=True)
class PageRoutes:
    """The parts that the pages are made of."""

    visitors: Visitors
    views: PageViews
    answers: AnswerPages
    freezes: Freezes
    grants: Grants
    search: Search
    over_time: OverTime
    audit: AuditPage
    rate: RateLimit
    streams: Counter[str] = field(default_factory=Counter)

    async def show_people(self, visit: Visit) -> Response:
        """Who is logged in, for admins, who may end log-ins."""
        if "admin" not in visit.session.account.roles:
            raise HttpError(403, "not_an_admin", "only admins see who is logged in")
        tenant = visit.session.account.tenant_id
        if visit.request.method == "POST":
            form = await read_form(visit.request)
            self.visitors.check(visit.request, form, visit.session)
            for session in await self.visitors.list_sessions(tenant):
                if session.handle == form.get("session"):
                    await self.visitors.log_out(session)
                    await self.visitors.add_notice(
                        visit.session, ("good", f"ended a log-in of {session.account.name}")
                    )
            return rendering.redirect(f"{ROOT}/people")
        sessions, now = await self.visitors.list_sessions(tenant), self.visitors.read_clock()
        return self.views.render(visit, "people.html", found=sessions, now=now)

    async def stream_changes(self, visit: Visit) -> Response:
        """Server-sent events: `changed` whenever something of the tenant opens, changes or ends. At once
        where something did after the page was made, which says so by `since`: a number of this gateway."""
        of_one = self.streams[_describe_person(visit.session)]
        if of_one >= MOST_STREAMS_OF_ONE or self.streams.total() >= MOST_STREAMS:
            raise HttpError(503, "too_many_streams", "too many pages are open").set_retry_after(30)
        since = visit.request.query_params.get("since", "")
        shown = int(since) if since.isascii() and since.isdigit() and len(since) < MOST_DIGITS else -1
        return StreamingResponse(self._generate_events(visit.session, shown), media_type="text/event-stream")

    async def log_out(self, visit: Visit) -> Response:
        """End the session."""
        self.visitors.check(visit.request, await read_form(visit.request), visit.session)
        await self.visitors.log_out(visit.session)
        response = rendering.redirect(f"{ROOT}/login")
        self.visitors.clear_cookie(response)
        return response

    async def log_in(self, request: Request) -> Response:
        """The form, and what comes of it."""
        token, wrong, status = self.visitors.choose_login_token(request), None, 200
        after = request.query_params.get("next", "")
        if request.method == "POST":
            try:
                session = await self.visitors.log_in(request, await read_form(request))
                if session is not None:
                    ours = after.startswith(f"{ROOT}/") and "\\" not in after
                    response = rendering.redirect(after if ours else f"{ROOT}/escalations")
                    self.visitors.set_cookie(response, session)
                    return response
                status, wrong = 401, "This name and password do not fit."
            except HttpError as error:
                status, wrong = error.status, f"{error.message}."
        response = rendering.render_page(
            "login.html", status, token=token, wrong=wrong, after=quote(after), session=None
        )
        self.visitors.set_login_cookie(response, token)
        return response

    async def _generate_events(self, session: Session, number: int) -> AsyncIterator[str]:
        tenant = session.account.tenant_id
        person = _describe_person(session)
        self.streams[person] += 1
        try:
            while self.streams[person] <= MOST_STREAMS_OF_ONE and await self.visitors.is_open(session):
                new = await self.views.subjects.waiting.wait_for_change(tenant, number, HEARTBEAT_S)
                if new == number or number < 0:
                    yield ": still here\n\n"
                else:
                    yield "event: changed\ndata: now\n\n"
                    await asyncio.sleep(SETTLE_S)
                number = new
        finally:
            self.streams[person] -= 1
            self.streams += Counter()  # forget who has none


def _describe_person(session: Session) -> str:
    return f"{session.account.tenant_id}/{session.account.name}"


def _require_login(routes: PageRoutes, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """The handler for who is logged in; others go to the log-in first. Errors become pages."""

    @wraps(handler)
    async def answer(request: Request) -> Response:
        session = None
        try:
            session = await routes.visitors.find_session(request)
            if session is None:
                return _redirect_to_login(request)
            read_facts(request).caller = f"{session.account.tenant_id}/{session.caller.key_id}"
            wait_s = await routes.rate.take(session.caller.key_id)
            if wait_s is not None:
                raise HttpError(429, "too_many_requests", "too many requests").set_retry_after(
                    round(wait_s) + 1
                )
            response = await handler(Visit(request, session))
            await routes.visitors.keep(session)
        except HttpError as error:
            response = rendering.render_error(error, session=session)
        if session is not None:
            routes.visitors.set_cookie(response, session) if session.by_sso else None
        return response

    return answer


def _redirect_to_login(request: Request) -> Response:
    """A form or a stream is not sent again after the log-in. Raises HttpError."""
    if request.method != "GET" or request.url.path == EVENTS:
        raise HttpError(401, "unauthorized", "log in first")
    after = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return rendering.redirect(f"{ROOT}/login?next={quote(after)}")


def add_pages(app: FastAPI, routes: PageRoutes) -> None:
    """Add the pages to the application; they are no part of the API's document."""

    async def home(_: Request) -> Response:
        return rendering.redirect(f"{ROOT}/escalations")

    async def file(request: Request) -> Response:
        file_response = rendering.serve_static(request.path_params["name"])
        if file_response is None:
            raise make_not_found("file")
        return file_response

    views, answers = routes.views, routes.answers
    pages: tuple[tuple[str, Handler, str], ...] = (
        ("escalations", views.show_escalations, "GET"),
        ("escalations/{an_id}", views.show_escalation, "GET"),
        ("escalations", answers.answer_many, "POST"),
        ("escalations/{an_id}", answers.answer, "POST"),
        ("escalations/{an_id}/standing", views.show_state, "GET"),
        ("escalations/{an_id}/grant", routes.grants.prepare, "GET"),
        ("escalations/{an_id}/grant/entry", routes.grants.download_entry, "GET"),
        ("quarantine", views.show_quarantine, "GET"),
        ("quarantine/{an_id}", views.show_memory, "GET"),
        ("quarantine/{an_id}", answers.answer, "POST"),
        ("quarantine/{an_id}/standing", views.show_state, "GET"),
        ("decisions", views.show_decisions, "GET"),
        ("decisions/{an_id}", views.show_decision, "GET"),
        ("search", routes.search.search, "GET"),
        ("sessions", routes.over_time.show_sessions, "GET"),
        ("agents", routes.freezes.show_agent, "GET"),
        ("freezes", routes.freezes.freeze, "POST"),
        ("posture", routes.over_time.show_posture, "GET"),
        ("quality", views.show_quality_report, "GET"),
        ("audit", routes.audit.show, "GET"),
        ("audit/rows.csv", routes.audit.download, "GET"),
        ("people", routes.show_people, "GET"),
        ("people", routes.show_people, "POST"),
        ("logout", routes.log_out, "POST"),
        ("live", routes.stream_changes, "GET"),
    )
    for path, handler, method in pages:
        app.add_route(f"{ROOT}/{path}", _require_login(routes, handler), [method], include_in_schema=False)
    app.add_route(ROOT, home, ["GET"], include_in_schema=False)
    app.add_route(f"{ROOT}/login", routes.log_in, ["GET", "POST"], include_in_schema=False)
    app.add_route(f"{ROOT}/static/{{name}}", file, ["GET"], include_in_schema=False)
