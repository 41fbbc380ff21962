"""The pages that are read: lists, what waits with its content, stories, posture."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from sluice.client.input_kinds import ESCALATIONS, QUARANTINE, VERDICTS
from sluice.core.foundation.chain import hash_holds
from sluice.core.reports.value_words import describe_values, may_remember
from sluice.gateway import subjects
from sluice.gateway.decisions import translate_faults
from sluice.gateway.http.http_errors import HttpError
from sluice.gateway.pages import rendering
from sluice.gateway.pages.queue import SORTS, Query, build_rows, find_walk, list_rows
from sluice.gateway.routes.callers import TenantTurns
from sluice.gateway.routes.reading_routes import LedgerUnreadable
from sluice_topics.record_reading import find_call

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from sluice.gateway.delegated_answers import DelegatedAnswers
    from sluice.gateway.http.api_keys import Caller
    from sluice.gateway.ledger_scan import LedgerScan, Scanned, ScanQuery
    from sluice.gateway.pages.log_ins import Session
    from sluice.gateway.pages.queue import QueueRow, QueueWalk

ROOT = "/review"
MOST_ALIKE = 5
MOST_WAITING = 8
"""Scans of the ledger of one tenant that wait for their turn."""
WALK = "in"
"""The parameter of an address that says from which list an escalation's page was opened."""


class Visit(NamedTuple):
    """A request of a person who is logged in."""

    request: Request
    session: Session

    @property
    def caller(self) -> Caller:
        """The caller that the API sees."""
        return self.session.caller

    @property
    def an_id(self) -> str:
        """The id in the path."""
        return str(self.request.path_params["an_id"])


@dataclass(frozen=True, slots=True)
class PageViews:
    """The parts that the views are made of. `quality` gives a tenant's report as a document, and raises
    LedgerUnreadable."""

    subjects: subjects.Subjects
    people: DelegatedAnswers
    quality: Callable[[str], Awaitable[str]]
    scan: LedgerScan
    turns: TenantTurns = field(default_factory=lambda: TenantTurns(most_waiting=MOST_WAITING))
    one_at_a_time: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))

    def render(self, visit: Visit, name: str, **context: Any) -> Response:
        """A page with what all have: the person, what was said, how much waits."""
        caller, notices = visit.caller, visit.session.take_notices()
        counts = {base: len(self.subjects.list_waiting(base, caller)) for base in (ESCALATIONS, QUARANTINE)}
        delegate = self.people.find_delegate(visit.session.account.tenant_id)
        about: dict[str, Any] = {
            "session": visit.session,
            "said": notices,
            "counts": counts,
            "delegate": delegate,
            "now_ms": time.time_ns() // 1_000_000,
            "since": self.subjects.waiting.count_changes(caller.tenant),
        }
        about["how_ended"] = self.subjects.waiting.find_end_word
        return rendering.render_page(name, changes=subjects.list_changes, **{**about, **context})

    async def look_back(self, asked: ScanQuery) -> Scanned:
        """Scan the ledger, one after the other for each tenant. Raises HttpError."""
        async with self.turns.take_turn(asked.tenant), translate_faults():
            return await self.scan.scan(asked)

    async def show_escalations(self, visit: Visit) -> Response:
        """Show the escalations that wait for an approver."""
        query = Query.read(visit.request.query_params)
        listing = list_rows(self._list_rows(visit), query)
        return self.render(visit, "escalations.html", listing=listing, query=listing.query, sorts=SORTS)

    async def show_escalation(self, visit: Visit) -> Response:
        """One of them, with the action or the items, and the form; what has ended is a decision's story."""
        an_id = visit.an_id
        subject = self.subjects.find_waiting(ESCALATIONS, an_id, visit.caller)
        if subject is None:
            return await self._show_ended(an_id, visit)
        opened = subject.fields
        about: dict[str, Any] = {
            "since": self.subjects.waiting.count_changes(visit.caller.tenant),
            "verdict": None,
        }
        about |= {
            "against": visit.session.account.object_to(subject.role),
            "content": await self.subjects.fetch_content(opened),
        }
        _, parameters = find_call(about["content"] or {}) or ("", None)
        about["values"] = describe_values(opened.get("values") or (), subject.agent, parameters)
        about["may_remember"] = may_remember(opened)
        about |= {
            "is_narrowed": subject.is_narrowed,
            "approved": await self.subjects.fetch_approved(subject),
        }
        if "verdict_id" in opened:
            about["verdict"] = await self.subjects.fetch_decision(opened["verdict_id"], visit.caller)
        about["alike"] = self.subjects.waiting.list_alike_ends(subject, MOST_ALIKE)
        return self.render(visit, "escalation.html", one=opened, walk=self._find_walk(visit), **about)

    async def show_state(self, visit: Visit) -> Response:
        """Whether a thing still waits: a part of its page, which asks when something changed."""
        path = visit.request.url.path.removesuffix("/standing")
        base = ESCALATIONS if path.startswith(f"{ROOT}/escalations/") else QUARANTINE
        waits = self.subjects.find_waiting(base, visit.an_id, visit.caller) is not None
        return rendering.render_page("standing.html", path=path, waits=waits)

    async def show_quarantine(self, visit: Visit) -> Response:
        """Memories that wait for a reviewer."""
        waiting = self.subjects.list_waiting(QUARANTINE, visit.caller)
        return self.render(visit, "quarantine.html", waiting=[subject.fields for subject in waiting])

    async def show_memory(self, visit: Visit) -> Response:
        """One of them, with its content and the form."""
        an_id = visit.an_id
        subject = self.subjects.find_waiting(QUARANTINE, an_id, visit.caller)
        if subject is None:
            return await self._show_ended(an_id, visit)
        about = {
            "since": self.subjects.waiting.count_changes(visit.caller.tenant),
            "against": visit.session.account.object_to(subject.role),
        }
        content = await self.subjects.fetch_content(subject.fields)
        decision = await self.subjects.fetch_decision(an_id, visit.caller)
        return self.render(
            visit, "memory.html", one=subject.fields, content=content, decision=decision, **about
        )

    async def show_decisions(self, visit: Visit) -> Response:
        """The newest decisions."""
        about = visit.request.query_params.get("about", "actions")
        records = await self.subjects.fetch_newest(subjects.LISTED.get(about, VERDICTS), visit.caller)
        return self.render(visit, "decisions.html", found=records[:100], about=about)

    async def show_decision(self, visit: Visit) -> Response:
        """One decision's whole story."""
        an_id = visit.an_id
        record = await self.subjects.fetch_decision(an_id, visit.caller)
        followed = await self.subjects.fetch_followed(record, visit.caller)
        return self.render(
            visit,
            "decision.html",
            one=record,
            content=await self.subjects.fetch_content(record),
            followed=followed,
            holds=hash_holds(record),
            ending=subjects.find_ending(followed),
            waits=self._find_waiting_page(record),
            walk=self._find_walk(visit) if WALK in visit.request.query_params else None,
        )

    async def show_quality_report(self, visit: Visit) -> Response:
        """The posture of retrievals, as `sluice quality page` writes it."""
        async with self.one_at_a_time:
            try:
                return rendering.serve_document(await self.quality(visit.session.account.tenant_id))
            except LedgerUnreadable as error:
                raise HttpError(503, "unavailable", str(error)) from None

    def _list_rows(self, visit: Visit) -> list[QueueRow]:
        waiting = self.subjects.list_waiting(ESCALATIONS, visit.caller)
        return build_rows(waiting, self.subjects.waiting.contents.get)

    def _find_walk(self, visit: Visit) -> QueueWalk:
        """The way through the list from which the page was opened."""
        query = Query.parse(visit.request.query_params.get(WALK, ""))
        an_id = visit.an_id.replace("verdict:", "escalation:", 1)
        return find_walk(self._list_rows(visit), query, an_id)

    def _find_waiting_page(self, decision: dict[str, Any]) -> str | None:
        """The page where what a decision opened is answered; None: it waits for nobody."""
        names = ((ESCALATIONS, decision.get("escalationId")), (QUARANTINE, decision.get("memory_id")))
        for base, an_id in names:
            if an_id and self.subjects.waiting.get(base, an_id) is not None:
                return f"{ROOT}/{base.removeprefix('gate.')}/{quote(an_id, safe=':')}"
        return None

    async def _show_ended(self, an_id: str, visit: Visit) -> Response:
        decision = subjects.read_decision_id(an_id)
        if decision is not None:
            await self.subjects.fetch_decision(decision, visit.caller)
            query = visit.request.url.query
            after = f"?{query}" if query else ""
            return rendering.redirect(f"{ROOT}/decisions/{quote(decision, safe=':')}{after}")
        end = await self.subjects.decisions.fetch_retrieval_end(an_id, visit.caller)
        return self.render(visit, "ended.html", one=end)
