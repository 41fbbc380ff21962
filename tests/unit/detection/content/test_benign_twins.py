"""Ordinary work in the words of attacks, and writing about attacks on models, pass the shipped library.

The tables are our own sentences, none of them from a corpus.
"""

from __future__ import annotations

import pytest

from tests.unit.detection.content.shipped import Row, find_holding, rows

WORK = rows("benign_twins.txt")
WRITING = rows("writing_about_attacks.txt")


@pytest.mark.parametrize("row", WORK, ids=lambda row: row.text[:60])
def test_ordinary_work_passes(row: Row) -> None:
    assert find_holding(row.text) == []


@pytest.mark.parametrize("row", WRITING, ids=lambda row: row.text[:60])
def test_writing_about_attacks_on_models_passes(row: Row) -> None:
    assert find_holding(row.text) == []


def test_pages_of_ordinary_work_pass_too() -> None:
    texts = [row.text for row in WORK]
    pages = ["\n\n".join(texts[at : at + 4]) for at in range(0, len(texts), 4)]
    assert {page: held for page in pages if (held := find_holding(page))} == {}


def test_pages_of_writing_about_attacks_pass_too() -> None:
    texts = [row.text for row in WRITING]
    pages = ["\n\n".join(texts[at : at + 4]) for at in range(0, len(texts), 4)]
    assert {page: held for page in pages if (held := find_holding(page))} == {}
