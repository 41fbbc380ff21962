"""The grammar's tree of a text, within a number of steps.

The estimate in front of the parser cannot foresee every way to be slow, so the parser is also stopped: it
reports every hundred operations, and says whether it has met an error. Counting reports, unlike looking at a
clock, gives the same for the same text.
"""

from __future__ import annotations

import re

import tree_sitter
import tree_sitter_bash

_OPEN, _CLOSE = "\x02", "\x03"
_OTHER = re.compile(r"[^\x00-\x7f]")
_SPELLED = re.compile(r"\x02([0-9a-f]{2,6})\x03")
_WITHOUT_MARKS = str.maketrans({_OPEN: "\x1a", _CLOSE: "\x1a"})
"""The two marks of a text itself become another control character, so that they cannot spell anything."""


def spelled(text: str) -> bytes:
    """The text in ASCII bytes, for the parser.

    `{` followed by U+10FFFD is enough for a segmentation fault, which no Python code can catch. Each other
    character is therefore spelled in ASCII before parsing, and read back from the words afterwards. The shell
    gives no character beyond ASCII a meaning of its own, so nothing of the grammar is lost.
    """
    if _OPEN in text or _CLOSE in text:
        text = text.translate(_WITHOUT_MARKS)
    if not text.isascii():
        text = _OTHER.sub(lambda match: f"{_OPEN}{ord(match[0]):x}{_CLOSE}", text)
    return text.encode("ascii")


def read_back(raw: bytes) -> str:
    """The characters that some of the parser's bytes stand for."""
    text = raw.decode("ascii")
    if _OPEN not in text:
        return text
    return _SPELLED.sub(lambda match: chr(int(match[1], 16)), text)


LEAST_REPORTS = 10
BYTES_PER_REPORT = 100
"""Real scripts give one report for 110 bytes and more, ambiguous ones one for 10."""
MOST_REPORTS_WITH_ERRORS = 6
"""Real scripts with something that the grammar does not know have one such report, or none."""

_PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def parsed(text: str) -> tree_sitter.Node | None:
    """The root of the tree; None where the parser had to be stopped."""
    raw = spelled(text)
    if len(raw) < BYTES_PER_REPORT:
        return _PARSER.parse(raw).root_node
    steps = _Steps(LEAST_REPORTS + len(raw) // BYTES_PER_REPORT)
    try:
        tree = _PARSER.parse(lambda start, _point: raw[start:] or None, progress_callback=steps.past)
    except ValueError:
        _PARSER.reset()
        return None
    root = tree.root_node
    return root if root.has_error else _PARSER.parse(raw, tree).root_node


class _Steps:
    """What the parser has reported."""

    def __init__(self, most: int) -> None:
        self._left = most
        self._left_with_errors = MOST_REPORTS_WITH_ERRORS

    def past(self, _offset: int, has_error: bool) -> bool:
        """Whether the parser must stop."""
        self._left -= 1
        self._left_with_errors -= has_error
        return self._left < 0 or self._left_with_errors < 0
