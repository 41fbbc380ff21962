"""What one action may have parsed. What would come after is not parsed, and the reading inconclusive."""

from __future__ import annotations

PARSED_CHARS_PER_ACTION = 4 * 1024
"""All that one action gives to parsers: 1 to 2 ms for each thousand."""
LARGE_CHARS = 16 * 1024
"""An action of more text spends its time on the linear scan of it."""
PARSED_CHARS_BESIDE_LARGE, PARSED_TEXTS_BESIDE_LARGE = 512, 8
"""What such an action gives to parsers: it still takes no millisecond."""


class Allowance:
    """Counts down what is parsed of an action."""

    __slots__ = ("_chars_left", "_texts_left", "_whole")

    def __init__(self, chars: int) -> None:
        """For an action whose texts have so many characters together."""
        large = chars > LARGE_CHARS
        self._whole = self._chars_left = PARSED_CHARS_BESIDE_LARGE if large else PARSED_CHARS_PER_ACTION
        self._texts_left = PARSED_TEXTS_BESIDE_LARGE if large else PARSED_CHARS_PER_ACTION

    def spent_on(self, text: str) -> str | None:
        """Why the text may not be parsed any more, None where it may."""
        self._chars_left -= len(text)
        self._texts_left -= 1
        if self._chars_left < 0 or self._texts_left < 0:
            return f"more than {self._whole} characters to parse"
        return None
