"""Word classes: `$name` in an expression becomes one of the class's words, `$gap` a few words between."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

BUILT_IN = {
    "gap": r"(?:\W+\w+){0,3}?\W+",
    "gap6": r"(?:\W+\w+){0,6}?\W+",
    "sep": r"\W+",
}
"""Up to three words between two others, up to six, none."""
_NAME = re.compile(r"\\.|\$([a-z][a-z0-9_]*)", re.DOTALL)


class LexiconError(Exception):
    """A class that does not exist or that contains itself; the message names it."""


class Lexicon:
    """The classes by name, each expanded once."""

    __slots__ = ("_classes", "_expanded", "_open")

    def __init__(self, classes: Mapping[str, list[str]]) -> None:
        self._classes = classes
        self._expanded = dict(BUILT_IN)
        self._open: list[str] = []

    def expand(self, expression: str) -> str:
        """The expression without class names. Raises LexiconError."""
        return _NAME.sub(self._replaced, expression)

    def _replaced(self, found: re.Match[str]) -> str:
        name = found[1]
        return self._class(name) if name else found[0]

    def _class(self, name: str) -> str:
        if name not in self._expanded:
            if name in self._open:
                raise LexiconError(f"${name} contains itself: {' > '.join((*self._open, name))}")
            if name not in self._classes:
                raise LexiconError(f"there is no class ${name}")
            self._open.append(name)
            self._expanded[name] = f"(?:{'|'.join(map(self.expand, self._classes[name]))})"
            self._open.pop()
        return self._expanded[name]
