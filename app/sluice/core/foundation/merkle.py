"""The Merkle tree of RFC 6962 (2.1), and its proofs: that a leaf is in a tree, that one tree begins another.

Everything takes and gives raw SHA-256 hashes of 32 bytes. A leaf's hash is `hash_leaf` of its data, so that
no leaf can pass for a node. Proofs are checked step by step as RFC 9162 (2.1.3.2, 2.1.4.2) says, for subtrees
as draft-ietf-plants-merkle-tree-certs does.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

HASH_BYTES = 32
EMPTY_ROOT = sha256(b"").digest()
"""The root of a tree without leaves."""


def hash_leaf(data: bytes) -> bytes:
    """The hash of a leaf with this content."""
    return sha256(b"\0" + data).digest()


def hash_node(left: bytes, right: bytes) -> bytes:
    """The hash of a node with these children."""
    return sha256(b"\1" + left + right).digest()


class Frontier:
    """What must be remembered of a growing tree: the roots of its full subtrees, largest first, at most log2
    of its size."""

    __slots__ = ("_full", "size")

    def __init__(self, leaves: Iterable[bytes] = ()) -> None:
        """`leaves`: hashes, as for `append`."""
        self.size = 0
        self._full: list[bytes] = []
        for leaf in leaves:
            self.append(leaf)

    def append(self, leaf: bytes) -> None:
        """Add a leaf's hash. Two hashes on average, at most log2 of the size."""
        node, size = leaf, self.size
        while size & 1:
            node = hash_node(self._full.pop(), node)
            size >>= 1
        self._full.append(node)
        self.size += 1

    def compute_root(self) -> bytes:
        """The root over all leaves so far, in at most log2 of the size hashes."""
        return _join(self._full)


class MerkleTree:
    """A tree that keeps the roots of all its full subtrees (64 bytes a leaf), for proofs about each of its
    sizes in O(log n)."""

    __slots__ = ("_levels",)

    def __init__(self, leaves: Iterable[bytes] = ()) -> None:
        """`leaves`: hashes, as for `append`."""
        self._levels = [bytearray()]
        for leaf in leaves:
            self.append(leaf)

    @property
    def size(self) -> int:
        """The number of leaves."""
        return len(self._levels[0]) // HASH_BYTES

    def append(self, leaf: bytes) -> None:
        """Add a leaf's hash."""
        node, above = leaf, self.size
        for height in range(len(self._levels) + 1):
            if height == len(self._levels):
                self._levels.append(bytearray())
            self._levels[height] += node
            if not above & 1:
                return
            node = hash_node(self._get_full(height, above - 1), node)
            above >>= 1

    def compute_root(self, size: int) -> bytes:
        """The root over the first `size` leaves. Raises ValueError for more than there are."""
        if not 0 <= size <= self.size:
            raise ValueError(f"a tree of {self.size} leaves has no first {size}")
        return self._hash_range(0, size)

    def prove_inclusion(self, index: int, size: int) -> list[bytes]:
        """The hashes that lead from leaf `index` (from 0) to the root over the first `size` leaves, from the
        leaf upwards. Raises ValueError for a leaf outside."""
        if not 0 <= index < size <= self.size:
            raise ValueError(f"leaf {index} is not among the first {size} of {self.size}")
        proof, start, end = list[bytes](), 0, size
        while end - start > 1:
            middle = start + _find_split(end - start)
            if index < middle:
                proof.append(self._hash_range(middle, end))
                end = middle
            else:
                proof.append(self._hash_range(start, middle))
                start = middle
        return proof[::-1]

    def prove_consistency(self, first: int, second: int) -> list[bytes]:
        """The hashes that show that the tree over the first `first` leaves, at least one, begins that over
        the first `second`. Raises ValueError for sizes that are not in this order."""
        if not 0 < first <= second <= self.size:
            raise ValueError(f"no first {first} among the first {second} of {self.size} leaves")
        proof, start, end = list[bytes](), 0, second
        while first != end:
            middle = start + _find_split(end - start)
            if first <= middle:
                proof.append(self._hash_range(middle, end))
                end = middle
            else:
                proof.append(self._hash_range(start, middle))
                start = middle
        return [*([] if start == 0 else [self._hash_range(start, end)]), *proof[::-1]]

    def _hash_range(self, start: int, end: int) -> bytes:
        """The root over leaves `start` to `end`; `start` is a multiple of the largest full subtree in it."""
        return _join(list(self._split(start, end)))

    def _split(self, start: int, end: int) -> Iterator[bytes]:
        """The full subtrees of a range, largest first."""
        while start < end:
            height = (end - start).bit_length() - 1
            yield self._get_full(height, start >> height)
            start += 1 << height

    def _get_full(self, height: int, index: int) -> bytes:
        at = index * HASH_BYTES
        return bytes(self._levels[height][at : at + HASH_BYTES])


def verify_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Whether the proof leads from the hash of leaf `index` (from 0) to the root over `size` leaves."""
    return verify_subtree_inclusion(leaf, index, (0, size), proof, root)


def verify_subtree_inclusion(
    leaf: bytes, index: int, subtree: tuple[int, int], proof: Sequence[bytes], root: bytes
) -> bool:
    """As `verify_inclusion`; `subtree` is the first leaf of a subtree and the one behind its last, `root` its
    hash, `index` is counted in the whole tree."""
    start, end = subtree
    if not _is_subtree(start, end) or not start <= index < end or len(leaf) != HASH_BYTES:
        return False
    at, last, node = index - start, end - start - 1, leaf
    for sibling in proof:
        if not last:
            return False
        if at & 1 or at == last:
            node = hash_node(sibling, node)
            while at and not at & 1:
                at, last = at >> 1, last >> 1
        else:
            node = hash_node(node, sibling)
        at, last = at >> 1, last >> 1
    return not last and node == root


def verify_consistency(sizes: tuple[int, int], roots: tuple[bytes, bytes], proof: Sequence[bytes]) -> bool:
    """Whether the proof shows that the tree of the first size, at least 1, and root begins the second."""
    return sizes[0] > 0 and verify_subtree_consistency((0, sizes[0]), sizes[1], roots, proof)


def verify_subtree_consistency(
    subtree: tuple[int, int], size: int, roots: tuple[bytes, bytes], proof: Sequence[bytes]
) -> bool:
    """Whether the proof shows that leaves `subtree[0]` up to and without `subtree[1]`, with the first root,
    are part of a tree of `size` leaves with the second. No leaves are part of every tree."""
    start, end = subtree
    if 0 <= start == end <= size:
        return not proof and roots[0] == EMPTY_ROOT
    if not _is_subtree(start, end) or end > size:
        return False
    left, right, last = start, end - 1, size - 1
    while left != right and (right == last or right & 1):
        left, right, last = left >> 1, right >> 1, last >> 1
    rest = iter(proof)
    inner = roots[0] if left == right else next(rest, b"")
    outer = inner
    for sibling in rest:
        if not last:
            return False
        if right & 1 or right == last:
            inner = hash_node(sibling, inner) if left < right else inner
            outer = hash_node(sibling, outer)
            while right and not right & 1:
                left, right, last = left >> 1, right >> 1, last >> 1
        else:
            outer = hash_node(outer, sibling)
        left, right, last = left >> 1, right >> 1, last >> 1
    return not last and inner == roots[0] and outer == roots[1]


def _is_subtree(start: int, end: int) -> bool:
    """Whether some tree has a node over these leaves, or over these and later ones."""
    return 0 <= start < end and start % (1 << (end - start - 1).bit_length()) == 0


def _find_split(size: int) -> int:
    """The largest power of two below `size`, at which RFC 6962 splits a tree of more than one leaf."""
    return 1 << ((size - 1).bit_length() - 1)


def _join(full: list[bytes]) -> bytes:
    """The root over full subtrees, largest first."""
    if not full:
        return EMPTY_ROOT
    root = full[-1]
    for node in full[-2::-1]:
        root = hash_node(node, root)
    return root
