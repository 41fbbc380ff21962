"""Who signed a record: an enforcement point its outcome, a reviewer the review.

What is signed is the RFC 8785 form of the record as sent, without `signature`. The records' fields differ, so
a signature of one kind is none of another.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidSignature

from app.core.foundation.canonical import canonical
from app.core.foundation.errors import CanonicalError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from app.core.registry.registry import Registry
    from topics.records import ActionOutcome, ReviewDecision


def signed_bytes(record: ActionOutcome | ReviewDecision) -> bytes:
    """What is signed. Raises CanonicalError."""
    return canonical(record.model_dump(by_alias=True, exclude_unset=True, exclude={"signature"}))


def signed_by(key: Ed25519PublicKey, record: ActionOutcome | ReviewDecision) -> bool:
    """Whether the record bears a valid Ed25519 signature (base64) of this key."""
    try:
        key.verify(base64.b64decode(record.signature or "", validate=True), signed_bytes(record))
    except (InvalidSignature, binascii.Error, ValueError, CanonicalError):
        return False
    return True


def is_signed(registry: Registry, outcome: ActionOutcome) -> bool:
    """Whether an outcome is signed by the enforcement point that `reported_by` names: only then may it lower
    a total."""
    point = registry.enforcement_points.get(outcome.reported_by)
    return point is not None and signed_by(point.public_key, outcome)
