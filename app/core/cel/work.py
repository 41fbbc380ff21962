"""How much work an expression can make at most, as a polynomial in the sizes of what it reads.

Nothing may interrupt an evaluation, so its cost is bounded before it runs: from the tree when a bundle is
loaded, from the sizes when an action is there. A term is (loops, measure): a coefficient times the number of
items to the power of `loops`, times the measure. Work is in picoseconds on the machine that the coefficients
were measured on; being integers, they come to the same sum everywhere, so a rerun skips what was skipped.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from app.core.cel.bounds import PatternWork, accumulates, grows, pattern_work
from app.core.cel.reads import path_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from app.core.cel.reads import Size
    from app.core.cel.tree import Node

EVALUATION = 4_500_000
"""A call of the evaluator: 2 to 4.5 us."""
NODE = 60_000
"""A node of the tree: 20 to 60 ns."""
COLLECTED = 40_000
"""`map` and `filter` copy their result at every step: 27 to 40 ns an entry."""
ITEM_PASS, TEXT_PASS = 200_000, 1_500
"""A pass over a value (`==`, `in`, `size`, ...): 150 ns an entry, 1.3 ns a character beyond ASCII."""
TEXT_PAIR = 40
"""`contains` with two hostile texts: 0.02 to 0.04 ns for each pair of their characters."""
QUOTED = 3
"""Passes over a key that is not found: a failure quotes it."""
_LIGHT = frozenset(["_&&_", "_||_", "!_", "_?_:_", "@not_strictly_false", "dyn", "type"])
_LIGHT_WITH_CONSTANT = frozenset(["_==_", "_!=_", "startsWith", "endsWith", "_[_]"])
_LARGE = re.compile(r"string|bytes|list(?!_size)|map(?!_size)|^equals|^not_equals|^matches")
_DEGREE = {"one": 0, "pass": 1, "text": 1, "pairs": 2}
"""How a measure grows with the values."""
_STEP = 3
_REPEATED = (2, _STEP)
"""Of a comprehension's parts, its condition and its step run for each item."""

Term = tuple[int, str]


class Work(NamedTuple):
    """`mentions`: how often the expression names something that it reads; `items` and `text`: those of its
    literals; `joins`: how many values its `+` may put together into one."""

    terms: Mapping[Term, int]
    patterns: tuple[PatternWork, ...]
    mentions: int
    items: int
    text: int
    joins: int

    @property
    def steady(self) -> bool:
        """Whether it is the same for all sizes, as that of most conditions is."""
        return len(self.terms) == 1 and not self.patterns

    def bound(self, size: Size) -> int:
        """The most that it costs when what all mentions show has this size together."""
        items = max(size.items, self.items, 1) * self.joins
        text = (size.text + self.text) * self.joins
        passed = (size.nodes + self.items) * self.joins * ITEM_PASS + text * TEXT_PASS
        measures = {"one": 1, "pass": passed, "text": text, "pairs": text * text}
        terms: int = sum(by * items**loops * measures[measure] for (loops, measure), by in self.terms.items())
        return terms + sum(pattern.bound(items, text) for pattern in self.patterns)


def summed(works: Iterable[Work]) -> Work:
    """A bound for all of these together, where all look at the same."""
    return coarse(work._replace(mentions=1) for work in works)


def coarse(works: Iterable[Work]) -> Work:
    """A bound for all of these together: as if every mention were of all the values there are."""
    terms: Counter[Term] = Counter()
    patterns: list[PatternWork] = []
    items = text = joins = 0
    for work in works:
        items, text, joins = max(items, work.items), max(text, work.text), max(joins, work.joins)
        patterns += work.patterns
        for (loops, measure), by in work.terms.items():
            terms[(loops, measure)] += by * max(work.mentions, 1) ** _DEGREE[measure]
    return Work(dict(terms), tuple(patterns), 1, items, text, max(joins, 1))


def work_of(tree: Node, mentions: int) -> Work:
    """The work of a tree that has no refusals."""
    nodes = list(tree.walk())
    macros = [node for node in nodes if node.kind == "comprehension"]
    collecting = [
        id(node) for macro in macros for node in macro.parts[_STEP].walk() if _collects(node, macro)
    ]
    meter = _Meter(frozenset(collecting))
    meter.count(tree, None)
    joins = 1 + sum(grows(node) and id(node) not in meter.collecting for node in nodes)
    literals = [len(node.parts) for node in nodes if node.kind in {"list", "map"}]
    text = sum(len(node.text) for node in nodes if node.text is not None)
    return Work(dict(meter.terms), tuple(meter.patterns), mentions, max(literals, default=0), text, joins)


class _Meter:
    """Adds up terms. `collecting`: the `+` by which macros build lists; where there is one, what is passed
    over outside of it may be that list, each entry as large as all that is read."""

    def __init__(self, collecting: frozenset[int]) -> None:
        self.terms: Counter[Term] = Counter({(0, "one"): EVALUATION})
        self.patterns: list[PatternWork] = []
        self.collecting = collecting

    def count(self, node: Node, element: str | None) -> None:
        """A tree's terms; `element` is the variable of the macro that it is inside of."""
        self.terms[(0 if element is None else 1, "one")] += NODE
        if id(node) in self.collecting:
            self.terms[(2, "one")] += COLLECTED
        elif node.kind == "call" and not _light(node):
            self._passing(node, element)
        macro = node.kind == "comprehension"
        for place, part in enumerate(node.parts):
            self.count(part, node.name if macro and place in _REPEATED else element)

    def _passing(self, call: Node, element: str | None) -> None:
        again = element is not None and not _only_of(call, element)
        loops = int(again) + int(element is None and bool(self.collecting))
        if call.name == "matches":
            self.patterns.append(pattern_work(call.parts[1].text or "", int(element is not None), loops))
            return
        self.terms[(loops, "pass")] += QUOTED if call.name == "_[_]" else 1
        if call.name == "contains":
            needle = call.parts[1].text
            by = TEXT_PAIR * (1 if needle is None else len(needle))
            self.terms[(loops, "pairs" if needle is None else "text")] += by


def _collects(call: Node, macro: Node) -> bool:
    return accumulates(call, macro) and "add_list" in call.overloads


def _light(call: Node) -> bool:
    """Whether a call's cost does not grow with its values: on numbers and times, or against one constant."""
    if call.name in _LIGHT or not any(_LARGE.search(overload) for overload in call.overloads):
        return True
    return call.name in _LIGHT_WITH_CONSTANT and any(part.kind == "constant" for part in call.parts[-2:])


def _only_of(call: Node, element: str) -> bool:
    """Whether a call looks at nothing but constants and the macro's element: then all rounds together pass
    over each value once."""
    paths = [path_of(part) for part in call.parts if part.kind != "constant"]
    return all(path is not None and path[0] == element for path in paths)
