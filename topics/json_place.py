"""Where in a JSON text something is: read by marks, so that it also works on text that is no JSON."""

from __future__ import annotations

import json
import re
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from topics.unreadable import Step

# Possessive quantifiers: linear on any text, also on a string that never ends.
_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?'
_TOKEN = re.compile(_STRING + r"|[\[\]{},:]", re.DOTALL)
_STRINGS = re.compile(_STRING.encode(), re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_DELTA = tuple(1 if code in b"[{" else -1 for code in range(256))


def depth(raw: bytes) -> int:
    """How deep arrays and objects nest in the text; strings do not count. Linear."""
    brackets = _STRINGS.sub(b"", raw).translate(None, _NO_BRACKETS)
    return max(accumulate(map(_DELTA.__getitem__, brackets)), default=0)


def steps_at(text: str, stop: int) -> list[Step]:
    """The steps from the top to the value at character `stop`."""
    return _steps(text, stop, deepest=None)


def steps_below(text: str, deepest: int) -> list[Step]:
    """The steps to the first array or object that lies deeper than `deepest`."""
    return _steps(text, len(text), deepest)


def _steps(text: str, stop: int, deepest: int | None) -> list[Step]:
    open_at: list[Step | None] = []  # per open container: its current index or key, None before a key
    last_string = ""
    for match in _TOKEN.finditer(text, 0, stop):
        mark = match[0]
        if mark[0] == '"':
            last_string = mark
        elif mark in "[{":
            if len(open_at) == deepest:
                break
            open_at.append(0 if mark == "[" else None)
        elif open_at:
            _advance(open_at, mark, last_string)
    return [step for step in open_at if step is not None]


def _advance(open_at: list[Step | None], mark: str, last_string: str) -> None:
    here = open_at[-1]
    if mark in "]}":
        open_at.pop()
    elif mark == ",":
        open_at[-1] = here + 1 if isinstance(here, int) else None
    elif not isinstance(here, int):
        open_at[-1] = _decoded(last_string)


def _decoded(mark: str) -> str:
    try:
        return str(json.loads(mark, strict=False))
    except json.JSONDecodeError:
        return mark.strip('"')
