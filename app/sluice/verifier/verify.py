"""The verification: feed every record of the ledger's topics, in any order between topics, then ask.

It holds, whatever the size of the values: per record 16 bytes for its hash and place and a bit for its input,
and an entry of about 0.4 KB for each record that came before its turn (see `chain.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .chain_check import PartitionChain
from .head_check import HeadCheck, is_head
from .ledger_findings import LedgerFinding, Report
from .ledger_record import NotStrict, Opened, open_record
from .placement import Placement, is_moved
from .policy_check import PolicyCheck
from .proof_check import ProofCheck

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from .export import Located
    from .ledger_findings import Summary
    from .ledger_record import ChainEntry
    from .proof_check import SignedBy

_STRANGERS = frozenset({"inserted", "duplicate_sequence"})
_IMPLIED = frozenset({"out_of_order", "duplicate_id"})


class Verifier:
    """Feed it with `add`, then `report` once."""

    def __init__(
        self,
        signed_by: SignedBy | None = None,
        heads: HeadCheck | None = None,
        partitions: Collection[int] | None = None,
    ) -> None:
        """`signed_by` None: proofs are not checked. `heads`: all tree heads, read before; None: there are
        none. `partitions`: those that must be there of what heads state; None: all. Raises UnusableKey, and
        ImportError (proof_check.py)."""
        self._heads = HeadCheck() if heads is None else heads
        self._due = self._heads.list_partitions() if partitions is None else partitions
        self._proofs = None if signed_by is None else ProofCheck(signed_by)
        self._chains: dict[int, PartitionChain] = {}
        self._placement = Placement()
        self._policy = PolicyCheck()
        self._last: dict[tuple[str, int], tuple[int, int]] = {}
        self._findings: list[LedgerFinding] = []
        self._records = 0

    def add(self, located: Located) -> Opened | None:
        """Take one record. Nothing is raised for what it holds: that becomes a finding. Heads are passed
        over. Returns the record, if it counts for its partition's chain."""
        if is_head(located):
            return None
        self._records += 1
        self._check_proof(located)
        chain = self._get_chain(located.partition)
        try:
            opened = open_record(located)
        except NotStrict as error:
            self._findings.append(_make_finding(located, str(error)))
            return None
        self._findings += self._placement.check(opened, located)
        if is_moved(opened, located):
            return None
        self._findings += self._policy.check(opened, located)
        self._check_hash(opened, located)
        self._check_order(opened, located)
        chain.add(opened.entry)
        return opened

    def add_hash(self, partition: int, entry: ChainEntry) -> None:
        """Take a record of which only number and hash are there."""
        self._get_chain(partition).add(entry)

    def make_report(self) -> Report:
        """The end was read: the whole result, findings by partition and number. Call once."""
        partitions, of_chains = self.close_chains()
        heads, of_heads = self._heads.summarize(self._records)
        return Report(partitions, sort_findings([*of_chains, *of_heads]), self._records, heads)

    def close_chains(self) -> tuple[dict[int, Summary], list[LedgerFinding]]:
        """The end was read: each chain, and what is wrong with records and chains, not with heads. Call
        once."""
        partitions: dict[int, Summary] = {}
        for number in self._due:
            self._get_chain(number)
        for number, chain in sorted(self._chains.items()):
            partitions[number], findings = chain.close()
            self._findings += findings
        return partitions, self._findings

    def _get_chain(self, partition: int) -> PartitionChain:
        if partition not in self._chains:
            self._chains[partition] = PartitionChain(partition, self._heads.make_tree(partition))
        return self._chains[partition]

    def _check_proof(self, located: Located) -> None:
        objection = None if self._proofs is None else self._proofs.find_objection(located)
        if objection is not None:
            location = (located.partition, None, located.topic, located.offset)
            self._findings.append(LedgerFinding("unsigned", *location, objection))

    def _check_hash(self, opened: Opened, located: Located) -> None:
        entry = opened.entry
        if entry.hash != opened.computed_hash:
            message = f"the record's hash is {opened.computed_hash}, its event_hash says {entry.hash[:80]!r}"
            location = (located.partition, entry.sequence, located.topic, located.offset)
            self._findings.append(LedgerFinding("altered", *location, message))

    def _check_order(self, opened: Opened, located: Located) -> None:
        entry, series = opened.entry, (located.topic, located.partition)
        offset, sequence = self._last.get(series, (-1, 0))
        self._last[series] = (entry.offset, entry.sequence)
        if (entry.offset > offset) != (entry.sequence > sequence):
            message = f"record {sequence} lies at offset {offset}: numbers must ascend with offsets"
            location = (located.partition, entry.sequence, located.topic, located.offset)
            self._findings.append(LedgerFinding("out_of_order", *location, message))


def verify(
    records: Iterable[Located], signed_by: SignedBy | None = None, heads: HeadCheck | None = None
) -> Report:
    """Verify the whole ledger: every record of every ledger topic, each topic-partition in offset order.
    `signed_by`, `heads`: as Verifier, and what it raises."""
    verifier = Verifier(signed_by, heads)
    for located in records:
        verifier.add(located)
    return verifier.make_report()


def _make_finding(located: Located, message: str) -> LedgerFinding:
    return LedgerFinding("unreadable", located.partition, None, located.topic, located.offset, message)


def sort_findings(findings: Iterable[LedgerFinding]) -> tuple[LedgerFinding, ...]:
    """Sorted for reading; what follows from a record not belonging is not said again."""
    all_findings = list(findings)
    strangers = {_group_key(finding) for finding in all_findings if finding.code in _STRANGERS}
    left = (f for f in all_findings if f.code not in _IMPLIED or _group_key(f) not in strangers)
    return tuple(sorted(left, key=_sort_key))


def _group_key(finding: LedgerFinding) -> tuple[str, int, int | None]:
    return finding.topic, finding.partition, finding.offset


def _sort_key(finding: LedgerFinding) -> tuple[int, int, str, int, str]:
    return finding.partition, finding.sequence or 0, finding.topic, finding.offset or 0, finding.code
