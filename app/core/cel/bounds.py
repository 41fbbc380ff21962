"""What an expression may not do, whatever the values: refused when a bundle is loaded.

CEL cannot loop for ever, but it can take memory and time by leaps (product.md, "Bad input"): a macro in a
macro multiplies, a macro that builds text copies it at every step, and `matches` compiles its pattern anew at
every call. None of that can be interrupted, since an evaluation holds the interpreter.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, cast

import re2

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.core.cel.tree import Node


CALL, INSTRUCTION = 4_000_000, 600_000
"""Picoseconds: a call, its pattern compiled anew, 0.4 to 0.7 us for each instruction."""
STATE, CHARACTER = 25_000, 6_000
"""Picoseconds: a new state, for each instruction; a character that leads to a known one: 2 to 6 ns."""
MAX_WIDE = 8
"""Places of several characters, beyond which a pattern counts as having no bound but the text's length."""
_WORDS = re.compile(r"\((?:\?[^:)]*[:)])?[\w\s'-]{3,}(?:\|[\w\s'-]{3,})+\)")
_REPEATED = re.compile(r"(?<!\\p)(?<!\\P)\{(\d+)(?:,(\d*))?\}")
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

    def bound(self, items: int, text: int) -> int:
        """Picoseconds at most, over this many characters in macros over this many items."""
        calls: int = items**self.calls
        passed: int = text * items**self.loops
        built = passed if self.states is None else min(passed, self.states * calls)
        return calls * (CALL + INSTRUCTION * self.steps) + built * self.steps * STATE + passed * CHARACTER


def program_size(pattern: str) -> int:
    """The instructions that RE2 makes of a pattern. Raises re2.error."""
    options = re2.Options()
    options.log_errors = False
    return cast("int", re2.compile(pattern, options=options).programsize)


def pattern_work(pattern: str, calls: int, loops: int) -> PatternWork:
    """The work of a pattern that compiles."""
    steps, wide = program_size(pattern), _wide(pattern)
    return PatternWork(steps, None if wide > MAX_WIDE else steps << max(wide - 1, 0), calls, loops)


def _wide(pattern: str) -> int:
    words_as_one = _WORDS.sub(".", pattern)
    repeats = [int(high or low) for low, high in _REPEATED.findall(words_as_one)]
    return len(_WIDE.findall(words_as_one)) + sum(repeats)


MAX_SOURCE = 4096
"""Characters. 12 000 take 29 ms to compile; the compiler itself refuses more than 32 levels of nesting."""
MAX_PATTERN_PROGRAM = 256
"""RE2 instructions. Compiling costs 0.5 to 1.2 us each, at every call: one `\\p{L}` are 1200 of them."""
_FIXED_ZONE = re.compile(r"UTC|[+-]?\d\d:\d\d")
_GROWING = frozenset({"add_string", "add_bytes", "add_list"})


def refusals(tree: Node) -> Iterator[str]:
    """Why a tree is refused; nothing when it is not."""
    for node in tree.walk():
        if node.kind == "comprehension":
            yield from _of_macro(node)
        elif node.kind == "call" and node.name == "matches":
            yield from _of_pattern(node.parts[1])
        elif node.kind == "call" and any(name.endswith("_with_tz") for name in node.overloads):
            yield from _of_zone(node.parts[1])


def grows(call: Node) -> bool:
    """Whether a call is a `+` that may put texts or lists together."""
    return call.kind == "call" and call.name == "_+_" and not _GROWING.isdisjoint(call.overloads)


def accumulates(call: Node, macro: Node) -> bool:
    """Whether a call is a macro's own collecting of its result."""
    return call.kind == "call" and call.name == "_+_" and call.parts[0].name == macro.accumulator


def _of_macro(macro: Node) -> Iterator[str]:
    inner = [node for part in macro.parts for node in part.walk()]
    if any(node.kind == "comprehension" for node in inner):
        yield "a macro inside or after another one (all, exists, exists_one, map, filter)"
    if any(grows(node) and not accumulates(node, macro) for node in inner):
        yield "`+` on what may be texts or lists inside a macro; of numbers, write double(a) + double(b)"


def _of_zone(zone: Node) -> Iterator[str]:
    if zone.text is None or not _FIXED_ZONE.fullmatch(zone.text):
        yield "a time zone by name: what it means differs by machine; write an offset such as '+02:00'"


def _of_pattern(pattern: Node) -> Iterator[str]:
    if pattern.text is None:
        yield "matches() with a pattern that is no literal"
        return
    try:
        size = program_size(pattern.text)
    except re2.error as error:
        yield f"the pattern {pattern.text!r} does not compile: {error}"
        return
    if size > MAX_PATTERN_PROGRAM:
        yield f"the pattern {pattern.text!r} takes {size} instructions, {MAX_PATTERN_PROGRAM} are allowed"
