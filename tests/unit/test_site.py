"""The documentation as a site: it builds strictly, has every page, and loads nothing from elsewhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
CONFIG = ROOT / "config" / "site" / "mkdocs.yml"
MOST_WORDS = 2500
GENERATED = ("reference/", "fields.md")
"""Tables that are searched, not read: as long as what they list."""
TOO_LONG = {
    "performance.md": 10_100,
    "destinations.md": 5_260,
    "faults.md": 5_400,
    "policy.md": 4_480,
    "gateway.md": 4_190,
    "clients.md": 3_470,
    "guarantees.md": 3_440,
    "models.md": 3_340,
    "actions.md": 2_960,
    "approvals.md": 2_820,
    "memory.md": 2_580,
}
"""Pages that are to be split: they may get shorter, and no other page may get so long."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. Strict: a link or an anchor that leads nowhere, or a page without a place, ends it."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(CONFIG), "-d", str(folder)],
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_of_docs_is_in_the_site_s_order() -> None:
    named = set(re.findall(r"^\s+- (\S+\.md)$", CONFIG.read_text(), re.MULTILINE))
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert pages | {"overview.md"} == named


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    loaded = re.compile(r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=[\"']?(https?:)?//", re.IGNORECASE)
    for page in site.rglob("*.html"):
        assert not loaded.search(page.read_text()), page.name
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", styles)


def test_a_word_of_a_page_is_found(site: Path) -> None:
    found = json.loads((site / "search" / "search_index.json").read_text())["docs"]
    assert {"actions.html", "reference/bundle.html"} <= {one["location"] for one in found}
    assert any("quarantine" in one["text"] for one in found if one["location"].startswith("memory.html"))


def test_a_link_into_the_repository_shows_the_file_s_path(site: Path) -> None:
    assert "app/sluice/core/decide/released.py" in (site / "released.html").read_text()
    assert "overview.html" in (site / "index.html").read_text()


def count_words(page: Path) -> int:
    return len(page.read_text(encoding="utf-8").split())


def test_no_page_is_too_long_but_those_that_are_to_be_split() -> None:
    lengths = {path.relative_to(DOCS).as_posix(): count_words(path) for path in DOCS.rglob("*.md")}
    long = {
        name: words
        for name, words in lengths.items()
        if words > TOO_LONG.get(name, MOST_WORDS) and not name.startswith(GENERATED)
    }
    assert long == {}
    assert all(lengths[name] > MOST_WORDS for name in TOO_LONG), "take it out of the list"
