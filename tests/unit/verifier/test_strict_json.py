"""The verifier's canonical form is the one of RFC 8785, also where it takes the short way."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.verifier.export import Located
from sluice.verifier.ledger_record import NotStrict, canonicalize, open_record, read_canonical, read_object

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


@settings(max_examples=400, deadline=None)
@given(value=OBJECTS, seed=st.integers(0, 2**32))
def test_only_bytes_that_are_the_reference_form_take_the_short_way(value: Any, seed: int) -> None:
    """The form itself, as Python writes it compactly, and with one byte changed."""
    python = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    changed = bytearray(python.encode("utf-8", "surrogatepass"))
    changed[seed % len(changed)] = seed >> 8 & 0x7F
    for raw in (rfc8785.dumps(value), python.encode("utf-8", "surrogatepass"), bytes(changed)):
        fields = read_canonical(raw)
        if fields is not None:
            assert rfc8785.dumps(fields) == raw


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a":1.0}',
        b'{"a":[2,-0.0]}',
        b'{"a":-0}',
        b'{"a":1e+16}',
        b'{"a":[1e-07]}',
        b'{"a":1,"a":1}',
        b'{"b":1,"a":1}',
        b'{"a": 1}',
        b'{"a":NaN}',
        b'{"a":9007199254740993}',
        b'{"a":"\\u0041"}',
        b'{"a":"\\ud800"}',
        b"[1]",
        '{"\U0001f600":1,"\ufb33":1}'.encode(),
        '{"x\\"\U0001f600":1,"\ufb33":1}'.encode(),
        b'{"a":"\xff"}',
        b"",
    ],
)
def test_what_the_reference_writes_otherwise_does_not_take_the_short_way(raw: bytes) -> None:
    assert read_canonical(raw) is None


def test_a_record_of_human_words_takes_the_short_way() -> None:
    raw = '{"a":"Überweisung an €:","b":[1,0.5,"sha256:3e5"],"c":{"d":-12}}'.encode()
    assert read_canonical(raw) == json.loads(raw)


@settings(max_examples=200, deadline=None)
@given(value=OBJECTS, seed=st.integers(0, 2**32))
def test_a_record_has_the_hash_that_the_reference_form_gives_wherever_its_hash_stands(
    value: dict[str, Any], seed: int
) -> None:
    """Behind the rest as a writer puts it, in order, with a byte changed: the same record and hash."""
    body = {**value, "schema": "s", "partition": 0, "sequence": 1, "prev_hash": "p", "input": None}
    body.pop("event_hash", None)
    written = rfc8785.dumps(body)
    event_hash = f"sha256:{sha256(written).hexdigest()}"
    behind = b'%b,"event_hash":"%b"}' % (written[:-1], event_hash.encode())
    in_order = rfc8785.dumps({**body, "event_hash": event_hash})
    for raw in (behind, in_order):
        opened = open_record(Located("t", 0, 0, None, raw))
        assert (opened.computed_hash, opened.entry.hash) == (event_hash, event_hash)
        assert rfc8785.dumps(opened.fields) == in_order
    changed = bytearray(behind)
    changed[seed % len(behind)] = seed >> 8 & 0x7F
    try:
        opened = open_record(Located("t", 0, 0, None, bytes(changed)))
    except NotStrict:
        return
    rest = {name: each for name, each in opened.fields.items() if name != "event_hash"}
    assert opened.computed_hash == f"sha256:{sha256(rfc8785.dumps(rest)).hexdigest()}"


def test_a_second_hash_in_a_record_is_refused() -> None:
    raw = b'{"event_hash":"x","input":null,"event_hash":"sha256:%b"}' % (b"0" * 64)
    with pytest.raises(NotStrict, match="twice"):
        open_record(Located("t", 0, 0, None, raw))
