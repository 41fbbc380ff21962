"""The grammar's tree of a text, within a number of steps, and the linear scan in front of the parser.

tree-sitter-bash is quadratic wherever its grammar is ambiguous or a text has errors, and both are easy to
repeat: 1 KB of `a=(` takes it 33 ms, of `a|` 12 ms, of `$[` 11 ms; 300 characters of brackets that nothing
closes 10 ms. Real scripts are many short statements that close what they open. So the scan estimates the work
that a text would be: the marks of each statement count in the square, more where it does not close, and all
marks of the text where an expression stays open.

Of 10 000 texts made to be slow, as long as these limits let them be, the slowest takes 10 ms to read, rough
reading included. Of 2800 agents' commands none passes a limit; of 196 whole scripts of a Debian system ten.

The estimate cannot foresee every way to be slow, so the parser is also stopped: it reports every hundred
operations, and says whether it has met an error. Counting reports, unlike looking at a clock, gives the same
for the same text.
"""

from __future__ import annotations

import re

import tree_sitter
import tree_sitter_bash

_SINGLE = r"\$?'[^']*'"
_SUBSTITUTION = rf"""\$\((?>(?:[^()"'\\]|\\.|"(?:[^"\\]|\\.)*"|{_SINGLE})*)\)"""
_DOUBLE = rf"""\"(?>(?:[^\"\\$]|\\.|{_SUBSTITUTION}|\$)*)\""""
_COMMENT = r"(?:^|(?<=[\s;&|()]))#[^\n]*"
_QUOTED = re.compile(rf"\\.|{_SINGLE}|{_DOUBLE}|{_COMMENT}", re.DOTALL)
"""Double quotes with a substitution in them may hold double quotes again. The repeats are possessive: giving
back what they took could only cost time."""
_HERE_DOCUMENT = re.compile(r"(?<!<)<<(?!<)")


def bare(text: str) -> str:
    """`q` for each quoted text; double quotes with expansions in them stay whole.

    With a here-document all stays, since the quotes in one need not close.
    """
    return text if _HERE_DOCUMENT.search(text) else _QUOTED.sub(_placeholder, text)


def _placeholder(match: re.Match[str]) -> str:
    quoted = match[0]
    if quoted[0] == '"' and ("$" in quoted or "`" in quoted):
        return quoted
    return "" if quoted[0] == "#" else "q"


MOST_CHARACTERS = 3072
"""The longest text that is parsed; longer ones take milliseconds even when they are harmless."""
MOST_WORK = 1.0
"""The work of one reading, with all texts that its commands hand to shells."""
REFUSED = 2 * MOST_WORK
"""Said of a text that is not estimated any further."""
TOO_MUCH = "a shell text is too much work to parse"
FEW_MARKS = 48
"""So few characters other than letters and digits are little work, whatever they are: 2.5 ms at most."""
FEW_SQUARED = 11_520
"""The square of that number for the work of one: a fifth for FEW_MARKS."""
MOST_STATEMENTS = 320
MOST_REPEATS = 128
"""The same sign so often in a row; 4 KB of `-` after `for` take 100 ms."""
CHARACTERS = 16_384
"""Characters of a text that are all the work there may be, if there is no other."""
SQUARES = 26_000
"""Squares of the statements' marks, added up, likewise: 161 marks in one statement."""
LOOSE_MARKS = 10_000
"""Statements that do not close, times all marks, likewise."""
SHARES = 2.8
"""Shares of LIMITS, added up, likewise."""
LOOSE = 5
"""So many times the square of its marks counts for a statement that does not close."""
OPEN = 1 / 3
"""The part of the square of all marks that counts where an expression is open."""
LIMITS = {
    "=(": 16,
    "(": 96,
    ")": 128,
    "()": 48,
    "((": 48,
    "$[": 20,
    "[": 128,
    "=~": 10,
    "|": 96,
    "|&": 40,
    ">": 96,
    "<": 96,
    "<<": 16,
    "${": 128,
    "$": 256,
    "`": 96,
    ";": 256,
    ";&": 48,
    "\\": 192,
    "\\\n": 48,
    "^": 96,
    "++": 48,
    "&": 192,
    "{": 192,
    "=": 256,
    "!": 192,
    "@": 96,
    "@(": 40,
    "!(": 40,
    "?(": 40,
    "+(": 40,
    "*(": 40,
    "?": 96,
    '"': 400,
    "'": 400,
    "for ": 64,
    "while ": 64,
    "until ": 64,
    "select ": 64,
    "case ": 64,
    "coproc ": 32,
    "declare ": 64,
    "local ": 96,
    "export ": 96,
    "unset ": 96,
    "eval ": 64,
    "time ": 96,
    "function ": 64,
    "then ": 96,
    "do ": 96,
    "fi ": 96,
    "done ": 96,
    "esac ": 96,
    "else ": 96,
    "elif ": 96,
    " in ": 96,
}
"""How often a token may stand in a text for one share."""

_LETTERS = dict.fromkeys(map(ord, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"))
_FOREIGN = re.compile(r"[^\x00-\x7f]+")
"""Characters beyond ASCII, all of which are plain characters of words."""
_CALM = "."
_MARKS = _LETTERS | {ord(";"): "\n"} | dict.fromkeys(map(ord, " \t/.,:=-+"), _CALM)
"""Signs that are plain characters of words become one and the same."""
_DENSE = ("((", "[[", "${", "$[")
"""Where every word and every sign is an operand or an operator."""
_OPENED = (("((", "))"), ("[", "]"), ("[[", "]]"), ("${", "}"))
_CASE = re.compile(r"(?:^|[;\n])\s*case\b")
_REPEATED = re.compile(rf"([^\w\s])\1{{{MOST_REPEATS}}}")
_BLANKS = re.compile(r"[ \t]+")
_PAIRS = (("(", ")"), ("{", "}"), ("[", "]"))
_QUOTES = "\"'`"


def shell_bounds(text: str) -> str | None:
    """Why `text` may not be parsed; None where it may."""
    if len(text) > MOST_CHARACTERS:
        return f"a shell text of {len(text)} characters is too long to parse"
    return TOO_MUCH if shell_work(text) > MOST_WORK else None


def shell_work(text: str) -> float:
    """How much work it is to parse `text`, in shares of all that a reading may cost. Linear in the text."""
    work = len(text) / CHARACTERS
    if not text.isascii():
        text = _FOREIGN.sub("w", text)
    signs = len(text.translate(_LETTERS))
    if signs <= FEW_MARKS:
        return work + signs * signs / FEW_SQUARED
    shares = sum(text.count(token) / limit for token, limit in LIMITS.items())
    if shares > SHARES:
        return REFUSED
    outside = bare(text)
    if _REPEATED.search(outside):
        return REFUSED
    return work + shares / SHARES + _statements(outside, opened=_has_opening(outside))


def _statements(outside: str, *, opened: bool) -> float:
    parts = _BLANKS.sub(" ", outside.replace("&&", ";").replace("||", ";")).translate(_MARKS).split("\n")
    if len(parts) > MOST_STATEMENTS:
        return REFUSED
    marks = loose = 0
    squares = 0.0
    for part in filter(None, parts):
        dense = opened or any(map(part.__contains__, _DENSE))
        count = len(part) if dense else len(part) - part.count(_CALM)
        unclosed = count > 0 and _has_unclosed(part)
        marks += count
        loose += unclosed
        squares += count * count * (LOOSE if unclosed else 1)
    if opened:
        squares = max(squares, (marks + len(parts)) ** 2 * OPEN)
    return squares / SQUARES + loose * marks / LOOSE_MARKS


def _has_opening(outside: str) -> bool:
    return (
        any(outside.count(opening) > outside.count(closing) for opening, closing in _OPENED)
        or outside.count("`") % 2 == 1
        or len(_CASE.findall(outside)) > outside.count("esac")
    )


def _has_unclosed(part: str) -> bool:
    return any(part.count(opening) != part.count(closing) for opening, closing in _PAIRS) or any(
        part.count(quote) % 2 for quote in _QUOTES
    )


_OPEN, _CLOSE = "\x02", "\x03"
_OTHER = re.compile(r"[^\x00-\x7f]")
_SPELLED = re.compile(r"\x02([0-9a-f]{2,6})\x03")
_WITHOUT_MARKS = str.maketrans({_OPEN: "\x1a", _CLOSE: "\x1a"})
"""The two marks of a text itself become another control character, so that they cannot spell anything."""


def spell(text: str) -> bytes:
    """The text in ASCII bytes, for the parser.

    `{` followed by U+10FFFD is enough for a segmentation fault, which no Python code can catch. Each other
    character is therefore spelled in ASCII before parsing, and read back from the words afterwards. The shell
    gives no character beyond ASCII a meaning of its own, so nothing of the grammar is lost.
    """
    if _OPEN in text or _CLOSE in text:
        text = text.translate(_WITHOUT_MARKS)
    if not text.isascii():
        text = _OTHER.sub(lambda match: f"{_OPEN}{ord(match[0]):x}{_CLOSE}", text)
    return text.encode("ascii")


def read_back(raw: bytes) -> str:
    """The characters that some of the parser's bytes stand for."""
    text = raw.decode("ascii")
    if _OPEN not in text:
        return text
    return _SPELLED.sub(lambda match: chr(int(match[1], 16)), text)


LEAST_REPORTS = 10
BYTES_PER_REPORT = 100
"""Real scripts give one report for 110 bytes and more, ambiguous ones one for 10."""
MOST_REPORTS_WITH_ERRORS = 6
"""Real scripts with something that the grammar does not know have one such report, or none."""

_PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def parse(text: str) -> tree_sitter.Node | None:
    """The root of the tree; None where the parser had to be stopped."""
    raw = spell(text)
    if len(raw) < BYTES_PER_REPORT:
        return _PARSER.parse(raw).root_node
    steps = _Steps(LEAST_REPORTS + len(raw) // BYTES_PER_REPORT)
    try:
        tree = _PARSER.parse(lambda start, _point: raw[start:] or None, progress_callback=steps.past)
    except ValueError:
        _PARSER.reset()
        return None
    root = tree.root_node
    return root if root.has_error else _PARSER.parse(raw, tree).root_node


class _Steps:
    """What the parser has reported."""

    def __init__(self, most: int) -> None:
        self._left = most
        self._left_with_errors = MOST_REPORTS_WITH_ERRORS

    def past(self, _offset: int, has_error: bool) -> bool:
        """Whether the parser must stop."""
        self._left -= 1
        self._left_with_errors -= has_error
        return self._left < 0 or self._left_with_errors < 0
