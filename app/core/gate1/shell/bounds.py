"""The linear scan in front of the shell's parser."""

from __future__ import annotations


def shell_bounds(text: str) -> str | None:
    """Why `text` may not be parsed, or None."""
    return "text_too_long" if len(text) > 4096 else None
