"""Only ASCII reaches the shell's parser: tree-sitter-bash 0.25.1 crashes the process on other characters.

`{` followed by U+10FFFD is enough for a segmentation fault, which no Python code can catch. Each other
character is therefore spelled in ASCII before parsing, and read back from the words afterwards. The shell
gives no character beyond ASCII a meaning of its own, so nothing of the grammar is lost.
"""

from __future__ import annotations

import re

_OPEN, _CLOSE = "\x02", "\x03"
_OTHER = re.compile(r"[^\x00-\x7f]")
_SPELLED = re.compile(r"\x02([0-9a-f]{2,6})\x03")
_WITHOUT_MARKS = str.maketrans({_OPEN: "\x1a", _CLOSE: "\x1a"})
"""The two marks of a text itself become another control character, so that they cannot spell anything."""


def spelled(text: str) -> bytes:
    """The text in ASCII bytes, for the parser."""
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
