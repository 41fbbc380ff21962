"""Whether heads were there when a time-stamping authority says so (RFC 3161; docs/tree-heads.md).

A line of the file is a head's envelope with the member `timestamp`: a TimeStampResp in base64, over the
SHA-256 of the envelope's payload. Needs the packages `rfc3161-client` and `cryptography`.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from .export import Located
from .head_check import TREE_HEADS, HeadCheck, read_time
from .head_proof_check import ProofResult
from .ledger_record import read_object
from .proof_check import UnusableKey

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from rfc3161_client import Verifier

    from .head_check import HeadSigners, StatedHead

_CLOCKS_APART_MS = 60_000
"""A head signer's clock and an authority's differ by less than this."""


class _FalseStamp(Exception):
    """The message says why."""


def check_stamps(raw: bytes, signers: HeadSigners | None, authorities: Sequence[bytes]) -> ProofResult:
    """Check a file of stamped heads. `signers`: as HeadCheck, and what it raises; `authorities`: root
    certificates in PEM, of which one must have vouched for whoever stamped. Raises UnusableKey where one is
    no certificate, and ImportError without the packages."""
    verifier = _build_verifier(authorities)
    heads = HeadCheck(signers)
    lines: list[str] = []
    digests: dict[int, str] = {}
    if not raw.strip():
        return ProofResult(holds=False, lines=("the file holds no head",))
    try:
        for number, line in enumerate(raw.splitlines(), start=1):
            lines.append(_check_line(line, number, heads, verifier, digests))
    except _FalseStamp as error:
        return ProofResult(holds=False, lines=(*lines, str(error)))
    if signers is None:
        lines.append("No head key was given: who signed the heads was not checked.")
    return ProofResult(holds=True, lines=tuple(lines))


def _build_verifier(authorities: Sequence[bytes]) -> Verifier:
    from cryptography.x509 import load_pem_x509_certificate  # noqa: PLC0415 - needed here alone
    from rfc3161_client import VerifierBuilder  # noqa: PLC0415 - needed here alone

    builder = VerifierBuilder()
    for number, pem in enumerate(authorities, start=1):
        try:
            builder = builder.add_root_certificate(load_pem_x509_certificate(pem))
        except ValueError as error:
            raise UnusableKey(f"authority {number} is no certificate in PEM: {error}") from None
    return builder.build()


def _check_line(
    line: bytes, number: int, heads: HeadCheck, verifier: Verifier, digests: dict[int, str]
) -> str:
    """What one line shows. `digests`: of the heads before, by number. Raises _FalseStamp."""
    head = heads.read_alone(Located(TREE_HEADS, 0, number - 1, None, line))
    if head is None:
        raise _FalseStamp(f"line {number}: {heads.findings[-1].message}")
    if digests.setdefault(head.number, head.digest) != head.digest:
        raise _FalseStamp(
            f"line {number}: there are two heads {head.number}: the signer signed two histories"
        )
    stamped_at = _check_stamp(line, head, verifier)
    stamped_ms = round(stamped_at.timestamp() * 1000)
    if read_time(head.signed_at) > stamped_ms + _CLOCKS_APART_MS:
        raise _FalseStamp(
            f"line {number}: head {head.number} says that it was signed at {head.signed_at}, and was stamped "
            f"before, at {stamped_at.isoformat()}"
        )
    return f"Head {head.number}, over {head.size} records, was there at {stamped_at.isoformat()}."


def _check_stamp(line: bytes, head: StatedHead, verifier: Verifier) -> datetime:
    """When the head was stamped. Raises _FalseStamp."""
    from rfc3161_client import VerificationError, decode_timestamp_response  # noqa: PLC0415 - needed here alone

    fields, _ = read_object(line)
    text = fields.get("timestamp")
    if not isinstance(text, str):
        raise _FalseStamp(f"head {head.number}: its time stamp does not hold: it has none")
    try:
        response = decode_timestamp_response(base64.b64decode(text, validate=True))
        verifier.verify(response, bytes.fromhex(head.digest.removeprefix("sha256:")))
    except (VerificationError, ValueError) as error:
        raise _FalseStamp(f"head {head.number}: its time stamp does not hold: {error}") from None
    return response.tst_info.gen_time
