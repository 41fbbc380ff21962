"""Sets of regular expressions and of target globs, each matched in one linear pass (RE2, no backtracking)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import re2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Named = TypeVar("Named")

REMEMBERED_TARGET_SETS = 64
"""A target takes 5 ms to compile, and a registry is built again at every change of any entry."""
MATCHER_MEMORY_BYTES = 64 << 20
"""Bound of one set's automaton. RE2 drops its cache and goes on when it is reached."""
_GLOB_STAR = r"[^\s\x00'\"`;,()]*"


@dataclass(frozen=True, slots=True)
class PatternError(Exception):
    """An expression that RE2 does not take, alone or beside those before; `index`: its place in the list."""

    index: int
    message: str


class PatternSet(Generic[Named]):
    """Named expressions, searched for anywhere in a text, without regard to case.

    `search`: of a text in UTF-8, the numbers of the expressions found; where one asks only whether any is.
    """

    __slots__ = ("names", "search")

    def __init__(self, patterns: list[tuple[Named, str]]) -> None:
        """(name, RE2 expression) pairs. Raises PatternError."""
        self.names = [name for name, _ in patterns]
        self.search: Callable[[bytes], Sequence[int]] = (
            _compile([pattern for _, pattern in patterns]).Match if patterns else _find_nothing
        )

    def matches(self, text: str) -> list[Named]:
        """The names of all expressions found in the text, in the order of the list."""
        match = self.search(text.encode())
        return [self.names[index] for index in sorted(match)] if match else []


def _find_nothing(text: bytes) -> Sequence[int]:
    del text
    return ()


def target_set(targets: Iterable[str]) -> PatternSet[str]:
    """Target globs (`*` is any run without blanks, quotes and brackets) as whole tokens of a casefolded text.

    A token ends where a letter, digit or underscore does not go on: `customers` is found in
    `public.customers;` and not in `customers_old`.
    """
    return _target_set(tuple(targets))


@lru_cache(maxsize=REMEMBERED_TARGET_SETS)
def _target_set(targets: tuple[str, ...]) -> PatternSet[str]:
    return PatternSet([(target, _token(target.casefold())) for target in targets])


def _token(target: str) -> str:
    glob = _GLOB_STAR.join(re2.escape(part) for part in re.split(r"\*+", target))
    return rf"(?:^|[^\pL\pN_]){glob}(?:$|[^\pL\pN_])"


def _why(pattern: str, options: Any) -> str | None:
    """What is wrong with an expression, which a set does not say."""
    try:
        re2.compile(pattern, options=options)
    except re2.error as error:
        return str(error)
    return None


def _compile(patterns: list[str]) -> Any:
    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    options.max_mem = MATCHER_MEMORY_BYTES
    matcher = re2.Set.SearchSet(options)
    for index, pattern in enumerate(patterns):
        try:
            matcher.Add(pattern)
        except re2.error as error:
            raise PatternError(index, _why(pattern, options) or str(error)) from error
    try:
        matcher.Compile()
    except re2.error as error:
        raise PatternError(len(patterns) - 1, f"{error}: too large with all before it") from error
    return matcher
