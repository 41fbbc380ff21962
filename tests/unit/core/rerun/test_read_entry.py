"""A ledger record as it lies: read the short way or the strict one, it is the same record."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.core.actions.verdict import SCHEMA as VERDICT
from sluice.core.foundation.canonical import canonical
from sluice.core.foundation.chain import Chain
from sluice.core.foundation.errors import CanonicalError
from sluice.core.rerun.walk import WrittenRecord, read_entry
from sluice_topics.json_text import parse

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=12,
)
BODY = {"schema": VERDICT, "sequence": 1, "input": None}


def read(raw: bytes) -> dict[str, Any] | None:
    entry = read_entry(WrittenRecord("gate.verdicts", 0, 0, 0, None, raw, ()))
    return None if entry is None else entry.fields


def write(value: Any) -> bytes:
    return Chain(0).link({**BODY, "value": value})


@settings(max_examples=300, deadline=None)
@given(value=VALUES, seed=st.integers(0, 2**32))
def test_a_record_is_what_the_strict_reader_says_also_where_a_byte_is_changed(value: Any, seed: int) -> None:
    try:
        raw = write(value)
    except CanonicalError:
        return
    changed = bytearray(raw)
    changed[seed % len(changed)] = seed >> 8 & 0xFF
    for each in (raw, bytes(changed), json.dumps(parse(raw)).encode()):
        strictly, fields = parse(each), read(each)
        assert fields is None or (fields == strictly and repr(fields) == repr(strictly))
    assert read(raw) == parse(raw)


@pytest.mark.parametrize(
    ("genuine", "forged"),
    [
        (b'"value":7', b'"value":7,"value":7'),
        (b'"value":7', b'"event_hash":"x","value":7'),
        (b'"value":7', b'"value":18446744073709551616'),
        (b'"value":7', b'"value":1e400'),
        (b'"value":7', b'"value":NaN'),
        (b'"value":7', b'"value":"\\ud800"'),
        (b'"value":7', b'"value":' + b"[" * 70 + b"]" * 70),
    ],
)
def test_what_the_strict_reader_refuses_or_reads_otherwise_is_not_read_the_short_way(
    genuine: bytes, forged: bytes
) -> None:
    raw = write(7).replace(genuine, forged)
    strictly = parse(raw)
    assert read(raw) == (strictly if isinstance(strictly, dict) else None)


def test_a_record_with_its_hash_in_order_is_read_too() -> None:
    fields = parse(write("x"))
    assert read(canonical(fields)) == fields
