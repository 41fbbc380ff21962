"""Patterns over the description of a SQL statement; see sluice/detection/commands/sql/sql_reading.py."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from sluice.detection.commands.inspection import Described, Expression
from sluice.detection.commands.sql.statement import CHANGING_VERBS, SPLITTING_WORDS
from sluice.detection.library_model import LibraryError
from sluice.text.expression_sets import PatternError, PatternSet

if TYPE_CHECKING:
    from sluice.detection.commands.sql.sql_reading import SqlStatement

_WORDS = re.compile(r"[A-Za-z]\w*+(?>(?: [A-Za-z]\w*+)*)", re.ASCII)
_LONGEST_EXCUSED = 512
_TELLING_WORDS = CHANGING_VERBS | SPLITTING_WORDS | {"WITH", "INTO"}
Word = Annotated[str, Field(pattern=r"^[A-Z@_][A-Z0-9_$@. ]*$", max_length=128)]


class SqlPattern(Described):
    """All that is given must hold; at least one is given. Lists: any of them.

    `verbs`: the first word. `objects`: what DROP, CREATE, ALTER act on. `where`: of DELETE and UPDATE.
    `functions`: called anywhere in the statement, the last part of a dotted name. `phrase`: an RE2 expression
    searched in the statement's phrase. `unless`: one that must not be found there.
    """

    verbs: list[Word] = Field(default_factory=list)
    objects: list[Word] = Field(default_factory=list)
    where: list[Literal["none", "always_true"]] = Field(default_factory=list)
    functions: list[Word] = Field(default_factory=list)
    phrase: Expression | None = None
    unless: Expression | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not (self.verbs or self.functions or self.phrase):
            raise ValueError("a SQL pattern needs verbs, functions or a phrase")
        return self


class SqlPatterns:
    """SQL patterns, indexed by verb; all phrases are matched in one pass."""

    __slots__ = ("_any_verb", "_by_verb", "_phrases", "_telling", "_unless")

    def __init__(self, patterns: list[SqlPattern]) -> None:
        """Raises LibraryError with the path of the expression that does not compile."""
        self._phrases = _expressions(patterns, "phrase")
        self._unless = _expressions(patterns, "unless")
        self._by_verb: dict[str, list[SqlPattern]] = {}
        for pattern in patterns:
            for verb in pattern.verbs:
                self._by_verb.setdefault(verb, []).append(pattern)
        self._any_verb = [sql_pattern for sql_pattern in patterns if not sql_pattern.verbs]
        self._telling = _TELLING_WORDS.union(self._by_verb)

    def excuse(self, text: str) -> bool:
        """Whether the text is plain words in which no reader and no pattern finds anything: no verb of a
        pattern, no word that changes data or begins a statement within one, no phrase. It needs no tokens."""
        if len(text) > _LONGEST_EXCUSED or _WORDS.fullmatch(text) is None:
            return False
        phrase = text.upper()
        return self._telling.isdisjoint(phrase.split()) and not self._phrases.search(phrase.encode())

    def matches(self, statement: SqlStatement) -> list[SqlPattern]:
        """The patterns that the statement fulfils."""
        phrases = set(self._phrases.matches(statement.phrase))
        functions = {name.rpartition(".")[2] for name in statement.functions}
        holding = [
            pattern
            for pattern in (*self._by_verb.get(statement.verb, ()), *self._any_verb)
            if (pattern.phrase is None or pattern.id in phrases) and _holds(pattern, statement, functions)
        ]
        refused = self._unless.matches(statement.phrase) if holding else ()
        return [pattern for pattern in holding if pattern.id not in refused]


def _holds(pattern: SqlPattern, statement: SqlStatement, functions: set[str]) -> bool:
    return (
        (not pattern.objects or statement.object in pattern.objects)
        and (not pattern.where or statement.where in pattern.where)
        and (not pattern.functions or not functions.isdisjoint(pattern.functions))
    )


def _expressions(patterns: list[SqlPattern], field: str) -> PatternSet[str]:
    written = [(index, pattern.id, getattr(pattern, field)) for index, pattern in enumerate(patterns)]
    written = [entry for entry in written if entry[2] is not None]
    try:
        return PatternSet([(name, expression) for _, name, expression in written])
    except PatternError as error:
        index, name, _ = written[error.index]
        raise LibraryError(
            f"$.patterns.sql[{index}].{field}: {name} does not compile: {error.message}"
        ) from None
