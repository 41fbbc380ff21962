"""Whether a proof from tree heads holds (docs/tree-heads.md), with nothing but the proof and the head keys.

It shares nothing with the code that made it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .export import Located
from .head_check import HASH, TREE_HEADS, HeadCheck, hash_bytes
from .ledger_record import NotStrict, encode_text, open_record, read_object

if TYPE_CHECKING:
    from .head_check import HeadSigners, StatedHead


@dataclass(frozen=True, slots=True)
class ProofResult:
    """`holds`, and lines that say what was shown, or why not."""

    holds: bool
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Growth:
    """Two heads of which the first's ledger begins the second's, and the second's envelope; None for both,
    and `why`, where the proof does not hold."""

    first: StatedHead | None
    second: StatedHead | None
    envelope: bytes
    why: str = ""


class _DoesNotHold(Exception):
    """The message says why."""


def check_proof(raw: bytes, signers: HeadSigners | None) -> ProofResult:
    """Check a proof of inclusion or of consistency. `signers`: as HeadCheck, and what it raises."""
    heads = HeadCheck(signers)
    try:
        document, _ = read_object(raw)
        lines = _check_document(document, heads)
    except (NotStrict, _DoesNotHold) as error:
        return ProofResult(holds=False, lines=(str(error),))
    if signers is None:
        lines.append("No head key was given: who signed the head was not checked.")
    return ProofResult(holds=True, lines=tuple(lines))


def find_growth(raw: bytes, signers: HeadSigners) -> Growth:
    """The heads of a proof of consistency that holds. `signers`: as HeadCheck, and what it raises."""
    result = check_proof(raw, signers)
    if not result.holds:
        return Growth(None, None, b"", " ".join(result.lines))
    document, _ = read_object(raw)
    if "second" not in document:
        return Growth(None, None, b"", "it is no proof of consistency")
    heads = HeadCheck(signers)
    first, second = (_take_head(document[name], heads) for name in ("first", "second"))
    return Growth(first, second, _encode(document["second"]))


def _check_document(document: dict[str, Any], heads: HeadCheck) -> list[str]:
    schema = document.get("schema")
    if schema == "sluice/inclusion_proof/v1":
        return _check_inclusion(document, heads)
    if schema == "sluice/consistency_proof/v1":
        return _check_consistency(document, heads)
    raise _DoesNotHold(f"it is no proof: its schema is {str(schema)[:80]!r}")


def _check_inclusion(document: dict[str, Any], heads: HeadCheck) -> list[str]:
    head = _take_head(document.get("head"), heads)
    proofs = document.get("proofs")
    if not isinstance(proofs, list) or not proofs:
        raise _DoesNotHold("it has no proofs")
    return [_check_record(proof, head) for proof in proofs]


def _check_record(proof: Any, head: StatedHead) -> str:
    if not isinstance(proof, dict) or not isinstance(proof.get("record"), str):
        raise _DoesNotHold("a proof has no record")
    opened = open_record(Located(str(proof.get("topic")), 0, 0, None, encode_text(proof["record"])))
    partition, sequence = opened.fields.get("partition"), opened.entry.sequence
    name = f"record {sequence} of partition {partition}"
    if opened.entry.hash != opened.computed_hash:
        raise _DoesNotHold(f"{name} was altered: its event_hash is not its own")
    if type(partition) is not int or not 0 <= partition < len(head.partitions):
        raise _DoesNotHold(f"{name}: head {head.number} does not state this partition")
    for field, value in (("partition", partition), ("sequence", sequence)):
        if field in proof and (type(proof[field]), proof[field]) != (int, value):
            raise _DoesNotHold(f"{name}: its proof says {field} {proof[field]!r}")
    stated = head.partitions[partition]
    leaf = hash_bytes(b"\0" + bytes.fromhex(opened.entry.hash[7:]))
    if _lead_up(leaf, sequence - 1, stated.size, _read_path(proof.get("path"))) != stated.root:
        raise _DoesNotHold(f"{name} is not among the {stated.size} that head {head.number} signs")
    above = _lead_up(stated.leaf, partition, len(head.partitions), _read_path(proof.get("partition_path")))
    if above is None or f"sha256:{above.hex()}" != head.root:
        raise _DoesNotHold(f"{name}: its partition does not lead to the root of head {head.number}")
    return f"{name} is in the ledger that head {head.number} signed at {head.signed_at}."


def _check_consistency(document: dict[str, Any], heads: HeadCheck) -> list[str]:
    first, second = _take_head(document.get("first"), heads), _take_head(document.get("second"), heads)
    if (first.installation, first.prefix) != (second.installation, second.prefix):
        raise _DoesNotHold("the heads are of two installations")
    listed = document.get("partitions")
    count = len(first.partitions)
    if not isinstance(listed, list) or len(listed) != count or count > len(second.partitions):
        raise _DoesNotHold("it does not have a proof for each partition of the first head")
    for number, (then, now, proof) in enumerate(
        zip(first.partitions, second.partitions, listed, strict=False)
    ):
        if not isinstance(proof, dict) or proof.get("partition") != number:
            raise _DoesNotHold(f"the proof of partition {number} is not where it belongs")
        path = _read_path(proof.get("path"))
        if then.size and not _is_prefix((then.size, now.size), (then.root, now.root), path):
            raise _DoesNotHold(
                f"partition {number}: the {then.size} records of head {first.number} do not begin the "
                f"{now.size} of head {second.number}"
            )
    return [f"The ledger of head {first.number} begins that of head {second.number}."]


def _take_head(envelope: Any, heads: HeadCheck) -> StatedHead:
    """The head in an envelope, if a key that counts signed it. Raises _DoesNotHold."""
    before = len(heads.findings)
    head = heads.read_alone(Located(TREE_HEADS, 0, 0, None, _encode(envelope)))
    if head is None:
        raise _DoesNotHold("; ".join(finding.message for finding in heads.findings[before:]))
    return head


def _encode(envelope: Any) -> bytes:
    return json.dumps(envelope).encode()


def _read_path(value: Any) -> list[bytes]:
    if not isinstance(value, list) or not all(
        isinstance(each, str) and HASH.fullmatch(each) for each in value
    ):
        raise _DoesNotHold("a path is no list of SHA-256")
    return [bytes.fromhex(each[7:]) for each in value]


def _lead_up(node: bytes, index: int, size: int, path: list[bytes]) -> bytes | None:
    """RFC 9162, 2.1.3.2; None for a path that does not fit the tree."""
    if not 0 <= index < size:
        return None
    last = size - 1
    for sibling in path:
        if not last:
            return None
        if index & 1 or index == last:
            node = hash_bytes(b"\1" + sibling + node)
            while index and not index & 1:
                index, last = index >> 1, last >> 1
        else:
            node = hash_bytes(b"\1" + node + sibling)
        index, last = index >> 1, last >> 1
    return None if last else node


def _is_prefix(sizes: tuple[int, int], roots: tuple[bytes, bytes], path: list[bytes]) -> bool:
    """RFC 9162, 2.1.4.2."""
    first, second = sizes[0] - 1, sizes[1] - 1
    if not 0 <= first <= second:
        return False
    if first == second:
        return not path and roots[0] == roots[1]
    while first & 1:
        first, second = first >> 1, second >> 1
    rest = iter(path)
    inner = outer = roots[0] if not first else next(rest, b"")
    for sibling in rest:
        if not second:
            return False
        if first & 1 or first == second:
            inner, outer = hash_bytes(b"\1" + sibling + inner), hash_bytes(b"\1" + sibling + outer)
            while first and not first & 1:
                first, second = first >> 1, second >> 1
        else:
            outer = hash_bytes(b"\1" + outer + sibling)
        first, second = first >> 1, second >> 1
    return not second and inner == roots[0] and outer == roots[1]
