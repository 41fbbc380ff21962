"""One partition's chain, over all its topics: numbers gapless from 1, each record linked to the one before.

Records come in any order between topics. A record waits until all before it have come; when it is its turn it
is linked and forgotten, but for 16 bytes of its hash and place. What waits is therefore as much as the topics
were read unevenly, and after a gap everything up to the end (about 0.4 KB a record).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .export import Fingerprints
from .ledger_findings import LedgerFinding, Summary
from .ledger_record import ChainEntry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .head_check import StatedTree
    from .ledger_findings import Code

GENESIS = "GENESIS"
ANOTHER = "another record with this number is the one that the chain goes through"


@dataclass(frozen=True, slots=True)
class _Break:
    """`after` does not link to `before` (None: it is the first record and does not start the chain)."""

    before: ChainEntry | None
    after: ChainEntry


class PartitionChain:
    """Feed it with `add`, then `close` once for the findings and the summary."""

    def __init__(self, partition: int, tree: StatedTree | None = None) -> None:
        """`tree`: what signed heads state of it."""
        self._tree = tree
        self._partition = partition
        self._waiting: dict[int, ChainEntry] = {}
        self._next = 1
        self._head: ChainEntry | None = None
        self._first: int | None = None
        self._passed = Fingerprints()
        self._breaks: dict[int, _Break] = {}
        self._late: list[ChainEntry] = []
        self._records = 0

    def add(self, entry: ChainEntry) -> None:
        """Take one record of this partition."""
        self._records += 1
        if entry.sequence < self._next or entry.sequence in self._waiting:
            self._late.append(entry)
            return
        self._waiting[entry.sequence] = entry
        while (following := self._waiting.pop(self._next, None)) is not None:
            self._link(following)

    def close(self) -> tuple[Summary, list[LedgerFinding]]:
        """The end was read: say what is wrong. Call once."""
        findings = [*self._find_gaps(), *self._find_second_claims(), *self._find_broken_links()]
        last, head = (self._head.sequence, self._head.hash) if self._head else (None, None)
        if self._tree is not None and (differs := self._tree.close(last or 0)) is not None:
            findings.append(differs)
        return Summary(self._records, self._first, last, head), findings

    def _link(self, entry: ChainEntry) -> None:
        before = self._head
        expected = before.hash if before else GENESIS
        if entry.previous != expected:
            self._breaks[entry.sequence] = _Break(before, entry)
        self._pass(entry)

    def _pass(self, entry: ChainEntry) -> None:
        self._first = entry.sequence if self._first is None else self._first
        self._passed.put(entry.sequence, entry.hash, entry.topic, entry.offset)
        if self._tree is not None:
            self._tree.append(entry.sequence, entry.hash, entry.topic, entry.offset)
        self._head = entry
        self._next = entry.sequence + 1

    def _find_gaps(self) -> Iterator[LedgerFinding]:
        for sequence in sorted(self._waiting):
            entry = self._waiting.pop(sequence)
            if sequence == self._next:
                self._link(entry)
                continue
            yield self._describe_missing(entry)
            self._pass(entry)

    def _describe_missing(self, entry: ChainEntry) -> LedgerFinding:
        start, end = self._next, entry.sequence - 1
        what = f"record {start} is" if start == end else f"records {start} to {end} are"
        message = f"{what} in no topic, though record {entry.sequence} is there"
        return LedgerFinding("missing", self._partition, start, "", None, message)

    def _find_second_claims(self) -> Iterator[LedgerFinding]:
        """Find the records that claim a number besides the one that belongs there. To it the record after it
        links: from the end back, so that the finding about one number decides the one before."""
        claims: dict[int, list[ChainEntry]] = {}
        for entry in self._late:
            claims.setdefault(entry.sequence, []).append(entry)
        genuine: ChainEntry | None = None
        for sequence in sorted(claims, reverse=True):
            follows = genuine if genuine and genuine.sequence == sequence + 1 else None
            genuine = self._find_belonging(sequence, claims[sequence], follows)
            if genuine is not None:
                self._restore_links(genuine)
                yield self._make_finding_at("inserted", sequence, *self._passed.locate(sequence), ANOTHER)
            yield from self._describe_others(claims[sequence], genuine)

    def _find_belonging(
        self, sequence: int, claims: list[ChainEntry], follows: ChainEntry | None
    ) -> ChainEntry | None:
        """The claim that belongs in place of the record that came first; None: that one does."""
        broken = self._breaks.get(sequence + 1)
        if follows is not None:
            wanted = follows.previous
        elif broken is not None and broken.before is not None:
            wanted = broken.after.previous
        elif sequence == self._find_last() and sequence in self._breaks:
            return next(
                (claim for claim in claims if self._passed.is_same(sequence - 1, claim.previous)), None
            )
        else:
            return None
        if self._passed.is_same(sequence, wanted):
            return None
        return next((claim for claim in claims if claim.hash == wanted), None)

    def _restore_links(self, genuine: ChainEntry) -> None:
        """Note that what the first record broke is whole now, or is broken before this one."""
        sequence = genuine.sequence
        self._breaks.pop(sequence + 1, None)
        self._breaks.pop(sequence, None)
        linked = self._passed.is_same(sequence - 1, genuine.previous) or genuine.previous == GENESIS
        if sequence > 1 and not linked and self._passed.has_number(sequence - 1):
            before = ChainEntry(sequence - 1, "", "", *self._passed.locate(sequence - 1))
            self._breaks[sequence] = _Break(before, genuine)

    def _describe_others(
        self, claims: list[ChainEntry], genuine: ChainEntry | None
    ) -> Iterator[LedgerFinding]:
        for entry in claims:
            if entry is genuine:
                continue
            if self._passed.is_same(entry.sequence, entry.hash):
                yield self._make_finding("duplicate_sequence", entry, "the same record is there twice")
            elif genuine is None and self._is_fork(entry):
                topic, offset = self._passed.locate(entry.sequence)
                message = (
                    f"it and the one in {topic} at offset {offset} both end the chain: one of them is forged"
                )
                yield self._make_finding("forked", entry, message)
            else:
                yield self._make_finding("inserted", entry, ANOTHER)

    def _is_fork(self, entry: ChainEntry) -> bool:
        """Whether nothing comes after it, and it continues the chain as well as the record that came
        first."""
        sequence = entry.sequence
        before = self._passed.is_same(sequence - 1, entry.previous) or entry.previous == GENESIS
        return sequence == self._find_last() and before and sequence not in self._breaks

    def _find_last(self) -> int:
        return self._head.sequence if self._head else 0

    def _find_broken_links(self) -> Iterator[LedgerFinding]:
        for broken in self._breaks.values():
            if broken.before is None:
                message = f"the first record does not start the chain with {GENESIS}"
            else:
                message = f"prev_hash is not the event_hash of record {_describe_position(broken.before)}"
            yield self._make_finding("broken_link", broken.after, message)

    def _make_finding(self, code: Code, entry: ChainEntry, message: str) -> LedgerFinding:
        return self._make_finding_at(code, entry.sequence, entry.topic, entry.offset, message)

    def _make_finding_at(
        self, code: Code, sequence: int, topic: str, offset: int, message: str
    ) -> LedgerFinding:
        return LedgerFinding(code, self._partition, sequence, topic, offset, message)


def _describe_position(entry: ChainEntry) -> str:
    return f"{entry.sequence} ({entry.topic}, offset {entry.offset}): one of the two was changed or replaced"
