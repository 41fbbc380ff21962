"""An export holds every record letter for letter, and anything else is refused with its line."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.verifier.export import Located, NotAnExport, read_lines, write_line

RECORDS = st.builds(
    Located,
    st.just("gate.verdicts"),
    st.integers(0, 7),
    st.integers(0, 2**40),
    st.none() | st.binary(max_size=32),
    st.none() | st.binary(max_size=64) | st.text(max_size=20).map(str.encode),
)


@given(records=st.lists(RECORDS, max_size=12))
def test_what_was_exported_is_read_back(records: list[Located]) -> None:
    lines = [write_line(record, 1_700_000_000_000).encode() + b"\n" for record in records]
    stored = [replace(record, timestamp_ms=1_700_000_000_000) for record in records]
    assert list(read_lines(lines)) == stored


@pytest.mark.parametrize("line", [b"", b"{}", b"[]", b"no", b'{"topic":1,"partition":0,"offset":0}', b"\xff"])
def test_a_line_that_is_no_export_is_named(line: bytes) -> None:
    good = write_line(Located("gate.verdicts", 0, 0, None, b"{}"), 0).encode()
    with pytest.raises(NotAnExport, match="line 2 "):
        list(read_lines([good, line]))
