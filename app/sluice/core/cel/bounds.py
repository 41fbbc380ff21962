"""What an expression may not do, whatever the values, and how much work it can make at most.

CEL cannot loop for ever, but it can take memory and time by leaps (product.md, "Bad input"): a macro in a
macro multiplies, a macro that builds text copies it at every step, and `matches` compiles its pattern anew at
every call. Nothing may interrupt an evaluation, since it holds the interpreter, so its cost is bounded before
it runs: from the tree when a bundle is loaded, from the sizes of what it reads when an action is there.

Work is a polynomial in these sizes. A term is (loops, measure): a coefficient times the number of items to
the power of `loops`, times the measure. Work is in picoseconds on the machine that the coefficients were
measured on; being integers, they come to the same sum everywhere, so a rerun skips what was skipped.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, cast

import re2

from sluice.core.cel.tree import find_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sluice.core.cel.tree import Node, Size

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


class WorkBound(NamedTuple):
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

    def limit_cost(self, size: Size) -> int:
        """The most that it costs when what all mentions show has this size together."""
        items = max(size.items, self.items, 1) * self.joins
        text = (size.text + self.text) * self.joins
        passed = (size.nodes + self.items) * self.joins * ITEM_PASS + text * TEXT_PASS
        measures = {"one": 1, "pass": passed, "text": text, "pairs": text * text}
        terms: int = sum(by * items**loops * measures[measure] for (loops, measure), by in self.terms.items())
        return terms + sum(pattern.limit_cost(items, text) for pattern in self.patterns)


def sum_works(works: Iterable[WorkBound]) -> WorkBound:
    """A bound for all of these together, where all look at the same."""
    return sum_coarsely(work._replace(mentions=1) for work in works)


def sum_coarsely(works: Iterable[WorkBound]) -> WorkBound:
    """A bound for all of these together: as if every mention were of all the values there are."""
    terms: Counter[Term] = Counter()
    patterns: list[PatternWork] = []
    items = text = joins = 0
    for work in works:
        items, text, joins = max(items, work.items), max(text, work.text), max(joins, work.joins)
        patterns += work.patterns
        for (loops, measure), by in work.terms.items():
            terms[(loops, measure)] += by * max(work.mentions, 1) ** _DEGREE[measure]
    return WorkBound(dict(terms), tuple(patterns), 1, items, text, max(joins, 1))


def measure_work(tree: Node, mentions: int) -> WorkBound:
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
    return WorkBound(
        dict(meter.terms), tuple(meter.patterns), mentions, max(literals, default=0), text, joins
    )


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
        elif node.kind == "call" and not _is_light(node):
            self._count_pass(node, element)
        macro = node.kind == "comprehension"
        for index, part in enumerate(node.parts):
            self.count(part, node.name if macro and index in _REPEATED else element)

    def _count_pass(self, call: Node, element: str | None) -> None:
        again = element is not None and not _is_only_of(call, element)
        loops = int(again) + int(element is None and bool(self.collecting))
        if call.name == "matches":
            self.patterns.append(measure_pattern(call.parts[1].text or "", int(element is not None), loops))
            return
        self.terms[(loops, "pass")] += QUOTED if call.name == "_[_]" else 1
        if call.name == "contains":
            needle = call.parts[1].text
            by = TEXT_PAIR * (1 if needle is None else len(needle))
            self.terms[(loops, "pairs" if needle is None else "text")] += by


def _collects(call: Node, macro: Node) -> bool:
    return accumulates(call, macro) and "add_list" in call.overloads


def _is_light(call: Node) -> bool:
    """Whether a call's cost does not grow with its values: on numbers and times, or against one constant."""
    if call.name in _LIGHT or not any(_LARGE.search(overload) for overload in call.overloads):
        return True
    return call.name in _LIGHT_WITH_CONSTANT and any(part.kind == "constant" for part in call.parts[-2:])


def _is_only_of(call: Node, element: str) -> bool:
    """Whether a call looks at nothing but constants and the macro's element: then all rounds together pass
    over each value once."""
    paths = [find_path(part) for part in call.parts if part.kind != "constant"]
    return all(path is not None and path[0] == element for path in paths)


CALL, INSTRUCTION = 4_000_000, 600_000
"""Picoseconds: a call, its pattern compiled anew, 0.4 to 0.7 us for each instruction."""
STATE, CHARACTER = 25_000, 6_000
"""Picoseconds: a new state, for each instruction; a character that leads to a known one: 2 to 6 ns."""
MAX_WIDE = 8
"""Places of several characters, beyond which a pattern counts as having no bound but the text's length."""
_WORDS = re.compile(r"\((?:\?[^:)]*[:)])?[\w\s'-]{3,}(?:\|[\w\s'-]{3,})+\)")
_REPETITION = re.compile(r"(?<!\\p)(?<!\\P)\{(\d+)(?:,(\d*))?\}")
_WIDE = re.compile(r"\\[dDwWsSpPCX]|\[(?:\\.|[^\]\\])[^\]]*\]|(?<!\\)\.|\|")


class PatternWork(NamedTuple):
    """`steps`: RE2 instructions; `states`: how many the automaton may have, None without a bound.

    `calls` and `loops`: to which power of the number of items a macro multiplies calls and text.

    RE2 never backtracks, but it builds the states of its automaton as the text asks for them, each for 25 ns
    an instruction of the pattern, and the evaluator keeps nothing from one call to the next. A pattern of
    plain words has about as many states as characters; a place that takes one of several may double them, so
    a text made for `[ab]*a[ab]{12}` finds a new state at every character. The count of such places is read
    off the pattern's text: exact enough for what people write, and patterns come with the bundle, not with
    the action.
    """

    steps: int
    states: int | None
    calls: int
    loops: int

    def limit_cost(self, items: int, text: int) -> int:
        """Picoseconds at most, over this many characters in macros over this many items."""
        calls: int = items**self.calls
        passed: int = text * items**self.loops
        built = passed if self.states is None else min(passed, self.states * calls)
        return calls * (CALL + INSTRUCTION * self.steps) + built * self.steps * STATE + passed * CHARACTER


def measure_program(pattern: str) -> int:
    """The instructions that RE2 makes of a pattern. Raises re2.error."""
    options = re2.Options()
    options.log_errors = False
    return cast("int", re2.compile(pattern, options=options).programsize)


def measure_pattern(pattern: str, calls: int, loops: int) -> PatternWork:
    """The work of a pattern that compiles."""
    steps, wide = measure_program(pattern), _count_wide(pattern)
    return PatternWork(steps, None if wide > MAX_WIDE else steps << max(wide - 1, 0), calls, loops)


def _count_wide(pattern: str) -> int:
    words_as_one = _WORDS.sub(".", pattern)
    repeats = [int(high or low) for low, high in _REPETITION.findall(words_as_one)]
    return len(_WIDE.findall(words_as_one)) + sum(repeats)


MAX_SOURCE = 4096
"""Characters. 12 000 take 29 ms to compile; the compiler itself refuses more than 32 levels of nesting."""
MAX_PATTERN_PROGRAM = 256
"""RE2 instructions. Compiling costs 0.5 to 1.2 us each, at every call: one `\\p{L}` are 1200 of them."""
_FIXED_ZONE = re.compile(r"UTC|[+-]?\d\d:\d\d")
_GROWING = frozenset({"add_string", "add_bytes", "add_list"})


def list_refusals(tree: Node) -> Iterator[str]:
    """Why a tree is refused; nothing when it is not."""
    for node in tree.walk():
        if node.kind == "comprehension":
            yield from _refuse_macro(node)
        elif node.kind == "call" and node.name == "matches":
            yield from _refuse_pattern(node.parts[1])
        elif node.kind == "call" and any(name.endswith("_with_tz") for name in node.overloads):
            yield from _refuse_zone(node.parts[1])


def grows(call: Node) -> bool:
    """Whether a call is a `+` that may put texts or lists together."""
    return call.kind == "call" and call.name == "_+_" and not _GROWING.isdisjoint(call.overloads)


def accumulates(call: Node, macro: Node) -> bool:
    """Whether a call is a macro's own collecting of its result."""
    return call.kind == "call" and call.name == "_+_" and call.parts[0].name == macro.accumulator


def _refuse_macro(macro: Node) -> Iterator[str]:
    inner = [node for part in macro.parts for node in part.walk()]
    if any(node.kind == "comprehension" for node in inner):
        yield "a macro inside or after another one (all, exists, exists_one, map, filter)"
    if any(grows(node) and not accumulates(node, macro) for node in inner):
        yield "`+` on what may be texts or lists inside a macro; of numbers, write double(a) + double(b)"


def _refuse_zone(zone: Node) -> Iterator[str]:
    if zone.text is None or not _FIXED_ZONE.fullmatch(zone.text):
        yield "a time zone by name: what it means differs by machine; write an offset such as '+02:00'"


def _refuse_pattern(pattern: Node) -> Iterator[str]:
    if pattern.text is None:
        yield "matches() with a pattern that is no literal"
        return
    try:
        size = measure_program(pattern.text)
    except re2.error as error:
        yield f"the pattern {pattern.text!r} does not compile: {error}"
        return
    if size > MAX_PATTERN_PROGRAM:
        yield f"the pattern {pattern.text!r} takes {size} instructions, {MAX_PATTERN_PROGRAM} are allowed"
