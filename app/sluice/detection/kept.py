"""What a content library comes to, kept by what it follows from: to expand and to compile it takes seconds.

A process has one store or none, as Python keeps its compiled patterns: a kept answer is the answer that would
be worked out again, so nothing that decides depends on whether there is a store. Why it is not an argument:
docs/decisions/0019-what-readers-earn.md.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import orjson

if TYPE_CHECKING:
    from collections.abc import Callable


class Store(Protocol):
    """Keeps bytes by what they follow from. Neither method raises."""

    def get(self, source: bytes) -> bytes | None:
        """What was kept for this source by the same code, unaltered."""

    def put(self, source: bytes, result: bytes) -> None:
        """Keep a result."""


class Compilation(NamedTuple):
    """`expressions`: what RE2 takes and what a text must hold, by the expression as it is written.

    All of them compile. `looked_for`: the words that the patterns need. `clauses`: what a text must hold for
    each pattern, as `required_words.write_clauses` writes it.
    """

    expressions: dict[str, tuple[str, str]]
    looked_for: list[str]
    clauses: list[Any]


class _Process:
    """The process's store, made when it is first needed."""

    open_store: Callable[[], Store | None] | None = None
    store: Store | None = None

    @classmethod
    def get(cls) -> Store | None:
        if cls.open_store is not None:
            cls.store, cls.open_store = cls.open_store(), None
        return cls.store


def keep_in(open_store: Callable[[], Store | None]) -> None:
    """Keep compilations in this store from now on; it is opened at the first that is needed."""
    _Process.open_store = open_store


def find_compilation(library: bytes) -> Compilation | None:
    """What was kept of a library, written as JSON."""
    store = _Process.get()
    stored = None if store is None else store.get(library)
    if stored is None:
        return None
    expressions, looked_for, clauses = orjson.loads(stored)
    return Compilation(
        {expression: (searched, requirement) for expression, searched, requirement in expressions},
        looked_for,
        clauses,
    )


def keep_compilation(library: bytes, compilation: Compilation) -> None:
    """Keep what a library came to."""
    store = _Process.get()
    if store is not None:
        rows = [[expression, *of_one] for expression, of_one in compilation.expressions.items()]
        store.put(library, orjson.dumps([rows, *compilation[1:]]))


ANSWERS = 4096
CHARACTERS = 16 << 20
"""At most 64 MiB of text."""


Answer = TypeVar("Answer")


class RememberedTexts(OrderedDict[str, Answer]):
    """What was found in texts, the oldest first: whoever finds a text here again moves it to the end. What is
    forgotten is found again."""

    __slots__ = ("_characters",)

    def __init__(self) -> None:
        super().__init__()
        self._characters = 0

    def put(self, text: str, answer: Answer) -> None:
        """Remember one more, and forget the oldest beyond the bounds."""
        self[text] = answer
        self._characters += len(text)
        while len(self) > ANSWERS or self._characters > CHARACTERS:
            self._characters -= len(self.popitem(last=False)[0])
