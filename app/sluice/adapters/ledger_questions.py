"""Puts an auditor's question to a ledger, on a broker or in an archive, partition by partition.

Rows come as the ledger is read, in the order of each partition's chain; nothing of it is kept. For a report
every row's record is proven by a tree head.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.core.foundation.clock import rfc3339
from sluice.core.reports.audit_coverage import Undecided
from sluice.core.reports.audit_rows import AuditRecord, PolicyChange
from sluice.core.rerun.walk import DECIDED
from sluice.core.trust.change_log import build_change_log
from sluice.core.trust.head_proofs import ProofMaker, ProvenRecord, prove_inclusion
from sluice_topics.catalog import BUNDLES, REGISTRY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from sluice.core.reports.audit_rows import AuditQuestion, AuditRow
    from sluice.core.rerun.walk import LedgerEntry, LedgerSource
    from sluice.core.trust.change_log import LogLine
    from sluice.core.trust.reduction import ReducedPolicy
    from sluice_topics.records.tree_heads import TreeHead

log = logging.getLogger(__name__)

MOST_PROVEN = 20_000
"""Rows of a report: each has its record and some 20 hashes in the page."""


class TooManyRows(Exception):
    """A report would have more rows than a page holds."""


class AnsweredRow(NamedTuple):
    """A row, and the ledger record that it rests on; None for a count, a control record or an input."""

    row: AuditRow
    entry: LedgerEntry | None


@dataclass(frozen=True, slots=True)
class SignedHead:
    """The head that proves a report's records. `envelope`: as it lies."""

    head: TreeHead
    envelope: bytes


class ProvenAnswer(NamedTuple):
    """Every row that the head's ledger answers, each with the number of its proof (None: it rests on no
    record). `proofs`: a proof of inclusion, None without records; `newer`: rows behind the head."""

    rows: list[tuple[AuditRow, int | None]]
    proofs: dict[str, Any] | None
    newer: int


async def ask_ledger(
    source: LedgerSource, group: str, question: AuditQuestion, maker: ProofMaker | None = None
) -> AsyncIterator[AnsweredRow]:
    """The question's rows. `group`: the workers' consumer group; `maker`: takes each record too. Raises what
    the source does."""
    partitions = source.open_partitions(group)
    for number in await partitions.list_numbers():
        question.begin_partition()
        async for batch in partitions.read_entries(number):
            for entry in batch:
                written = entry.written
                if maker is not None:
                    maker.take(written.topic, written.partition, written.offset, written.value)
                for row in _take(question, entry):
                    yield AnsweredRow(row, entry)
    if isinstance(question, Undecided):
        async for row in _ask_inputs(source, question):
            yield AnsweredRow(row, None)
    for row in question.finish():
        yield AnsweredRow(row, None)


def _take(question: AuditQuestion, entry: LedgerEntry) -> list[AuditRow]:
    """The rows of a record. One that is not whole, as only a forger writes it, has none, and ends nothing."""
    written = entry.written
    try:
        return list(question.take(AuditRecord(written.topic, entry.fields)))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        location = f"{written.topic}:{written.partition}:{written.offset}"
        log.warning("%s is no whole record and is passed over (sluice ledger verify): %r", location, error)
        return []


async def _ask_inputs(source: LedgerSource, question: Undecided) -> AsyncIterator[AuditRow]:
    async for inputs in source.read_inputs(tuple(DECIDED)):
        for record in inputs:
            for row in question.take_input(record):
                yield row


async def prove_answer(
    source: LedgerSource, group: str, question: AuditQuestion, signed: SignedHead
) -> ProvenAnswer:
    """The question's rows with the proofs of their records. Raises TooManyRows, LedgerBroken where the ledger
    is not what the head signs, and what the source does."""
    head = signed.head
    maker = ProofMaker(head, range(len(head.partitions)))
    answered: list[tuple[AuditRow, int | None]] = []
    numbers: dict[tuple[int, int], int] = {}
    records: list[ProvenRecord] = []
    newer = 0
    async for row, entry in ask_ledger(source, group, question, maker):
        if entry is not None and not _is_within(entry, head):
            newer += 1
            continue
        number = None
        if entry is not None:
            written, sequence = entry.written, entry.fields["sequence"]
            number = numbers.setdefault((written.partition, sequence), len(records))
            if number == len(records):
                at = written.topic, written.partition, written.offset
                records.append(ProvenRecord(*at, sequence, written.value))
        answered.append((row, number))
        if len(answered) > MOST_PROVEN:
            raise TooManyRows(f"over {MOST_PROVEN} rows: ask about less time, or one agent")
    trees = maker.build_trees()
    proofs = prove_inclusion(head, signed.envelope, trees, records) if records else None
    return ProvenAnswer(answered, proofs, newer)


def list_policy_changes(reduced: ReducedPolicy) -> list[PolicyChange]:
    """Every record of the control topics, as the reduction judged it, in the order of their times."""
    specs = {entry.key: entry.document.get("spec") or {} for entry in reduced.entries.values()}
    lines = [
        (topic, line) for topic in (REGISTRY, BUNDLES) for line in build_change_log(reduced, None, topic)
    ]
    return list(_read_changes(lines, specs))


def _read_changes(
    lines: Iterable[tuple[str, LogLine]], specs: dict[str, dict[str, Any]]
) -> Iterator[PolicyChange]:
    for topic, line in sorted(lines, key=lambda each: each[1].at_ms):
        by = " and ".join(line.approvers) or ("nobody who may" if line.state == "refused" else "a root key")
        yield PolicyChange(
            at=rfc3339(line.at_ms),
            topic=topic,
            kind=line.kind or "unreadable",
            name=line.name,
            state=line.state,
            signed_by=by,
            rationale=line.rationale,
            relaxations=line.relaxations,
            refused_for=None if line.code is None else f"{line.code}: {line.message}",
            spec=specs.get(line.name, {}) if line.state != "refused" else {},
        )


def _is_within(entry: LedgerEntry, head: TreeHead) -> bool:
    partition = entry.written.partition
    return partition < len(head.partitions) and entry.fields["sequence"] <= head.partitions[partition].size
