"""`read_shell`: from a text to its commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tree_sitter
import tree_sitter_bash

from app.core.gate1.shell.ascii_only import spelled
from app.core.gate1.shell.bounds import shell_bounds
from app.core.gate1.shell.escapes import without_leading_braces
from app.core.gate1.shell.execution import execute
from app.core.gate1.shell.plain import plain_words, rough_commands
from app.core.gate1.shell.scope import Scope
from app.core.gate1.shell.statements import run

if TYPE_CHECKING:
    from app.core.gate1.shell.reading import ShellReading

_PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def read_shell(text: str) -> ShellReading:
    """The commands that a shell would run for `text`, as far as the text tells them.

    A text past `shell_bounds` is read roughly, by operators and quotes alone, and is inconclusive.
    """
    scope = Scope(run, _read)
    words = plain_words(text)
    if words is not None:
        execute(words, scope)
    else:
        _read(text, scope)
        _uncalled(scope)
    return scope.reading()


def _read(text: str, scope: Scope) -> str | None:
    past = shell_bounds(text)
    if past is not None:
        scope.inconclusive = past
        _roughly(text, scope)
        return None
    root = _parsed(text)
    if root.has_error and "{" in text:
        text = without_leading_braces(text)
        root = _parsed(text)
    output = run(root, scope)
    if root.has_error:
        _roughly(text, scope)
        return None
    return output


def _parsed(text: str) -> tree_sitter.Node:
    return _PARSER.parse(spelled(text)).root_node


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
