"""Whether the control topics still have what each partition recorded as the policy in force.

A worker compares what counts, and stops; this only looks for the records, trusts none of them, and so needs
no root key. It finds a loss before any worker has started on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.adapters.archive.archive_evidence import ArchiveEvidence
from sluice.adapters.archive.segment import ArchiveDamaged
from sluice.adapters.kafka.kafka_consumers import read_control
from sluice.adapters.kafka.kafka_read import UnknownTopics
from sluice.bootstrap.publishing import list_control_topics
from sluice.cli.policy.policy_loss import read_recorded
from sluice.core.trust.dsse import Envelope
from sluice.core.trust.policy_contents import make_edition
from sluice.core.trust.signed_entries import Statement, open_record, read_statement
from sluice.settings.reader import list_real_names
from sluice.stream.engine.policy_recorder import read_recorded_policies
from sluice.verifier.ledger_findings import LedgerFinding
from sluice_topics.catalog import REGISTRY, SESSIONS_CHANGELOG

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sluice.adapters.archive.archived_records import Archive
    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.trust.policy_contents import Edition, PolicyContents
    from sluice.settings.reader import Settings

MOST_NAMED = 3


async def find_absent_policy(settings: Settings) -> list[LedgerFinding]:
    """A finding for each partition whose last policy in force has entries of which no record is there.

    A control topic that is gone has no record; without the worker's own topics there is nothing to compare.
    Raises KafkaUnreachable.
    """
    try:
        recorded = await read_recorded(settings)
    except UnknownTopics:
        return []
    try:
        records = await read_control(settings.kafka.connection, list_control_topics(settings))
    except UnknownTopics:
        records = []
    there = _list_editions(records)
    return _list_absent(recorded, there)


async def find_absent_policy_in_archive(settings: Settings, archive: Archive) -> list[LedgerFinding]:
    """The same of an archive: of its control topics, and of the workers' state in it. Without that state
    there is nothing to compare; where a file is damaged, that is the finding. Raises StoreError."""
    changelog = list_real_names(settings)[SESSIONS_CHANGELOG]
    batches = (batch for part in archive.list_parts({changelog}) for batch in archive.read_part(part))
    try:
        recorded = read_recorded_policies(record for batch in batches for record in batch)
        records = await ArchiveEvidence(archive, settings.kafka.topic_prefix).read_policy()
    except ArchiveDamaged as error:
        return [LedgerFinding("archive_damaged", 0, None, REGISTRY, None, str(error))]
    return _list_absent(recorded, _list_editions(records))


def _list_absent(
    recorded: Mapping[int, PolicyContents], there: set[tuple[str, Edition]]
) -> list[LedgerFinding]:
    return [
        finding
        for number, last in sorted(recorded.items())
        if (finding := _find_absent(number, last, there)) is not None
    ]


def _list_editions(records: Iterable[InputRecord]) -> set[tuple[str, Edition]]:
    statements = (_read_statement(record) for record in records)
    return {make_edition(statement) for statement in statements if statement is not None}


def _read_statement(record: InputRecord) -> Statement | None:
    envelope = open_record(record)
    if not isinstance(envelope, Envelope):
        return None
    statement = read_statement(record.topic, envelope)
    return statement if isinstance(statement, Statement) else None


def _find_absent(number: int, last: PolicyContents, there: set[tuple[str, Edition]]) -> LedgerFinding | None:
    gone = [name for name, edition in last.editions.items() if (name, edition) not in there]
    if not gone:
        return None
    named = ", ".join(f"{name} revision {last.editions[name].revision}" for name in gone[:MOST_NAMED])
    more = f" and {len(gone) - MOST_NAMED} more" if len(gone) > MOST_NAMED else ""
    description = f"the control topics lack {named}{more}, which this partition recorded as in force"
    return LedgerFinding("policy_lost", number, None, REGISTRY, None, description)
