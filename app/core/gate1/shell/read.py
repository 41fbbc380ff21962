"""`read_shell`: from a text to its commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.gate1.shell.bounds import MOST_WORK
from app.core.gate1.shell.escapes import without_leading_braces
from app.core.gate1.shell.execution import execute
from app.core.gate1.shell.grammar import parsed
from app.core.gate1.shell.plain import plain_words, rough_commands
from app.core.gate1.shell.scope import Scope
from app.core.gate1.shell.statements import run

if TYPE_CHECKING:
    from tree_sitter import Node

    from app.core.gate1.shell.reading import ShellReading


def read_shell(text: str, most_work: float = MOST_WORK) -> ShellReading:
    """The commands that a shell would run for `text`, as far as the text tells them.

    A text that is too much work to parse is read roughly, by operators and quotes alone, and is inconclusive.
    `most_work` may allow less than MOST_WORK, to whoever reads several texts within one bound.
    """
    scope = Scope(run, _read, most_work)
    words = plain_words(text)
    if words is not None:
        execute(words, scope)
    else:
        _read(text, scope)
        _uncalled(scope)
    return scope.reading()


def _read(text: str, scope: Scope) -> str | None:
    root = _parsed(text, scope)
    if root is not None and root.has_error and "{" in text:
        written_out = without_leading_braces(text)
        if written_out != text:
            text = written_out
            root = _parsed(text, scope)
    if root is None:
        _roughly(text, scope)
        return None
    output = run(root, scope)
    if root.has_error or scope.cut_off:
        _roughly(text, scope)
        return None
    return output


def _parsed(text: str, scope: Scope) -> Node | None:
    past = scope.past_bounds(text)
    root = None if past else parsed(text)
    if root is None:
        scope.inconclusive = past or "a shell text is too ambiguous to parse"
    return root


def _roughly(text: str, scope: Scope) -> None:
    for words in rough_commands(text):
        if scope.full():
            break
        execute(words, scope)


def _uncalled(scope: Scope) -> None:
    """Functions that the text defines without calling them may be called by whoever sources it."""
    for name, body in list(scope.functions.items()):
        if name not in scope.called:
            run(body, scope)
