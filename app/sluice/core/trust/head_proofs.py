"""Proofs from tree heads: a record is in the ledger that a head signs; one head begins another. Pure.

A proof is one JSON object that an outsider checks with the head's public key alone (docs/tree-heads.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from sluice.core.foundation.merkle import HASH_BYTES, MerkleTree, hash_leaf
from sluice.core.trust.tree_heads import LedgerBroken, hash_partition, read_link

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluice_topics.records.tree_heads import TreeHead

INCLUSION_SCHEMA = "sluice/inclusion_proof/v1"
CONSISTENCY_SCHEMA = "sluice/consistency_proof/v1"


@dataclass(frozen=True, slots=True)
class ProvenRecord:
    """A ledger record that is to be proven. `value`: its bytes, as they lie."""

    topic: str
    partition: int
    offset: int
    sequence: int
    value: bytes


@dataclass
class LeafHashes:
    """The leaves of one partition's tree up to a size: 32 bytes a record, which may come in any order."""

    size: int
    leaves: bytearray = field(init=False)

    def __post_init__(self) -> None:
        self.leaves = bytearray(self.size * HASH_BYTES)

    def put(self, sequence: int, event_hash: str) -> None:
        """Put the hash of a record; one behind the size is passed over."""
        if 0 < sequence <= self.size:
            at = (sequence - 1) * HASH_BYTES
            self.leaves[at : at + HASH_BYTES] = hash_leaf(bytes.fromhex(event_hash[7:]))

    def build_tree(self) -> MerkleTree:
        """The tree over them; a record that did not come makes another root than the head's."""
        leaves = self.leaves
        return MerkleTree(bytes(leaves[at : at + HASH_BYTES]) for at in range(0, len(leaves), HASH_BYTES))


class ProofMaker:
    """Takes the ledger's records of some partitions, then makes proofs for one head, or for two."""

    def __init__(self, head: TreeHead, partitions: Iterable[int], wanted: str | None = None) -> None:
        """`wanted`: the id of the records to prove, as one of their fields that end with `_id` has it."""
        self._head = head
        self._wanted = wanted
        self._leaves = {number: LeafHashes(head.partitions[number].size) for number in partitions}
        self.records: list[ProvenRecord] = []

    def take(self, topic: str, partition: int, offset: int, value: bytes | None) -> None:
        """Take a record. One that cannot be read, or has another's hash, is none of the ledger's."""
        leaves = self._leaves.get(partition)
        if leaves is None:
            return
        try:
            link = read_link(value)
        except LedgerBroken:
            return
        leaves.put(link.sequence, link.event_hash)
        if self._wanted is not None and value and self._wanted.encode() in value and self._is_wanted(value):
            self.records.append(ProvenRecord(topic, partition, offset, link.sequence, value))

    def build_trees(self) -> dict[int, MerkleTree]:
        """The trees of the partitions, each with the root that the head states. Raises LedgerBroken."""
        trees = {}
        for number, leaves in self._leaves.items():
            tree = trees[number] = leaves.build_tree()
            stated = self._head.partitions[number]
            if _write(tree.compute_root(stated.size)) != stated.root:
                raise LedgerBroken(
                    f"partition {number}: its first {stated.size} records are not those that head "
                    f"{self._head.number} signs"
                )
        return trees

    def _is_wanted(self, value: bytes) -> bool:
        fields = orjson.loads(value)
        return any(name.endswith("_id") and each == self._wanted for name, each in fields.items())


def prove_inclusion(
    head: TreeHead, envelope: bytes, trees: dict[int, MerkleTree], records: Iterable[ProvenRecord]
) -> dict[str, Any]:
    """The proof of some records, each within the head's sizes. `envelope`: the head as it lies."""
    over = MerkleTree(map(hash_partition, head.partitions))
    return {
        "schema": INCLUSION_SCHEMA,
        "head": orjson.loads(envelope),
        "proofs": [
            {
                "topic": record.topic,
                "partition": record.partition,
                "offset": record.offset,
                "sequence": record.sequence,
                "record": record.value.decode(),
                "path": _write_all(
                    trees[record.partition].prove_inclusion(
                        record.sequence - 1, head.partitions[record.partition].size
                    )
                ),
                "partition_path": _write_all(over.prove_inclusion(record.partition, len(head.partitions))),
            }
            for record in records
        ],
    }


def prove_consistency(
    heads: tuple[TreeHead, TreeHead], envelopes: tuple[bytes, bytes], trees: dict[int, MerkleTree]
) -> dict[str, Any]:
    """The proof that the first head begins the second, partition by partition; one that was empty needs
    none. `trees`: of the second."""
    first, second = heads
    return {
        "schema": CONSISTENCY_SCHEMA,
        "first": orjson.loads(envelopes[0]),
        "second": orjson.loads(envelopes[1]),
        "partitions": [
            {
                "partition": then.partition,
                "path": _write_all(trees[then.partition].prove_consistency(then.size, now.size))
                if then.size
                else [],
            }
            for then, now in zip(first.partitions, second.partitions, strict=False)
        ],
    }


def _write_all(hashes: Iterable[bytes]) -> list[str]:
    return [_write(each) for each in hashes]


def _write(raw: bytes) -> str:
    return f"sha256:{raw.hex()}"
