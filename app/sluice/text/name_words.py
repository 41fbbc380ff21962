"""The words of a tool's name, in camelCase, snake_case, with dots or dashes."""

from __future__ import annotations

import re

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def words_of(name: str) -> list[str]:
    """Lower case, in order: "DBQuery_v2" gives db, query, v, 2."""
    return [word.lower() for word in _WORD.findall(name)]


def vocabulary(*lines: str) -> frozenset[str]:
    """The words of the lines, which blanks separate."""
    return frozenset(word for line in lines for word in line.split())
