"""The page that finds what has an id, over the whole retention of the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode

from sluice.client.input_kinds import ESCALATIONS, MEMORY_DECISIONS, QUARANTINE, SESSION_EVENTS, VERDICTS
from sluice.core.foundation.clock import rfc3339
from sluice.gateway.ledger_scan import NEVER_MS, ScanQuery, quote_text
from sluice.gateway.pages.forms import read_moment
from sluice.gateway.pages.page_views import ROOT, PageViews, Visit

if TYPE_CHECKING:
    from starlette.responses import Response

    from sluice.gateway.ledger_scan import LedgerMatch

TOPICS = (VERDICTS, ESCALATIONS, MEMORY_DECISIONS, QUARANTINE, SESSION_EVENTS)
NAMES = (
    "action_id", "verdict_id", "escalation_id", "escalationId", "session_id", "agent_id", "memory_id",
    "write_id", "request_id",
)  # fmt: skip
"""The fields of a record that a search compares."""
MOST_FOUND, LONGEST_ID = 100, 1024


class SearchHit(NamedTuple):
    """A line: what kind of record it is, the field that fits, the page that has it, and the record."""

    kind: str
    by: str
    path: str
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Search:
    """The parts that the page of the search is made of."""

    views: PageViews

    async def search(self, visit: Visit) -> Response:
        """Look from a time back for what has an id, and say how far it came. Raises HttpError."""
        params = visit.request.query_params
        text, before = params.get("text", "").strip()[:LONGEST_ID], params.get("before", "")
        if not text:
            return self.views.render(visit, "search.html", text="", before=before)
        until_ms = read_moment(before)
        before_ms = NEVER_MS if until_ms is None else until_ms
        asked = ScanQuery(TOPICS, visit.caller.tenant, (quote_text(text),), before_ms, most_found=MOST_FOUND)
        scanned = await self.views.look_back(asked)
        hits = [hit for match in scanned.matches if (hit := _build_hit(match, text)) is not None]
        further = None
        if scanned.next_ms is not None:
            further = urlencode({"text": text, "before": rfc3339(scanned.next_ms)})
        about = {"text": text, "before": before, "scanned": scanned, "hits": hits, "further": further}
        return self.views.render(visit, "search.html", **about)


def _build_hit(match: LedgerMatch, text: str) -> SearchHit | None:
    """A record as a line; None for one that has the text elsewhere."""
    fields = match.fields
    by = next((name for name in NAMES if fields.get(name) == text), None)
    if by is None:
        return None
    kind = str(fields.get("schema", match.topic)).split("/")[1:2]
    return SearchHit(kind[0].replace("_", " ") if kind else match.topic, by, _find_path(fields), fields)


def _find_path(fields: dict[str, Any]) -> str:
    """The page of what a record is about."""
    for name, page in (
        ("verdict_id", "decisions"),
        ("escalation_id", "escalations"),
        ("memory_id", "decisions"),
    ):
        if fields.get(name):
            return f"{ROOT}/{page}/{quote(str(fields[name]), safe=':')}"
    return f"{ROOT}/sessions?{urlencode({'id': fields.get('session_id', '')})}"
