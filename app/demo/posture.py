"""Seed 004's quality posture after a run, from the ledger alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.adapters.kafka_quality import read_values
from app.core.retrieval.ledger_values import ALARM, DECISION, REPORTED, LedgerValues
from app.core.retrieval.report import quality_report
from app.core.retrieval.report_tally import QualityTally
from topics.catalog import ALARMS, QUALITY_DECISIONS, SESSION_EVENTS

if TYPE_CHECKING:
    from app.core.retrieval.report import QualityReport
    from app.demo.place import Place


async def quality_posture(place: Place) -> QualityReport:
    """Of all tenants and days. Raises KafkaUnreachable, UnknownTopics and NotADecisionError."""
    tally = QualityTally()
    values = LedgerValues({DECISION: tally.decision, REPORTED: tally.report, ALARM: tally.alarm})
    topics = [f"{place.prefix}{name}" for name in (QUALITY_DECISIONS, SESSION_EVENTS, ALARMS)]
    await read_values(place.bootstrap_servers, topics, values.take)
    return quality_report(tally)
