"""The verifier's canonical form is the one of RFC 8785, also where it takes the short way."""

from __future__ import annotations

import json
from typing import Any

import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.verifier.ledger_record import canonicalize, read_object

TEXTS = st.text(max_size=20)
"""Of any characters: what a spelling may get wrong is in one of them or between two, not in their number."""
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([1e21, 1e20, 1e16, 1e-6, 1e-7, 0.0001, 1.0, -0.0, 5e-324, 1.7976931348623157e308])
    | TEXTS
)
NAMES = TEXTS | st.sampled_from(["\ufb33", "\U0001f600", "\u20ac", "a", "A", "1", "\x7f", "\u2028"])
NESTED = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=8,
)
OBJECTS = st.dictionaries(NAMES, NESTED, max_size=6)


@settings(max_examples=200, deadline=None)
@given(value=OBJECTS, ascii_only=st.booleans())
def test_any_spelling_of_a_value_has_the_reference_form(value: Any, *, ascii_only: bool) -> None:
    spelled = json.dumps(value, ensure_ascii=ascii_only, indent=1).encode()
    read, plain = read_object(spelled)
    assert canonicalize(read, plain=plain) == rfc8785.dumps(value)


@settings(max_examples=50, deadline=None)
@given(value=OBJECTS)
def test_a_canonical_form_read_again_keeps_its_bytes(value: Any) -> None:
    written = rfc8785.dumps(value)
    read, plain = read_object(written)
    assert canonicalize(read, plain=plain) == written
