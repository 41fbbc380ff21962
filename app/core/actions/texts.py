"""The text of an action: every string that a forbidden target or pattern could hide in."""

from __future__ import annotations

from typing import Any

LEAF_END = "\x00"
"""Ends each string, so that a pattern can tell the end of a statement; white space in a pattern never
matches it, so that no match runs from one string into the next."""


def joined_texts(tool_name: str, parameters: dict[str, Any]) -> str:
    """The tool's name, all keys and all string leaves, each followed by LEAF_END.

    A list of strings only counts once more with blanks between: an argument vector reads as its command line.
    """
    texts = [tool_name]
    pending: list[Any] = [parameters]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, dict):
            texts.extend(value)
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
            if len(value) > 1 and all(isinstance(item, str) for item in value):
                texts.append(" ".join(value))
    texts.append("")
    return LEAF_END.join(texts)
