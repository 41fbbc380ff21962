"""`read_shell`: from a text to its commands."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sluice.detection.commands.shell.execution import Around, execute
from sluice.detection.commands.shell.expansions import write_in_grammar
from sluice.detection.commands.shell.grammar import MOST_WORK, parse
from sluice.detection.commands.shell.shell_reading import Redirect, ShellScope
from sluice.detection.commands.shell.shell_statements import run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

    from sluice.detection.commands.shell.shell_reading import ShellReading


_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,-]+(?: +[A-Za-z0-9_./:@%+,=-]+)*")
_KEYWORDS = frozenset(
    {
        "if",
        "then",
        "else",
        "elif",
        "fi",
        "for",
        "while",
        "until",
        "do",
        "done",
        "case",
        "esac",
        "in",
        "function",
        "select",
        "time",
        "coproc",
        "export",
        "declare",
        "local",
        "readonly",
        "typeset",
        "unset",
    }
)
_TOKEN = re.compile(
    r"""(?P<redirect>(?:[0-9]+|&|\{[A-Za-z_]\w*\})?(?:>>|>\||>&|<>|<&|<<<|<<-?|>|<))|"""
    r"""(?P<end>\|\||&&|[;|&\n(){}]+)|"""
    r"""(?P<word>(?:[^\s;|&(){}<>"'\\]|\\.|"(?:[^"\\]|\\.)*"|'[^']*')+)""",
    re.DOTALL,
)
_QUOTED = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'([^']*)'", re.DOTALL)


def plain_words(text: str) -> tuple[str, ...] | None:
    """The words of a line without any quoting, expansion or operator; None where the grammar is needed."""
    if _PLAIN.fullmatch(text) is None:
        return None
    words = tuple(text.split(" "))
    if "" in words:
        words = tuple(filter(None, words))
    return None if words[0] in _KEYWORDS else words


def rough_commands(text: str) -> Iterator[tuple[tuple[str, ...], tuple[Redirect, ...]]]:
    """The words and redirections of each command by operators and quotes alone: for text with errors, such as
    PowerShell."""
    words: list[str] = []
    redirects: list[Redirect] = []
    operator = ""
    for match in _TOKEN.finditer(text):
        if match["word"] is not None:
            word = _QUOTED.sub(lambda quoted: quoted[1] or quoted[2] or "", match["word"])
            if operator:
                redirects.append(Redirect(operator, word))
            else:
                words.append(word)
            operator = ""
        elif match["redirect"] is not None:
            operator = match["redirect"].lstrip("0123456789")
        else:
            if words:
                yield tuple(words), tuple(redirects)
            words, redirects, operator = [], [], ""
    if words:
        yield tuple(words), tuple(redirects)


def read_shell(text: str, most_work: float = MOST_WORK) -> ShellReading:
    """The commands that a shell would run for `text`, as far as the text tells them.

    A text that is too much work to parse is read roughly, by operators and quotes alone, and is inconclusive.
    `most_work` may allow less than MOST_WORK, to whoever reads several texts within one bound.
    """
    scope = ShellScope(run, _read, most_work)
    words = plain_words(text)
    if words is not None:
        execute(words, scope)
    else:
        _read(text, scope)
        _call_defined(scope)
    return scope.take_reading()


def _read(text: str, scope: ShellScope) -> str | None:
    root = _parse_text(text, scope)
    if root is not None and root.has_error:
        in_grammar = write_in_grammar(text)
        if in_grammar != text:
            text = in_grammar
            root = _parse_text(text, scope)
    if root is None:
        _roughly(text, scope)
        return None
    output = run(root, scope)
    if root.has_error or scope.cut_off:
        _roughly(text, scope)
        return None
    return output


def _parse_text(text: str, scope: ShellScope) -> Node | None:
    past = scope.exceed_bounds(text)
    root = None if past else parse(text)
    if root is None:
        scope.inconclusive = past or "a shell text is too ambiguous to parse"
    return root


def _roughly(text: str, scope: ShellScope) -> None:
    for words, redirects in rough_commands(text):
        if scope.full():
            break
        execute(words, scope, Around(redirects))


def _call_defined(scope: ShellScope) -> None:
    """A program that sources the text may call functions that the text defines without calling them."""
    for name, body in list(scope.functions.items()):
        if name not in scope.called:
            run(body, scope)
