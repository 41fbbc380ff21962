"""Sets of words, written as a line of text."""

from __future__ import annotations


def vocabulary(*lines: str) -> frozenset[str]:
    """The words of the lines, which blanks part."""
    return frozenset(word for line in lines for word in line.split())
