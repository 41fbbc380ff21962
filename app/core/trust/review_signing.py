"""A review as its reviewer signs it; app/core/registry/signatures.py checks the same bytes."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from app.core.registry.signatures import signed_bytes
from topics.records import ReviewDecision

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.core.trust.dsse import Signer

_UNSIGNED = "none"


def signed_review(fields: Mapping[str, str], key: Signer) -> ReviewDecision:
    """`fields`: all of a ReviewDecision but the signature. Raises pydantic.ValidationError."""
    review = ReviewDecision.model_validate({**fields, "signature": _UNSIGNED})
    signature = base64.b64encode(key.sign(signed_bytes(review))).decode()
    return review.model_copy(update={"signature": signature})
