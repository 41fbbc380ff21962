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


def test_no_page_is_too_long() -> None:
    """A page that gets longer is two questions: split it, and give both a row in docs/README.md."""
    lengths = {path.relative_to(DOCS).as_posix(): count_words(path) for path in DOCS.rglob("*.md")}
    long = {
        name: words
        for name, words in lengths.items()
        if words > MOST_WORDS and not name.startswith(GENERATED)
    }
    assert long == {}
