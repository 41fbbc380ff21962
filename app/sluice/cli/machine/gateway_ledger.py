"""What `sluice gateway` reads much of the ledger for, by what the commands of the same names do."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from sluice.settings.reader import list_real_names
from sluice_topics.catalog import QUALITY_DECISIONS, SESSION_EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from sluice.client.record_proofs import RecordProofs
    from sluice.core.reports.report import QualityReport
    from sluice.gateway.routes.reading_routes import LedgerWork
    from sluice.settings.reader import Settings

T = TypeVar("T")
OF_THE_INSTALLATION = ("alarms", "basis", "ledger")
"""What a quality report says that is no tenant's."""


def build_ledger_work(settings: Settings, proofs: RecordProofs) -> LedgerWork:
    """Each reading in a thread of its own. `proofs`: which keys must have signed what reports count."""
    from sluice.gateway.routes.reading_routes import LedgerWork  # noqa: PLC0415 - an extra

    return LedgerWork(
        lambda an_id: asyncio.to_thread(_read, partial(_rerun, settings, an_id)),
        lambda *asked: asyncio.to_thread(_read, partial(_report_quality, settings, proofs, *asked)),
        lambda tenant: asyncio.to_thread(_read, partial(_write_quality_page, settings, proofs, tenant)),
        lambda tenant: asyncio.to_thread(_read, partial(_count_memories, settings, tenant)),
        lambda an_id: asyncio.to_thread(_read, partial(_prove, settings, an_id)),
    )


def _read(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The result of the work. Raises LedgerUnreadable where the ledger cannot be read, or is not what it
    should be."""
    from sluice.adapters.kafka.kafka_read import KafkaUnreachable, UnknownTopics  # noqa: PLC0415 - a second to import
    from sluice.core.registry.keys import UnusableKeyError  # noqa: PLC0415 - as above
    from sluice.core.reports.report_tally import NotADecisionError  # noqa: PLC0415 - as above
    from sluice.core.trust.in_force import PolicyError  # noqa: PLC0415 - as above
    from sluice.core.trust.tree_heads import HeadRefused, LedgerBroken  # noqa: PLC0415 - as above
    from sluice.gateway.routes.reading_routes import LedgerUnreadable  # noqa: PLC0415 - as above

    wrong = (HeadRefused, LedgerBroken, NotADecisionError, PolicyError, UnusableKeyError)
    try:
        return asyncio.run(work())
    except (KafkaUnreachable, UnknownTopics, *wrong) as error:
        raise LedgerUnreadable(str(error)) from error


async def _rerun(settings: Settings, an_id: str) -> dict[str, Any]:
    """The decision of an id executed again, by what `sluice rerun` does."""
    from sluice.adapters.kafka.kafka_evidence import KafkaEvidence  # noqa: PLC0415 - as above
    from sluice.adapters.ledger_reruns import rerun_ids  # noqa: PLC0415 - as above
    from sluice.bootstrap.parts import build_decision_settings  # noqa: PLC0415 - as above

    source = KafkaEvidence(settings.kafka.connection, settings.kafka.topic_prefix)
    (first, *_) = await rerun_ids(source, build_decision_settings(settings, {}), [an_id])
    return {
        "status": first.status,
        "differences": [asdict(difference) for difference in first.differences],
        "missing": list(first.missing),
        "decided_by": first.decided_by,
        "executed_by": first.executed_by,
        "not_checked": list(first.not_checked),
    }


async def _report_quality(settings: Settings, proofs: RecordProofs, *asked: str | None) -> dict[str, Any]:
    """The report of `sluice quality report` on one tenant, without what is of the whole installation."""
    fields: dict[str, Any] = (await _report(settings, proofs, *asked)).fields()
    return {name: value for name, value in fields.items() if name not in OF_THE_INSTALLATION}


async def _write_quality_page(settings: Settings, proofs: RecordProofs, tenant: str) -> str:
    """The quality report on one tenant as a page."""
    from sluice.cli.policy.api_key_verbs import read_clock  # noqa: PLC0415 - as above
    from sluice.cli.quality.page import write_page  # noqa: PLC0415 - as above

    return write_page(await _report(settings, proofs, tenant), read_clock())


async def _report(
    settings: Settings,
    proofs: RecordProofs,
    tenant: str | None,
    since: str | None = None,
    until: str | None = None,
) -> QualityReport:
    from sluice.bootstrap.ledger_reading import read_topics  # noqa: PLC0415 - as above
    from sluice.core.reports.ledger_values import DECISION, REPORTED, LedgerValues  # noqa: PLC0415 - as above
    from sluice.core.reports.report import build_quality_report  # noqa: PLC0415 - as above
    from sluice.core.reports.report_tally import QualityTally, ReportScope  # noqa: PLC0415 - as above

    tally = QualityTally(ReportScope(since, until, tenant))
    values = LedgerValues({DECISION: tally.count_decision, REPORTED: tally.count_report})
    await read_topics(settings, (QUALITY_DECISIONS, SESSION_EVENTS), values.take, proofs=proofs)
    return build_quality_report(tally)


async def _count_memories(settings: Settings, tenant: str) -> list[dict[str, Any]]:
    """Count what `sluice quarantine stats --by agent` shows of one tenant."""
    from sluice.adapters.kafka.kafka_quarantine import KafkaQuarantine  # noqa: PLC0415 - as above
    from sluice.bootstrap.ledger_reading import count_gate  # noqa: PLC0415 - as above
    from sluice.core.reports.memory_recount import sum_by_group  # noqa: PLC0415 - as above

    kafka = KafkaQuarantine(settings.kafka.connection, list_real_names(settings))
    counted = await count_gate(kafka, recount=False)
    by_agent = sum_by_group(counted.live, lambda whose: whose)
    return [
        {"agent": whose.agent, **statistics.fields()}
        for whose, statistics in sorted(by_agent.items())
        if whose.tenant == tenant
    ]


async def _prove(settings: Settings, an_id: str) -> dict[str, Any] | None:
    """The proof that `sluice ledger prove` makes; None: no head states the record yet."""
    from sluice.adapters.kafka.kafka_head_proofs import NotProvable, prove_record  # noqa: PLC0415 - as above
    from sluice.bootstrap.ledger_reading import build_head_series  # noqa: PLC0415 - as above

    try:
        return await prove_record(settings.kafka.connection, build_head_series(settings), an_id)
    except NotProvable:
        return None
