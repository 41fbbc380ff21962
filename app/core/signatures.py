"""Whether an outcome is signed by a registered enforcement point: only then may it lower a total."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidSignature

from app.core.errors import CanonicalError
from app.core.ledger.canonical import canonical

if TYPE_CHECKING:
    from app.core.registry import Registry
    from topics.records import ActionOutcome


def signed_bytes(outcome: ActionOutcome) -> bytes:
    """What is signed: the RFC 8785 form of the record as sent, without `signature`. Raises CanonicalError."""
    return canonical(outcome.model_dump(by_alias=True, exclude_unset=True, exclude={"signature"}))


def may_lower(registry: Registry, outcome: ActionOutcome) -> bool:
    """A valid Ed25519 signature (base64) of the enforcement point that `reported_by` names."""
    point = registry.enforcement_points.get(outcome.reported_by)
    if point is None or outcome.signature is None:
        return False
    try:
        point.public_key.verify(base64.b64decode(outcome.signature, validate=True), signed_bytes(outcome))
    except (InvalidSignature, binascii.Error, ValueError, CanonicalError):
        return False
    return True
