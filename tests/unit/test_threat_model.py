"""The tests and attacks that docs/threat-model.md and docs/compliance.md name are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from load.attacks.attack_list import ATTACKS

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "docs" / "threat-model.md", ROOT / "docs" / "compliance.md"]
SECTIONS_OF_ATTACKS = slice(1, -1)
"""The first says what is protected, the last what is not stopped."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_test_that_is_named_exists(page: Path) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", page.read_text())
    assert len(named) > 5
    for path, function in named:
        source = (ROOT / path).read_text()
        assert re.search(rf"^(async )?def {function}\b", source, re.MULTILINE) or not function, (
            path,
            function,
        )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_attack_that_is_named_exists(page: Path) -> None:
    named = set(re.findall(r"attack: `(\w+)`", page.read_text()))
    assert named <= {one.name for one in ATTACKS}


def test_each_attack_of_the_list_is_in_the_model() -> None:
    named = set(re.findall(r"attack: `(\w+)`", PAGES[0].read_text()))
    assert {one.name for one in ATTACKS} == named


def test_each_row_has_a_letter_a_defence_and_something_that_shows_it() -> None:
    sections = PAGES[0].read_text().split("\n## ")[1:][SECTIONS_OF_ATTACKS]
    letters = set()
    for section in sections:
        rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
        assert rows, section
        for row in rows:
            letter, attack, defence, shown = (cell.strip() for cell in row.strip("|").split("|"))
            assert letter in "STRIDE", row
            assert min(len(attack), len(defence)) > 0, row
            assert "`tests/" in shown or "attack: `" in shown, row
            letters.add(letter)
    assert letters == set("STRIDE")
