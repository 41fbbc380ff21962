"""The tree of RFC 6962: every row of the published vectors, and its parts against the RFC's own recursion."""

from __future__ import annotations

import base64
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.foundation.merkle import (
    EMPTY_ROOT,
    Frontier,
    MerkleTree,
    hash_leaf,
    hash_node,
    verify_consistency,
    verify_inclusion,
    verify_subtree_consistency,
    verify_subtree_inclusion,
)

VECTORS = Path(__file__).resolve().parents[1] / "data" / "rfc6962_merkle.jsonl"
ROWS = [json.loads(line) for line in VECTORS.read_text().splitlines()]
LEAVES = [hash_leaf(b"%d" % number) for number in range(70)]
TREE = MerkleTree(LEAVES)


def decode(text: str) -> bytes:
    """Base64, as the vectors write hashes."""
    return base64.b64decode(text)


def holds(row: dict[str, Any]) -> bool:
    """What the module says about a vector."""
    given_ = row["input"]
    if given_["op"] == "root":
        leaves = [hash_leaf(bytes.fromhex(leaf)) for leaf in given_["leaves_hex"]]
        computed = {Frontier(leaves).compute_root(), MerkleTree(leaves).compute_root(len(leaves))}
        return computed == {bytes.fromhex(given_["root_hex"])}
    proof = [decode(each) for each in given_["proof"] or []]
    if given_["op"] in ("inclusion", "subtreeinclusion"):
        leaf, root = decode(given_["leafHash"]), decode(given_["root"])
        if given_["op"] == "inclusion":
            return verify_inclusion(leaf, given_["leafIdx"], given_["treeSize"], proof, root)
        return verify_subtree_inclusion(
            leaf, given_["leafIdx"], (given_["start"], given_["end"]), proof, root
        )
    roots = decode(given_["root1"]), decode(given_["root2"])
    if given_["op"] == "consistency":
        return verify_consistency((given_["size1"], given_["size2"]), roots, proof)
    return verify_subtree_consistency((given_["start"], given_["end"]), given_["size"], roots, proof)


def test_every_row_of_the_vectors_is_judged_as_labelled() -> None:
    wrong = [row["id"] for row in ROWS if holds(row) != (row["label"] == "valid")]
    assert (len(ROWS), wrong) == (527, [])


def hash_tree(leaves: list[bytes]) -> bytes:
    """MTH of RFC 6962, 2.1, from all leaves anew."""
    if len(leaves) <= 1:
        return leaves[0] if leaves else EMPTY_ROOT
    split = max(1 << height for height in range(7) if 1 << height < len(leaves))
    return hash_node(hash_tree(leaves[:split]), hash_tree(leaves[split:]))


def test_frontier_and_tree_have_the_root_of_a_recount_at_every_size() -> None:
    frontier = Frontier()
    for size, leaf in enumerate([*LEAVES, b""]):
        recount = hash_tree(LEAVES[:size])
        assert (frontier.size, frontier.compute_root()) == (size, recount)
        assert TREE.compute_root(size) == recount
        frontier.append(leaf)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 31, 33, 64, 70])
def test_every_leaf_and_every_prefix_is_proven_and_nothing_else(size: int) -> None:
    root = hash_tree(LEAVES[:size])
    for index in range(size):
        proof = TREE.prove_inclusion(index, size)
        assert len(proof) <= (size - 1).bit_length()
        assert verify_inclusion(LEAVES[index], index, size, proof, root)
        assert not verify_inclusion(LEAVES[index ^ 1], index, size, proof, root)
        first, prefix = index + 1, hash_tree(LEAVES[: index + 1])
        way = TREE.prove_consistency(first, size)
        assert len(way) <= (size - 1).bit_length() + 1
        assert verify_consistency((first, size), (prefix, root), way)
        assert not verify_consistency((first, size), (hash_tree(LEAVES[1 : first + 1]), root), way)


@given(st.data())
def test_a_changed_proof_proves_nothing(data: st.DataObject) -> None:
    size = data.draw(st.integers(2, 70))
    index = data.draw(st.integers(0, size - 1))
    root, prefix = TREE.compute_root(size), TREE.compute_root(index + 1)
    inclusion, consistency = TREE.prove_inclusion(index, size), TREE.prove_consistency(index + 1, size)
    for proof in (inclusion, consistency):
        if not proof:
            continue
        way = data.draw(st.sampled_from(["flip", "drop", "repeat", "swap"]))
        at = data.draw(st.integers(0, len(proof) - 1))
        before = list(proof)
        if way == "flip":
            proof[at] = bytes([proof[at][0] ^ 1]) + proof[at][1:]
        elif way == "drop":
            del proof[at]
        elif way == "repeat":
            proof.insert(at, proof[at])
        else:
            proof[at], proof[at - 1] = proof[at - 1], proof[at]
        if proof == before:
            continue
        leaf_holds = proof is inclusion and verify_inclusion(LEAVES[index], index, size, proof, root)
        prefix_holds = proof is consistency and verify_consistency((index + 1, size), (prefix, root), proof)
        assert not leaf_holds
        assert not prefix_holds


def test_sizes_outside_the_tree_are_refused() -> None:
    for ask in (
        lambda: TREE.compute_root(71),
        lambda: TREE.compute_root(-1),
        lambda: TREE.prove_inclusion(3, 3),
        lambda: TREE.prove_inclusion(0, 71),
        lambda: TREE.prove_consistency(0, 3),
        lambda: TREE.prove_consistency(4, 3),
    ):
        with pytest.raises(ValueError, match="lea"):
            ask()


def test_an_append_costs_two_hashes_on_average(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def count(left: bytes, right: bytes) -> bytes:
        calls.append(1)
        return hash_node(left, right)

    monkeypatch.setattr("sluice.core.foundation.merkle.hash_node", count)
    frontier = Frontier()
    costs = [0]
    for number in range(1024):
        frontier.append(hash_leaf(b"%d" % number))
        costs.append(len(calls))
    assert costs[-1] < 1024
    assert max(after - before for before, after in pairwise(costs)) == 10
