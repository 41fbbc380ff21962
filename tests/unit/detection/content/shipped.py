"""The shipped content library, and tables of texts that it is held against."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.detection.content.content_inspector import ContentInspector
from sluice.detection.content.sets import ContentSets

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from sluice.detection.content.findings import Finding

HERE = Path(__file__).parent
FILES = sorted((HERE.parents[3] / "config" / "bundles" / "content").glob("*.json"))
KEYS = frozenset(ContentSets.model_fields)


class Row(NamedTuple):
    """One text of a table and the heading that it stands under."""

    heading: str
    text: str


def rows(table: str) -> list[Row]:
    """A table's rows: a line each, `\\n` in it a line break, under headings that begin with ##."""
    return list(_rows((HERE / table).read_text(encoding="utf-8")))


def _rows(written: str) -> Iterator[Row]:
    heading = ""
    for line in written.splitlines():
        if line.startswith("## "):
            heading = line[3:]
        else:
            yield Row(heading, line.replace("\\n", "\n"))


def patterns_of(names: Collection[str]) -> list[dict[str, Any]]:
    """The patterns that find something, of the library's files of these names."""
    files = [file for file in FILES if file.stem in names]
    return [one for file in files for one in json.loads(file.read_text(encoding="utf-8"))["findings"]]


@cache
def inspector() -> ContentInspector:
    """Compiled once for all tests: a library does not change."""
    return ContentInspector(sets())


@cache
def sets() -> ContentSets:
    """The shipped library's files as one."""
    merged: dict[str, Any] = {}
    for file in FILES:
        document = json.loads(file.read_text(encoding="utf-8"))
        if document.keys() <= KEYS:
            _merge(merged, document)
    return ContentSets.model_validate(merged)


def _merge(into: dict[str, Any], document: dict[str, Any]) -> None:
    for key, value in document.items():
        if isinstance(value, list):
            into.setdefault(key, []).extend(value)
        elif isinstance(value, dict):
            _merge(into.setdefault(key, {}), value)
        else:
            into[key] = value


def find_holding(text: str) -> list[Finding]:
    """The findings that keep a text from being written."""
    return [finding for finding in inspector().inspect(text).findings if finding.weight != "weak"]
