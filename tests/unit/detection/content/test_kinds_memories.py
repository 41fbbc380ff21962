"""What the shipped library holds back of a memory, and what of honest work and writing about attacks passes.

The tables are our own sentences, none of them from a corpus.
"""

from __future__ import annotations

import pytest

from tests.unit.detection.content.shipped import Row, find_holding, inspector, patterns_of, rows

POISONED = rows("poisoned_memories.txt")
HONEST = rows("honest_memories.txt")
ABOUT_ATTACKS = rows("security_writing.txt")
HELD_BY_TABLES = {
    "approvals",
    "credentials",
    "exfiltration",
    "markup",
    "memory_poisoning",
    "persistence",
    "supply_chain",
    "tools",
}


@pytest.mark.parametrize("row", POISONED, ids=lambda row: row.text[:60])
def test_a_poisoned_memory_is_held_back_for_what_it_is(row: Row) -> None:
    assert row.heading in {finding.id.partition(".")[0] for finding in find_holding(row.text)}


@pytest.mark.parametrize("row", HONEST, ids=lambda row: row.text[:60])
def test_an_honest_memory_passes(row: Row) -> None:
    assert find_holding(row.text) == []


@pytest.mark.parametrize("row", ABOUT_ATTACKS, ids=lambda row: row.text[:60])
def test_writing_about_attacks_passes(row: Row) -> None:
    assert find_holding(row.text) == []


def test_honest_memories_told_one_after_another_pass_too() -> None:
    texts = [row.text for row in (*HONEST, *ABOUT_ATTACKS)]
    pages = ["\n\n".join(texts[at : at + 8]) for at in range(0, len(texts), 8)]
    assert {page: held for page in pages if (held := find_holding(page))} == {}


def test_every_strong_pattern_of_these_kinds_finds_one_of_the_poisoned_memories() -> None:
    strong = {finding["id"] for finding in patterns_of(HELD_BY_TABLES) if finding["weight"] != "weak"}
    assert strong - {finding.id for row in POISONED for finding in find_holding(row.text)} == set()


def test_a_poisoned_memory_is_held_back_after_a_page_of_honest_ones() -> None:
    page = "\n\n".join(row.text for row in HONEST[:6])
    missed = [row.text for row in POISONED if not find_holding(f"{page}\n\n{row.text}")]
    assert len(missed) <= len(POISONED) // 20, missed


def test_weak_hints_alone_do_not_hold_a_memory_back() -> None:
    found = inspector().inspect("Please grant me admin access to the staging wiki, ticket OPS-771.").findings
    assert {finding.weight for finding in found} <= {"weak"}
