"""Outcomes that an earlier process did not report: of interrupted tools, and those the broker did not
confirm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.client.answers import ActionAnswer, InputLocation
from sluice.client.binding import describe_same_bytes
from sluice.client.input_kinds import OUTCOME, OUTCOMES
from sluice.client.past_records import PastRecords
from sluice.client.sender import Sender, name_outcome

if TYPE_CHECKING:
    from sluice.client.exchange import Exchange
    from sluice.client.journal import Journal


async def report_unreported(exchange: Exchange, sender: Sender, journal: Journal) -> None:
    """Report the outcomes that an earlier process did not. A tool that was interrupted is reported with the
    rows that were reserved. An outcome that the broker has already is not sent again."""
    for entry in journal.list_unreported():
        session, action_id, value = entry.session_id, entry.action_id, entry.outcome
        name = name_outcome(session, action_id)
        if value is None and entry.verdict is not None:
            verdict = ActionAnswer.of(entry.verdict)
            value = await sender.build_outcome(verdict, verdict.rows_reserved, "interrupted")
            journal.finish(session, action_id, value)
        if value is not None and not await _is_published(exchange, entry.location, name, value):
            await sender.publish(OUTCOME, session, name, value)
        journal.report(session, action_id)


async def _is_published(exchange: Exchange, location: InputLocation | None, name: str, value: bytes) -> bool:
    if location is None:
        return False
    past = PastRecords(exchange.connection, {exchange.prefix + OUTCOMES: OUTCOMES})
    return await past.look_back(describe_same_bytes(name, value), location, [OUTCOMES]) is not None
