"""One partition's chain, over all its topics: numbers gapless from 1, each record linked to the one before.

Records come in any order between topics. A record waits until all before it have come; when it is its turn it
is linked and forgotten, but for 8 bytes of its hash. What waits is therefore as much as the topics were read
unevenly, and after a gap everything up to the end (about 0.4 KB a record).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.verifier.findings import Finding, Summary
from app.verifier.paged import Fingerprints

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.verifier.findings import Code
    from app.verifier.record import Entry

GENESIS = "GENESIS"


@dataclass(frozen=True, slots=True)
class _Break:
    """`after` does not link to `before` (None: it is the first record and does not start the chain)."""

    before: Entry | None
    after: Entry


class PartitionChain:
    """Feed it with `add`, then `close` once for the findings and the summary."""

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self._waiting: dict[int, Entry] = {}
        self._next = 1
        self._head: Entry | None = None
        self._first: int | None = None
        self._passed = Fingerprints()
        self._breaks: dict[int, _Break] = {}
        self._late: list[Entry] = []
        self._records = 0

    def add(self, entry: Entry) -> None:
        """Take one record of this partition."""
        self._records += 1
        if entry.sequence < self._next or entry.sequence in self._waiting:
            self._late.append(entry)
            return
        self._waiting[entry.sequence] = entry
        while (following := self._waiting.pop(self._next, None)) is not None:
            self._link(following)

    def close(self) -> tuple[Summary, list[Finding]]:
        """The end was read: say what is wrong. Call once."""
        findings = [*self._gaps(), *self._second_claims(), *self._broken_links()]
        last, head = (self._head.sequence, self._head.hash) if self._head else (None, None)
        return Summary(self._records, self._first, last, head), findings

    def _link(self, entry: Entry) -> None:
        before = self._head
        expected = before.hash if before else GENESIS
        if entry.previous != expected:
            self._breaks[entry.sequence] = _Break(before, entry)
        self._pass(entry)

    def _pass(self, entry: Entry) -> None:
        self._first = entry.sequence if self._first is None else self._first
        self._passed.put(entry.sequence, entry.hash)
        self._head = entry
        self._next = entry.sequence + 1

    def _gaps(self) -> Iterator[Finding]:
        for sequence in sorted(self._waiting):
            entry = self._waiting.pop(sequence)
            if sequence == self._next:
                self._link(entry)
                continue
            yield self._missing(entry)
            self._pass(entry)

    def _missing(self, entry: Entry) -> Finding:
        start, end = self._next, entry.sequence - 1
        what = f"record {start} is" if start == end else f"records {start} to {end} are"
        message = f"{what} in no topic, though record {entry.sequence} is there"
        return Finding("missing", self._partition, start, "", None, message)

    def _second_claims(self) -> Iterator[Finding]:
        for entry in self._late:
            following = self._breaks.get(entry.sequence + 1)
            if following and following.before and following.after.previous == entry.hash:
                yield self._false_claim(entry, following.before)
            elif self._passed.same(entry.sequence, entry.hash):
                yield self._found("duplicate_sequence", entry, "the same record is there twice")
            else:
                yield self._inserted(entry)

    def _false_claim(self, genuine: Entry, false: Entry) -> Finding:
        """The chain goes on from the record that came later, so the one that came first does not belong."""
        del self._breaks[genuine.sequence + 1]
        own = self._breaks.get(genuine.sequence)
        if own and genuine.previous == (own.before.hash if own.before else GENESIS):
            del self._breaks[genuine.sequence]
        return self._inserted(false)

    def _inserted(self, entry: Entry) -> Finding:
        message = "another record with this number is the one that the chain goes through"
        return self._found("inserted", entry, message)

    def _broken_links(self) -> Iterator[Finding]:
        for broken in self._breaks.values():
            if broken.before is None:
                message = f"the first record does not start the chain with {GENESIS}"
            else:
                message = f"prev_hash is not the event_hash of record {_where(broken.before)}"
            yield self._found("broken_link", broken.after, message)

    def _found(self, code: Code, entry: Entry, message: str) -> Finding:
        return Finding(code, self._partition, entry.sequence, entry.topic, entry.offset, message)


def _where(entry: Entry) -> str:
    return f"{entry.sequence} ({entry.topic}, offset {entry.offset}): one of the two was changed or replaced"
