"""The page of an auditor's questions about one tenant, and its rows as CSV."""

from __future__ import annotations

import csv
import io
import time
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from sluice.core.reports.audit_coverage import Undecided
from sluice.core.reports.audit_models import ModelAnswers
from sluice.core.reports.audit_overrides import Overrides
from sluice.core.reports.audit_people import AgentActivity, PersonAnswers
from sluice.core.reports.audit_rows import AuditRecord, AuditScope, guard_cell
from sluice.gateway.http.http_errors import HttpError
from sluice.gateway.ledger_scan import NEVER_MS, ScanQuery, quote_text
from sluice.gateway.pages import rendering
from sluice.gateway.pages.time_range import MINUTE_MS, TimeRange
from sluice_topics.catalog import (
    ALARMS,
    ESCALATIONS,
    MEMORY_DECISIONS,
    QUALITY_DECISIONS,
    QUARANTINE,
    SESSION_EVENTS,
    VERDICTS,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from starlette.responses import Response

    from sluice.core.reports.audit_rows import AuditQuestion, AuditRow
    from sluice.gateway.ledger_scan import LedgerMatch, Scanned
    from sluice.gateway.pages.page_views import PageViews, Visit

LISTED = 200
_ANSWERS = (ESCALATIONS, QUARANTINE)
_DECISIONS = (VERDICTS, MEMORY_DECISIONS, QUALITY_DECISIONS)
TOPICS: dict[type[AuditQuestion], tuple[str, ...]] = {
    AgentActivity: (*_DECISIONS, *_ANSWERS, SESSION_EVENTS, ALARMS),
    PersonAnswers: _ANSWERS,
    ModelAnswers: _DECISIONS,
    Overrides: (*_DECISIONS, *_ANSWERS),
    Undecided: (*_DECISIONS, *_ANSWERS, SESSION_EVENTS),
}
"""Where the answers lie. What changed in policy is no question of one tenant: bundles are every tenant's."""
QUESTIONS = {question.name: question for question in TOPICS}
_HIDDEN = frozenset({"topic", "tenant_id", "event_hash"})


class PageAnswer(NamedTuple):
    """The rows, the newest first; how far the ledger was read, and the address's query."""

    question: AuditQuestion
    rows: list[AuditRow]
    scanned: Scanned
    shown: TimeRange
    address: str


@dataclass(frozen=True, slots=True)
class AuditPage:
    """The parts that the page is made of."""

    views: PageViews

    async def show(self, visit: Visit) -> Response:
        """The form, and the answer to what it asks. Raises HttpError."""
        _require_admin(visit)
        params = visit.request.query_params
        asked = {name: params.get(name, "").strip() for name in ("question", "agent", "from", "to", "last")}
        answer = await self._answer(visit) if asked["question"] else None
        about: dict[str, Any] = {"questions": QUESTIONS.values(), "asked": asked, "answer": answer}
        if answer is not None:
            about["columns"] = [
                name
                for name in answer.question.columns
                if name not in _HIDDEN and any(row[name] is not None for row in answer.rows)
            ]
        return self.views.render(visit, "audit.html", listed=LISTED, **about)

    async def download(self, visit: Visit) -> Response:
        """All rows of an answer as CSV. Raises HttpError."""
        _require_admin(visit)
        answer = await self._answer(visit)
        out = io.StringIO(newline="")
        writer = csv.writer(out)
        writer.writerow(answer.question.columns)
        for row in answer.rows:
            writer.writerow(["" if row[name] is None else guard_cell(row[name]) for name in row])
        return rendering.serve_csv(out.getvalue().encode(), f"{answer.question.name}.csv")

    async def _answer(self, visit: Visit) -> PageAnswer:
        params, tenant = visit.request.query_params, visit.caller.tenant
        question, agent = QUESTIONS.get(params.get("question", "")), params.get("agent", "").strip() or None
        if question is None:
            raise HttpError(400, "invalid_value", "there is no such question")
        if question.needs_agent and agent is None:
            raise HttpError(400, "invalid_value", "name the agent")
        shown = TimeRange.read(params, time.time_ns() // 1_000_000)
        until_ms = None if shown.last else shown.until_ms
        scope = AuditScope.make_between(tenant, agent, shown.since_ms, until_ms)
        words = (quote_text(agent),) if agent is not None and not question.needs_agent else ()
        before_ms = NEVER_MS if until_ms is None else until_ms + MINUTE_MS
        scanned = await self.views.look_back(
            ScanQuery(TOPICS[question], tenant, words, before_ms, shown.since_ms)
        )
        named = {"question": question.name, **({"agent": agent} if agent else {})}
        made = question(scope)
        rows = sorted(_list_rows(made, scanned.matches), key=lambda row: str(row["at"]), reverse=True)
        return PageAnswer(made, rows, scanned, shown, f"{urlencode(named)}&{shown.address}")


def _require_admin(visit: Visit) -> None:
    if "admin" not in visit.session.account.roles:
        raise HttpError(403, "not_an_admin", "only admins ask about all of the tenant")


def _list_rows(question: AuditQuestion, matches: Sequence[LedgerMatch]) -> Iterator[AuditRow]:
    """The rows, each partition's records in the order of its chain."""
    ordered = sorted(matches, key=lambda match: (match.fields["partition"], match.fields["sequence"]))
    for _, records in groupby(ordered, key=lambda match: match.fields["partition"]):
        question.begin_partition()
        for match in records:
            yield from question.take(AuditRecord(match.topic, match.fields))
