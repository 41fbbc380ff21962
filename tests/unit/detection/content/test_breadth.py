"""Families of attacks in the words that they are met with in mail, pages, tools, memories and agents' talk.

The tables are our own sentences, written before the patterns that are held against them.
"""

from __future__ import annotations

import json

import pytest

from tests.unit.detection.content.shipped import FILES, Row, find_holding, rows

ATTACKS = rows("breadth_attacks.txt")
HONEST = rows("breadth_honest.txt")


@pytest.mark.parametrize("row", ATTACKS, ids=lambda row: row.heading)
def test_an_attack_of_the_family_is_held_back_as_one_of_it(row: Row) -> None:
    assert f"breadth.{row.heading}" in {finding.id for finding in find_holding(row.text)}


@pytest.mark.parametrize("row", HONEST, ids=lambda row: row.text[:60])
def test_the_same_words_in_work_news_and_everyday_use_pass(row: Row) -> None:
    assert find_holding(row.text) == []


def test_every_family_has_an_attack_in_the_table() -> None:
    (file,) = [one for one in FILES if one.stem == "breadth"]
    families = {finding["id"] for finding in json.loads(file.read_text(encoding="utf-8"))["findings"]}
    assert families == {f"breadth.{row.heading}" for row in ATTACKS}


def test_an_attack_is_found_in_the_middle_of_a_page_of_honest_writing() -> None:
    work = [row.text for row in HONEST if row.heading == "ordinary"]
    missed = [
        row.heading for row in ATTACKS if not find_holding("\n\n".join((*work[:4], row.text, *work[4:])))
    ]
    assert missed == []
