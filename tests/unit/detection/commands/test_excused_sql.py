"""What the look ahead excuses from being read as SQL, the reader finds nothing in."""

from __future__ import annotations

import re

import orjson
from hypothesis import given
from hypothesis import strategies as st

from sluice.detection.commands.changes import STATEMENT_WORDS, changes_data
from sluice.detection.commands.sql.sql_patterns import SqlPattern, SqlPatterns
from sluice.detection.commands.sql.sql_reading import read_sql
from sluice.detection.commands.sql.statement import SPLITTING_WORDS
from tests.unit.core.scene import BUNDLE_BYTES

WRITTEN = [SqlPattern.model_validate(one) for one in orjson.loads(BUNDLE_BYTES)["patterns"]["sql"]]
PATTERNS = SqlPatterns(WRITTEN)
NAMED = {
    word
    for one in WRITTEN
    for text in (*one.verbs, *one.objects, *one.functions, one.phrase or "")
    for word in re.findall(r"[A-Za-z]{2,}", text)
}
WORDS = sorted(NAMED | STATEMENT_WORDS | {one for one in SPLITTING_WORDS if one.isalpha()})
PROSE = ["open", "orders", "of", "the", "Customer_7", "order", "by", "not", "null", "into", "with", "is"]
TEXTS = st.lists(st.sampled_from([*WORDS, *PROSE]), min_size=1, max_size=6).map(" ".join)


@given(TEXTS)
def test_nothing_is_found_in_an_excused_text(text: str) -> None:
    if not PATTERNS.excuse(text):
        return
    reading = read_sql(text)
    assert reading.nested == ()
    assert reading.inconclusive is None
    assert [one for one in reading.statements if PATTERNS.matches(one) or changes_data(one)] == []


def test_plain_words_are_excused_and_statements_are_not() -> None:
    assert PATTERNS.excuse("open orders")
    assert not PATTERNS.excuse("drop table users")
    assert not PATTERNS.excuse("open orders; drop table users")
    assert not PATTERNS.excuse("begin open orders")
    only = SqlPatterns([_pattern(phrase="^OPEN")])
    assert not only.excuse("open orders")
    assert not SqlPatterns([_pattern(verbs=["OPEN"])]).excuse("open orders")


def _pattern(**fields: object) -> SqlPattern:
    said = {"id": "one", "reason": "r", "severity": "warn", "source": "s"}
    return SqlPattern.model_validate(said | fields)
