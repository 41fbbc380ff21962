"""Answers that were given before, bounded in number and in characters."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.core.content.inspection import Inspection

INSPECTIONS = 4096
CHARACTERS = 16 << 20
"""At most 64 MiB of text."""


class Remembered:
    """The inspections of the texts that were asked for last. What is forgotten is found again."""

    __slots__ = ("_by_text", "_characters")

    def __init__(self) -> None:
        self._by_text: OrderedDict[str, Inspection] = OrderedDict()
        self._characters = 0

    def get(self, text: str) -> Inspection | None:
        """The text's inspection, if it is remembered."""
        found = self._by_text.get(text)
        if found is not None:
            self._by_text.move_to_end(text)
        return found

    def put(self, text: str, inspection: Inspection) -> None:
        """Remembers one more and forgets the oldest beyond the bounds."""
        self._by_text[text] = inspection
        self._characters += len(text)
        while len(self._by_text) > INSPECTIONS or self._characters > CHARACTERS:
            self._characters -= len(self._by_text.popitem(last=False)[0])
