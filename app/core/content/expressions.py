"""Every expression of a library, compiled once; and what says where each may be found.

What is kept of a library that compiled before is compiled when it is first searched for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import re2

from app.core.content.lexicon import Expanded, Lexicon, LexiconError
from app.core.foundation.errors import BundleError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Expressions:
    """Expressions by their place."""

    __slots__ = ("_compiled", "_demands", "_lexicon", "_places", "_searched", "written")

    def __init__(
        self, classes: Mapping[str, list[str]], kept: Mapping[str, tuple[str, str]] | None = None
    ) -> None:
        """`kept`: what RE2 takes and what a text must hold, by the expression.

        Raises BundleError with the path of the class that cannot be expanded.
        """
        self._lexicon = Lexicon(classes)
        self._places: dict[str, int] = {}
        self._searched: list[str] = []
        self._compiled: dict[int, Any] = {}
        self._demands: list[str] = []
        self.written: dict[str, tuple[str, str]] = {} if kept is None else dict(kept)
        """What RE2 takes and what a text must hold, by the expression as it is written."""
        for name in classes if kept is None else ():
            self._expanded(f"${name}", f"lexicon.{name}")

    def add(self, expressions: list[str], path: str) -> tuple[int, ...]:
        """The places of these expressions. Raises BundleError with the path of one that does not compile."""
        return tuple(self._add(one, f"{path}[{index}]") for index, one in enumerate(expressions))

    def demands(self, places: Iterable[int]) -> list[str]:
        """What a text must hold for the expressions at these places to be found in it."""
        return [self._demands[place] for place in places]

    def search(self, place: int, raw: bytes, start: int, end: int) -> tuple[int, int] | None:
        """Where in these bytes of a text, which have a line's begin and end, an expression is found first."""
        compiled = self._compiled.get(place)
        if compiled is None:
            compiled = self._compiled[place] = _compiled(self._searched[place], "")
        found = compiled.search(raw[start:end])
        if not found:
            return None
        first, last = found.span()
        return start + first, start + last

    def _add(self, expression: str, path: str) -> int:
        kept = self.written.get(expression)
        searched, demand = kept or self._new(expression, path)
        if searched not in self._places:
            place = self._places[searched] = len(self._places)
            self._searched.append(searched)
            self._demands.append(demand)
            if kept is None:
                self._compiled[place] = _compiled(searched, path)
        return self._places[searched]

    def _new(self, expression: str, path: str) -> tuple[str, str]:
        expanded = self._expanded(expression, path)
        self.written[expression] = expanded.searched, expanded.demand.text
        return self.written[expression]

    def _expanded(self, expression: str, path: str) -> Expanded:
        try:
            return self._lexicon.expand(expression)
        except LexiconError as error:
            raise BundleError(f"$.memory.content.{path}: {error}") from None


def _compiled(expression: str, path: str) -> Any:
    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    try:
        return re2.compile(f"(?m){expression}", options)
    except re2.error as error:
        said = error.args[0] if error.args else error
        why = said.decode(errors="replace") if isinstance(said, bytes) else said
        raise BundleError(f"$.memory.content.{path}: does not compile: {why}") from None
