"""Redirections, here-documents and here-strings (Bash manual, 3.6)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from app.core.gate1.shell.expansions import expanded
from app.core.gate1.shell.reading import Redirect
from app.core.gate1.shell.words import raw, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

    from app.core.gate1.shell.scope import Scope

_BACKTICKS = re.compile(r"`([^`]+)`")
_VARIABLE = re.compile(r"\$\{?[A-Za-z_]\w*\}?")
_TABS = re.compile(r"^\t+", re.MULTILINE)


def redirect_of(node: Node, scope: Scope) -> Redirect:
    """The operator and the target of a redirection to or from a file."""
    target = node.child_by_field_name("destination")
    operator = next((child.type for child in node.children if not child.is_named), ">")
    return Redirect(operator, "" if target is None else text_of(target, scope))


def here_text(node: Node, scope: Scope) -> str:
    """The text of a here-string or here-document; variables replaced unless its delimiter is quoted."""
    if node.type == "herestring_redirect":
        return " ".join(text_of(child, scope) for child in node.named_children)
    start = next((child for child in node.children if child.type == "heredoc_start"), None)
    body = next((child for child in node.children if child.type == "heredoc_body"), None)
    text = "" if body is None else raw(body)
    if raw(node).startswith("<<-"):
        text = _TABS.sub("", text)
    if body is None or start is None or raw(start)[:1] in "'\"\\":
        return text
    _run_substitutions(body, text, scope)
    return _VARIABLE.sub(lambda match: expanded(match[0], scope), text)


def _run_substitutions(body: Node, text: str, scope: Scope) -> None:
    for child in body.named_children:
        if child.type == "command_substitution":
            scope.run(child, scope)
    for match in _BACKTICKS.finditer(text):
        scope.read_nested(match[1], scope.via)
