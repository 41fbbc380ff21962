"""A reviewer's signature: over everything that the review says, checked by the code that decides on it."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sluice.core.decide.kinds import BY_TOPIC
from sluice.core.registry.keys import SigningKey, is_signed_by
from sluice.core.trust.signing import sign_review
from sluice_topics.audience import Audience
from sluice_topics.catalog import REVIEWS
from sluice_topics.record_reading import read
from sluice_topics.records import ReviewDecision

KEY = SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
PUBLIC = Ed25519PublicKey.from_public_bytes(KEY.public.raw)
FIELDS = {
    "subject_id": "memory:gate.memory.writes.proposed:3:17",
    "session_id": "s1",
    "decision": "approve",
    "approver_id": "carol",
    "digest": "sha256:" + "0" * 64,
    "justification": "read and checked",
}
OTHERWISE = {**dict.fromkeys(FIELDS, "other"), "decision": "reject", "digest": "sha256:" + "1" * 64}


@given(st.text(min_size=1, max_size=200).filter(lambda text: text.isprintable()))
def test_a_signed_review_is_known_again_after_its_way_over_the_wire(justification: str) -> None:
    review = sign_review({**FIELDS, "justification": justification}, KEY, Audience())
    arrived = read(BY_TOPIC[REVIEWS].model, review.model_dump_json().encode())
    assert isinstance(arrived, ReviewDecision)
    assert is_signed_by(PUBLIC, arrived, Audience())


@pytest.mark.parametrize("field", FIELDS)
def test_nothing_that_a_review_says_can_be_changed_afterwards(field: str) -> None:
    review = sign_review(FIELDS, KEY, Audience())
    assert is_signed_by(PUBLIC, review, Audience())
    assert not is_signed_by(PUBLIC, review.model_copy(update={field: OTHERWISE[field]}), Audience())


def test_what_is_no_review_is_not_signed() -> None:
    with pytest.raises(ValidationError):
        sign_review({**FIELDS, "decision": "perhaps"}, KEY, Audience())
