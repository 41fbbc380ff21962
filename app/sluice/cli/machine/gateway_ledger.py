"""What `sluice gateway` reads much of the ledger for, by what the commands of the same names do."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sluice.settings.reader import list_real_names
from sluice_topics.catalog import QUALITY_DECISIONS, SESSION_EVENTS

if TYPE_CHECKING:
    from sluice.client.record_proofs import RecordProofs
    from sluice.core.reports.report import QualityReport
    from sluice.gateway.routes.reading_routes import LedgerWork
    from sluice.settings.reader import Settings

OF_THE_INSTALLATION = ("alarms", "basis", "ledger")
"""What a quality report says that is no tenant's."""


def build_ledger_work(settings: Settings, proofs: RecordProofs) -> LedgerWork:
    """Each reading in a thread of its own. `proofs`: which keys must have signed what reports count."""
    from sluice.gateway.routes.reading_routes import LedgerWork  # noqa: PLC0415 - an extra

    return LedgerWork(
        lambda an_id: asyncio.to_thread(_rerun, settings, an_id),
        lambda *asked: asyncio.to_thread(_report_quality, settings, proofs, *asked),
        lambda tenant: asyncio.to_thread(_write_quality_page, settings, proofs, tenant),
        lambda tenant: asyncio.to_thread(_count_memories, settings, tenant),
        lambda an_id: asyncio.to_thread(_prove, settings, an_id),
    )


def _rerun(settings: Settings, an_id: str) -> dict[str, Any]:
    """The decision of an id executed again, by what `sluice rerun` does. Raises LedgerUnreadable."""
    from sluice.adapters.kafka.kafka_evidence import KafkaEvidence  # noqa: PLC0415 - a second to import
    from sluice.adapters.kafka.kafka_read import KafkaUnreachable, UnknownTopics  # noqa: PLC0415 - as above
    from sluice.adapters.ledger_reruns import rerun_ids  # noqa: PLC0415 - as above
    from sluice.bootstrap.parts import build_decision_settings  # noqa: PLC0415 - as above
    from sluice.core.trust.in_force import PolicyError  # noqa: PLC0415 - as above
    from sluice.gateway.routes.reading_routes import LedgerUnreadable  # noqa: PLC0415 - as above

    source = KafkaEvidence(settings.kafka.connection, settings.kafka.topic_prefix)
    try:
        (first, *_) = asyncio.run(rerun_ids(source, build_decision_settings(settings, {}), [an_id]))
    except (PolicyError, KafkaUnreachable, UnknownTopics) as error:
        raise LedgerUnreadable(str(error)) from error
    return {
        "status": first.status,
        "differences": [asdict(difference) for difference in first.differences],
        "missing": list(first.missing),
        "decided_by": first.decided_by,
        "executed_by": first.executed_by,
        "not_checked": list(first.not_checked),
    }


def _report_quality(settings: Settings, proofs: RecordProofs, *asked: str | None) -> dict[str, Any]:
    """The report of `sluice quality report` on one tenant, without what is of the whole installation.

    Raises LedgerUnreadable.
    """
    fields: dict[str, Any] = _report(settings, proofs, *asked).fields()
    return {name: value for name, value in fields.items() if name not in OF_THE_INSTALLATION}


def _write_quality_page(settings: Settings, proofs: RecordProofs, tenant: str) -> str:
    """The quality report on one tenant as a page. Raises LedgerUnreadable."""
    from sluice.cli.policy.api_key_verbs import read_clock  # noqa: PLC0415 - as above
    from sluice.cli.quality.page import write_page  # noqa: PLC0415 - as above

    return write_page(_report(settings, proofs, tenant), read_clock())


def _report(
    settings: Settings,
    proofs: RecordProofs,
    tenant: str | None,
    since: str | None = None,
    until: str | None = None,
) -> QualityReport:
    from sluice.adapters.kafka.kafka_ledger import read_values  # noqa: PLC0415 - as above
    from sluice.adapters.kafka.kafka_read import KafkaUnreachable, UnknownTopics  # noqa: PLC0415 - as above
    from sluice.core.reports.ledger_values import DECISION, REPORTED, LedgerValues  # noqa: PLC0415 - as above
    from sluice.core.reports.report import build_quality_report  # noqa: PLC0415 - as above
    from sluice.core.reports.report_tally import (  # noqa: PLC0415 - as above
        NotADecisionError,
        QualityTally,
        ReportScope,
    )
    from sluice.gateway.routes.reading_routes import LedgerUnreadable  # noqa: PLC0415 - as above

    tally, names = QualityTally(ReportScope(since, until, tenant)), list_real_names(settings)
    values = LedgerValues({DECISION: tally.count_decision, REPORTED: tally.count_report})
    topics = {names[base]: base for base in (QUALITY_DECISIONS, SESSION_EVENTS)}
    servers = settings.kafka.connection
    try:
        asyncio.run(read_values(servers, topics, values.take, proofs=proofs))
    except (KafkaUnreachable, UnknownTopics, NotADecisionError) as error:
        raise LedgerUnreadable(str(error)) from error
    return build_quality_report(tally)


def _count_memories(settings: Settings, tenant: str) -> list[dict[str, Any]]:
    """Count what `sluice quarantine stats --by agent` shows of one tenant. Raises LedgerUnreadable."""
    from sluice.adapters.kafka.kafka_quarantine import KafkaQuarantine  # noqa: PLC0415 - as above
    from sluice.adapters.kafka.kafka_read import KafkaUnreachable, UnknownTopics  # noqa: PLC0415 - as above
    from sluice.cli.ledger.quarantine_counts import By, build_counted_fields, count_gate  # noqa: PLC0415 - as above
    from sluice.gateway.routes.reading_routes import LedgerUnreadable  # noqa: PLC0415 - as above

    kafka = KafkaQuarantine(settings.kafka.connection, list_real_names(settings))
    try:
        counted = asyncio.run(count_gate(kafka, recount=False))
    except (KafkaUnreachable, UnknownTopics) as error:
        raise LedgerUnreadable(str(error)) from error
    rows = build_counted_fields(counted, By.agent)["rows"]
    return [
        {name: value for name, value in row.items() if name != "tenant"}
        for row in rows
        if row["tenant"] == tenant
    ]


def _prove(settings: Settings, an_id: str) -> dict[str, Any] | None:
    """The proof that `sluice ledger prove` makes; None: no head states the record yet. Raises
    LedgerUnreadable."""
    from sluice.adapters.kafka.kafka_head_proofs import NotProvable, prove_record  # noqa: PLC0415 - as above
    from sluice.adapters.kafka.kafka_read import KafkaUnreachable, UnknownTopics  # noqa: PLC0415 - as above
    from sluice.cli.ledger.tree_heads import require_head_keys  # noqa: PLC0415 - as above
    from sluice.core.trust.tree_heads import HeadRefused, HeadSeries, LedgerBroken  # noqa: PLC0415 - as above
    from sluice.gateway.routes.reading_routes import LedgerUnreadable  # noqa: PLC0415 - as above

    series = HeadSeries(require_head_keys(settings, ()), settings.build_audience())
    try:
        return asyncio.run(prove_record(settings.kafka.connection, series, an_id))
    except NotProvable:
        return None
    except (HeadRefused, LedgerBroken, KafkaUnreachable, UnknownTopics) as error:
        raise LedgerUnreadable(str(error)) from error
