"""Patterns over plain text: what has no grammar that Gate 1 reads (PowerShell, cmd.exe, program code)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from app.core.commands.pattern import Described, Expression
from app.core.foundation.errors import BundleError
from app.core.text.patterns import PatternError, PatternSet

Language = Literal["shell", "sql", "code", "value", "prose"]
"""What a leaf is read as. `value`: anything that is neither a program nor a text for people."""


class TextPattern(Described):
    """An RE2 expression, searched without regard to case in leaves of the languages named."""

    pattern: Expression
    languages: list[Language] = Field(default=["shell", "code", "value"], min_length=1)


class TextPatterns:
    """Text patterns, compiled to one automaton for each language."""

    __slots__ = ("_anywhere", "_by_language")

    def __init__(self, patterns: list[TextPattern]) -> None:
        """Raises BundleError with the path of the expression that does not compile."""
        try:
            self._anywhere = PatternSet([(one.id, f"(?m){one.pattern}") for one in patterns])
        except PatternError as error:
            name = patterns[error.index].id
            raise BundleError(
                f"$.patterns.text[{error.index}].pattern: {name} does not compile: {error.message}"
            ) from None
        self._by_language = {
            language: _of_language(patterns, language)
            for language in Language.__args__  # type: ignore[attr-defined]
        }

    def anywhere(self, texts: str) -> bool:
        """Whether any of the texts, joined by line ends, may hold a pattern of any language."""
        return bool(self._anywhere.matches(texts))

    def matches(self, text: str, language: Language) -> list[TextPattern]:
        """The patterns of that language which are found in the text."""
        found: list[TextPattern] = self._by_language[language].matches(text)
        return found


def _of_language(patterns: list[TextPattern], language: Language) -> PatternSet[TextPattern]:
    return PatternSet([(one, one.pattern) for one in patterns if language in one.languages])
