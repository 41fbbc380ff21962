"""Words as the shell would see them, and the variables that a text sets itself.

Of a word, quotes are removed, what is known is substituted, and the result is split. Variables are set by
assignments, declarations and loops.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from sluice.detection.commands.shell.expansions import (
    MOST_BRACE_WORDS,
    ansi_c,
    braces,
    drop_backslashes,
    drop_backslashes_in_quotes,
    expand,
)
from sluice.detection.commands.shell.grammar import read_back
from sluice.detection.commands.shell.shell_reading import Command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

    from sluice.detection.commands.shell.shell_reading import ShellScope

KEPT_BLANK = "\x1f"
"""Stands for a blank inside quotes while the rest of the word is split."""
UNKNOWN_OUTPUT = "$()"
"""Stands for the output of a command that only running it would tell."""

_SPLIT = frozenset({"simple_expansion", "expansion", "command_substitution"})
_RUN = frozenset({"command_substitution", "process_substitution"})
_EXPANDED = frozenset({"regex", "extglob_pattern", "word", "string_content", "special_variable_name"})
_SUBSTITUTION = re.compile(r"`([^`]*)`|\$\((?!\()")
_HIDES_END = re.compile(r"['\"\\#]|\bcase\b")
"""With these a parenthesis may not be the one that closes."""
_NOTHING_SET = frozenset({"$@", "$*", *(f"${digit}" for digit in range(1, 10))})


def words_of(node: Node, scope: ShellScope, *, names_program: bool = False) -> list[str]:
    """The words that one word of the grammar gives: none for an empty `$x`, several for `{a,b}`."""
    kind = node.type
    if kind == "word":
        text = raw(node)
        return _expand_braces(drop_backslashes(text), scope) if "{" in text else [drop_backslashes(text)]
    if kind == "brace_expression":
        return _expand_braces(raw(node), scope)
    if kind in _SPLIT:
        return text_of(node, scope).split()
    if kind == "concatenation":
        return _concatenate(node, scope, names_program=names_program)
    return [text_of(node, scope)]


def text_of(node: Node, scope: ShellScope) -> str:
    """A node's text as one string, unsplit."""
    return _READERS.get(node.type, _run_and_raw)(node, scope)


def run_inside(node: Node, scope: ShellScope) -> None:
    """Run the substitutions of a node, however deep they are in it: `$(( $(x) + 1 ))`, `${a:-"$(x)"}`,
    `a[$(x)]=1`. In an arithmetic expression also those in the values of its variables, which the shell
    evaluates in turn (Bash manual, 6.5)."""
    left = list(reversed(node.named_children))
    while left:
        child = left.pop()
        if _hides_substitution(child):
            _run_hidden(raw(child), scope)
        elif child.type in _RUN:
            scope.run(child, scope)
        elif child.type == "variable_name" and node.type == "arithmetic_expansion":
            value = scope.variables.get(raw(child), "")
            if "$(" in value or "`" in value:
                scope.read_nested(value, scope.via)
        else:
            left.extend(reversed(child.named_children))


def _hides_substitution(node: Node) -> bool:
    """Whether the grammar gives a part of an expansion as mere characters that the shell expands: the pattern
    of `${x#$(rm y)}`, an index in quotes."""
    if node.named_child_count or node.type in _RUN:
        return False
    text = raw(node)
    return ("$(" in text or "`" in text) and (node.type in _EXPANDED or _is_index(node))


def _is_index(node: Node) -> bool:
    return node.parent is not None and node.parent.type == "subscript"


def _run_hidden(text: str, scope: ShellScope) -> None:
    """Read the substitutions in characters that the grammar did not look into: each from where it begins."""
    for match in _SUBSTITUTION.finditer(text):
        inner = match[1] if match[1] is not None else _cut_balanced(text[match.end() :])
        if _HIDES_END.search(inner):
            scope.inconclusive = "a substitution whose end only the shell sees"
        scope.read_nested(inner, scope.via)


def _cut_balanced(text: str) -> str:
    """Up to the parenthesis that closes."""
    depth = 1
    for index, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return text[:index]
    return text


def raw(node: Node) -> str:
    """A node's own characters."""
    text = node.text
    return "" if text is None else read_back(text)


def _concatenate(node: Node, scope: ShellScope, *, names_program: bool) -> list[str]:
    parts = []
    split = False
    for part in node.children:
        text = text_of(part, scope)
        if part.type in _SPLIT:
            split = True
            unset = text in _NOTHING_SET or (
                names_program and text.startswith("$") and text[1:].isidentifier()
            )
            parts.append("" if unset else text)
        else:
            parts.append(text.replace(" ", KEPT_BLANK))
    joined = "".join(parts)
    words = joined.split() if split else [joined]
    return [expanded.replace(KEPT_BLANK, " ") for word in words for expanded in _expand_braces(word, scope)]


def _expand_braces(word: str, scope: ShellScope) -> list[str]:
    words = braces(word)
    if len(words) >= MOST_BRACE_WORDS:
        scope.inconclusive = "too_many_brace_words"
    return words


def _word(node: Node, _scope: ShellScope) -> str:
    return drop_backslashes(raw(node))


def _raw_string(node: Node, _scope: ShellScope) -> str:
    return raw(node)[1:-1]


def _ansi_c_string(node: Node, _scope: ShellScope) -> str:
    return ansi_c(raw(node)[2:-1])


def _string(node: Node, scope: ShellScope) -> str:
    children = node.children
    if len(children) <= 3:  # noqa: PLR2004 - quote, content, quote
        whole = raw(node)
        if not any(child.is_named and child.type != "string_content" for child in children):
            return drop_backslashes_in_quotes(whole[1:-1])
    parts = []
    for before, child in pairwise(children[:-1]):
        gap = child.start_byte - before.end_byte
        text = (
            drop_backslashes_in_quotes(raw(child))
            if child.type == "string_content"
            else text_of(child, scope)
        )
        parts.append(" " * gap + text)
    return "".join(parts)


def _translate(node: Node, scope: ShellScope) -> str:
    return _string(node.children[-1], scope) if node.children else ""


def _expansion(node: Node, scope: ShellScope) -> str:
    run_inside(node, scope)
    return expand(raw(node), scope)


def _substitution(node: Node, scope: ShellScope) -> str:
    output = scope.run(node, scope)
    return UNKNOWN_OUTPUT if output is None else output.rstrip("\n")


def _whole(node: Node, scope: ShellScope) -> str:
    return " ".join(words_of(node, scope))


def _run_and_raw(node: Node, scope: ShellScope) -> str:
    run_inside(node, scope)
    return raw(node)


def _command_name(node: Node, scope: ShellScope) -> str:
    return text_of(node.children[0], scope) if node.children else raw(node)


_READERS = {
    "word": _word,
    "raw_string": _raw_string,
    "ansi_c_string": _ansi_c_string,
    "string": _string,
    "translated_string": _translate,
    "simple_expansion": _expansion,
    "expansion": _expansion,
    "command_substitution": _substitution,
    "process_substitution": _substitution,
    "concatenation": _whole,
    "command_name": _command_name,
}


MOST_ROUNDS = 16
"""Rounds of a `for` loop that are read, each with its value; of a body that does not use it, one."""


def assign(node: Node, scope: ShellScope, *, keep: bool = True) -> tuple[str, str]:
    """Name and value of `NAME=value` or `NAME+=value`; kept for later words unless told otherwise."""
    name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    key = "" if name is None else text_of(name, scope)
    text = "" if value is None else _value(value, scope)
    if "+=" in (child.type for child in node.children):
        text = scope.variables.get(key, "") + text
    if keep:
        scope.variables[key] = text
    return key, text


def read_declaration(node: Node, scope: ShellScope) -> Command:
    """`export`, `declare`, `local`, `readonly` as a command with its assignments."""
    words: list[str] = []
    assigned = []
    for child in node.children:
        if child.type == "variable_assignment":
            assigned.append(assign(child, scope))
            words.append("=".join(assigned[-1]))
        else:
            words.append(text_of(child, scope))
    return Command(words[0], tuple(words[1:]), via=scope.via, path=words[0], assigned=tuple(assigned))


def unset(node: Node, scope: ShellScope) -> Command:
    """`unset NAME...` as a command."""
    words = tuple(text_of(child, scope) for child in node.children)
    for name in words[1:]:
        scope.variables.pop(name, None)
    return Command(words[0], words[1:], via=scope.via, path=words[0])


def run_loop(node: Node, scope: ShellScope) -> Iterator[Node]:
    """The body of a `for` loop, once for each of its first values, with the variable set."""
    variable, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
    values = [word for child in node.children_by_field_name("value") for word in words_of(child, scope)]
    if body is None:
        return
    used = variable is not None and f"${raw(variable)}" in raw(body).replace("${", "$").replace("!", "")
    rounds: list[str | None] = [*values[: MOST_ROUNDS if used else 1]]
    if used and not all(map(str.isdecimal, values[MOST_ROUNDS:])):
        scope.inconclusive = "too_many_rounds"
    for value in rounds or [None]:
        if variable is not None and value is not None:
            scope.variables[raw(variable)] = value
        with scope.deeper() as within:
            if within:
                yield body


def _value(node: Node, scope: ShellScope) -> str:
    if node.type == "array":
        return " ".join(word for child in node.named_children for word in words_of(child, scope))
    return text_of(node, scope)
