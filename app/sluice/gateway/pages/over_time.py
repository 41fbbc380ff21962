"""The pages that show a range of time: posture, sessions, one session."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sluice.client.input_kinds import ALARMS, ESCALATIONS, MEMORY_DECISIONS, QUARANTINE, VERDICTS
from sluice.core.reports.pending_subject import ENDS, OPENS
from sluice.gateway.ledger_scan import NEVER_MS, ScanQuery, quote_text
from sluice.gateway.pages.posture import (
    MEMORY_ACTIONS,
    compute_action_posture,
    compute_memory_posture,
    list_sessions,
)
from sluice.gateway.pages.posture import (
    VERDICTS as WORDS,
)
from sluice.gateway.pages.time_range import TimeRange, count_over_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.responses import Response

    from sluice.gateway.ledger_scan import LedgerMatch, Scanned
    from sluice.gateway.pages.page_views import PageViews, Visit
    from sluice.gateway.pages.time_range import TimeChart

LISTED = 100
OPENED, ENDED = "opened", "ended"


@dataclass(frozen=True, slots=True)
class OverTime:
    """The parts that the pages over time are made of."""

    views: PageViews

    async def show_sessions(self, visit: Visit) -> Response:
        """The sessions with an action in the range, or one with its totals. Raises HttpError."""
        shown, wanted = _read_range(visit), visit.request.query_params.get("id", "")
        words = (quote_text(wanted),) if wanted else ()
        scanned = await self._scan(visit, shown, (VERDICTS,), words)
        own = [match for match in scanned.matches if not wanted or match.fields["session_id"] == wanted]
        verdicts = [match.fields for match in own]
        about: dict[str, Any] = {"shown": shown, "scanned": scanned, "chart": _chart_decisions(own, shown)}
        if not wanted:
            return self.views.render(visit, "sessions.html", found=list_sessions(verdicts)[:LISTED], **about)
        about["totals"] = await self.views.subjects.fetch_session(wanted, visit.caller)
        about["frozen"] = self.views.people.list_freezes(visit.caller.tenant, "", wanted)
        return self.views.render(visit, "session.html", found=verdicts[:LISTED], **about)

    async def show_posture(self, visit: Visit) -> Response:
        """Counts of the decisions on actions and memories in the range, with what waits now, and the alarms.
        Raises HttpError."""
        shown, caller = _read_range(visit), visit.caller
        topics = (VERDICTS, MEMORY_DECISIONS, ESCALATIONS, ALARMS)
        scanned = await self._scan(visit, shown, topics)
        of = {topic: [match for match in scanned.matches if match.topic == topic] for topic in topics}
        waiting, quarantined = (
            [subject.fields for subject in self.views.subjects.list_waiting(base, caller)]
            for base in (ESCALATIONS, QUARANTINE)
        )
        memories = [(match.at_ms, str(match.fields["action"])) for match in of[MEMORY_DECISIONS]]
        turns = [(match.at_ms, _classify_turn(match)) for match in of[ESCALATIONS]]
        raised = [(match.at_ms, str(match.fields["kind"])) for match in of[ALARMS]]
        about: dict[str, Any] = {
            "actions": compute_action_posture([match.fields for match in of[VERDICTS]], waiting),
            "memory": compute_memory_posture([match.fields for match in of[MEMORY_DECISIONS]], quarantined),
            "alarms": [match.fields for match in of[ALARMS]][:LISTED],
            "decided": _chart_decisions(of[VERDICTS], shown),
            "remembered": count_over_time("Decisions on memories", MEMORY_ACTIONS, memories, shown),
            "escalated": count_over_time("Escalations", (OPENED, ENDED), turns, shown),
            "raised": count_over_time("Alarms", sorted({kind for _, kind in raised}), raised, shown),
        }
        return self.views.render(visit, "posture.html", shown=shown, scanned=scanned, **about)

    async def _scan(
        self, visit: Visit, shown: TimeRange, topics: Sequence[str], words: Sequence[bytes] = ()
    ) -> Scanned:
        before_ms = NEVER_MS if shown.last else shown.until_ms
        asked = ScanQuery(topics, visit.caller.tenant, words, before_ms, shown.since_ms)
        return await self.views.look_back(asked)


def _read_range(visit: Visit) -> TimeRange:
    return TimeRange.read(visit.request.query_params, time.time_ns() // 1_000_000)


def _chart_decisions(matches: Sequence[LedgerMatch], shown: TimeRange) -> TimeChart:
    events = [(match.at_ms, str(match.fields["verdict"])) for match in matches]
    return count_over_time("Decisions on actions", WORDS, events, shown)


def _classify_turn(match: LedgerMatch) -> str:
    schema = match.fields.get("schema")
    return OPENED if schema in OPENS else ENDED if schema in ENDS else ""
