"""How much work a regular expression of `matches` can make.

RE2 never backtracks, but it builds the states of its automaton as the text asks for them, each for 25 ns
an instruction of the pattern, and the evaluator keeps nothing from one call to the next. A pattern of plain
words has about as many states as characters; a place that takes one of several may double them, so a text
made for `[ab]*a[ab]{12}` finds a new state at every character. The count of such places is read off the
pattern's text: exact enough for what people write, and patterns come with the bundle, not with the action.
"""

from __future__ import annotations

import re
from typing import NamedTuple, cast

import re2

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
