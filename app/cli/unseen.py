"""Text of strangers on a terminal: what cannot be seen is shown by its code point, what could act is inert.

A reviewer has to see what a model would read: control characters, bidirectional overrides (CVE-2021-42574),
zero-width characters, Unicode tags and variation selectors, letters without a shape.
"""

from __future__ import annotations

import re
from itertools import groupby

from rich.text import Text

_SHAPELESS = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Printable by their category, and still nothing to see (DerivedCoreProperties: Default_Ignorable)."""
MARGIN = "  │ "
"""Before each line, so that no content can pass for a line of ours."""


def visible(text: str) -> Text:
    """The text on one line: code points that nobody sees stand as <U+202E>, reversed."""
    found = Text()
    for seen, run in groupby(text, key=_seen):
        if seen:
            found.append("".join(run))
        else:
            found.append("".join(f"<U+{ord(character):04X}>" for character in run), style="reverse")
    return found


def quoted(text: str, most: int) -> Text:
    """Up to `most` characters, each of the text's own lines behind a margin."""
    lines = [Text(MARGIN, style="dim") + visible(line) for line in text[:most].split("\n")]
    if len(text) > most:
        lines.append(Text(f"{MARGIN}… {len(text) - most} characters more", style="dim"))
    return Text("\n").join(lines)


def _seen(character: str) -> bool:
    return character.isprintable() and not _SHAPELESS.match(character)
