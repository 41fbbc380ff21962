"""From the grammar's tree to commands: lists, pipelines, redirections, loops, functions, substitutions."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from sluice.detection.commands.shell.execution import ALONE, Around, execute
from sluice.detection.commands.shell.expansions import expand
from sluice.detection.commands.shell.shell_reading import MOST_LEVELS, Command, Redirect
from sluice.detection.commands.shell.shell_words import (
    assign,
    raw,
    read_declaration,
    run_inside,
    run_loop,
    text_of,
    unset,
    words_of,
)

if TYPE_CHECKING:
    from tree_sitter import Node

    from sluice.detection.commands.shell.shell_reading import ShellScope


_BACKTICKS = re.compile(r"`([^`]+)`")
_VARIABLE = re.compile(r"\$\{?[A-Za-z_]\w*\}?")
_DESCRIPTOR = re.compile(r"[0-9]+|\{[A-Za-z_]\w*\}")
_TABS = re.compile(r"^\t+", re.MULTILINE)


def redirect_of(node: Node, scope: ShellScope) -> Redirect:
    """The operator and the target of a redirection to or from a file.

    Also here-documents and here-strings. Source: Bash manual, 3.6.
    """
    target = node.child_by_field_name("destination")
    operator = next((child.type for child in node.children if not child.is_named), ">")
    return Redirect(operator, "" if target is None else text_of(target, scope))


def here_text(node: Node, scope: ShellScope) -> str:
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
    return _VARIABLE.sub(lambda match: expand(match[0], scope), text)


def _run_substitutions(body: Node, text: str, scope: ShellScope) -> None:
    run_inside(body, scope)
    for match in _BACKTICKS.finditer(text):
        scope.read_nested(match[1], scope.via)


FORK_BOMB = "(fork bomb)"
"""Program name noted for a function that pipes itself into itself."""

MOST_FEEDERS = 12
"""Commands whose output one command is said to read: the nearest ones, or pipelines cost their square."""

_WORDS = frozenset(
    {
        "word",
        "string",
        "raw_string",
        "ansi_c_string",
        "concatenation",
        "expansion",
        "simple_expansion",
        "number",
    }
)
_HOLDERS = frozenset({"command", "pipeline", "file_redirect"})
_REDIRECTS = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})


def run(node: Node, scope: ShellScope, around: Around = ALONE) -> str | None:
    """Reads one statement; gives its output where it is known ("" for none)."""
    if scope.full():
        return None
    handler = _HANDLERS.get(node.type)
    if handler is not None:
        return handler(node, scope, around)
    if node.type in _WORDS:
        text_of(node, scope)
        return ""
    return _each(node.named_children, scope, around)


def _each(nodes: list[Node], scope: ShellScope, around: Around) -> str | None:
    if scope.levels >= MOST_LEVELS:
        scope.inconclusive, scope.cut_off = "nested_too_deep", True
        return None
    scope.levels += 1
    outputs = [run(node, scope, around) for node in nodes]
    scope.levels -= 1
    written = [output for output in outputs if output is not None]
    return "\n".join(filter(None, written)) if len(written) == len(outputs) else None


def _list(node: Node, scope: ShellScope, around: Around) -> str | None:
    """`a && b && c`: the tree has `a && b` inside the list, and so on, as deep as the list is long."""
    last_first: list[Node] = []
    while node.type == "list" and node.named_children:
        node, *others = node.named_children
        last_first.extend(reversed(others))
    return _each([node, *reversed(last_first)], scope, around)


def _command(node: Node, scope: ShellScope, around: Around) -> str | None:
    before = len(scope.commands)
    words: list[str] = []
    assigned: list[tuple[str, str]] = []
    redirects: list[Redirect] = []
    stdin = around.stdin
    for child in node.children:
        kind = child.type
        if kind == "variable_assignment":
            assigned.append(assign(child, scope, keep=False))
        elif kind == "command_name":
            words.extend(
                words_of(child.children[0], scope, names_program=True) if child.children else [raw(child)]
            )
        elif kind == "herestring_redirect":
            stdin = here_text(child, scope)
        elif kind == "file_redirect":
            redirects.append(redirect_of(child, scope))
        elif kind == "subshell":
            run(child, scope)
        elif not _is_descriptor(child):
            words.extend(words_of(child, scope))
    words.extend(around.words)
    fed = around.fed_by + tuple(scope.commands[before:])
    inner = Around(
        around.redirects + tuple(redirects), around.reads_pipe, stdin, _nearest(fed, scope), tuple(assigned)
    )
    return execute(tuple(words), scope, inner) if words else None


def _is_descriptor(word: Node) -> bool:
    """Whether a word is the number or name of a redirection that begins where it ends: `0<a`, `{log}>b`."""
    behind, around = word.next_sibling, word.parent
    while behind is None and around is not None and around.type in _HOLDERS:
        behind, around = around.next_sibling, around.parent
    if behind is None or behind.type not in _REDIRECTS or behind.start_byte != word.end_byte:
        return False
    return _DESCRIPTOR.fullmatch(raw(word)) is not None


def _pipeline(node: Node, scope: ShellScope, around: Around) -> str | None:
    return _run_pipeline(node.named_children, scope, around)


def _run_pipeline(stages: list[Node], scope: ShellScope, around: Around, last: Around = ALONE) -> str | None:
    """`last`: what is redirected behind the pipeline, which is the last stage's."""
    output = around.stdin
    before = around.fed_by
    first = len(scope.commands)
    for index, stage in enumerate(stages):
        if index:
            fed = before + tuple(scope.commands[first:])
            around = Around(reads_pipe=True, stdin=output, fed_by=_nearest(fed, scope))
        if index == len(stages) - 1:
            around = around._replace(
                redirects=around.redirects + last.redirects,
                stdin=around.stdin if last.stdin is None else last.stdin,
                words=last.words,
            )
        output = run(stage, scope, around)
    return output


def _nearest(fed: tuple[Command, ...], scope: ShellScope) -> tuple[Command, ...]:
    if len(fed) > MOST_FEEDERS:
        scope.inconclusive = "too_many_feeders"
    return fed[-MOST_FEEDERS:]


def _run_redirected(node: Node, scope: ShellScope, around: Around) -> str | None:
    body, stdin, rest = None, None, None
    redirects: list[Redirect] = []
    words: list[str] = []
    for child in node.children:
        if child.type not in _REDIRECTS:
            body = child if body is None and child.is_named else body
            continue
        files = [child] if child.type == "file_redirect" else child.children
        if child.type != "file_redirect":
            stdin = here_text(child, scope)
            rest = child if child.type == "heredoc_redirect" else rest
        for file in files:
            if file.type == "file_redirect":
                redirects.append(redirect_of(file, scope))
                words += _words_behind(file, scope)
    own = Around(tuple(redirects), stdin=stdin, words=tuple(words))
    output = _body(body, scope, around, own)
    return output if rest is None else _run_after_here_document(rest, scope, output)


def _words_behind(redirect: Node, scope: ShellScope) -> list[str]:
    """The words behind a redirection's file, which the grammar takes for further files."""
    others = redirect.children_by_field_name("destination")[1:]
    return [word for node in others if not _is_descriptor(node) for word in words_of(node, scope)]


def _body(body: Node | None, scope: ShellScope, around: Around, own: Around) -> str | None:
    """`own`: what is redirected behind the body."""
    if body is not None and body.type == "pipeline":
        return _run_pipeline(body.named_children, scope, around, own)
    within = around._replace(
        redirects=around.redirects + own.redirects,
        stdin=around.stdin if own.stdin is None else own.stdin,
        words=own.words,
    )
    if body is None or body.type != "command":
        scope.add(Command("", redirects=within.redirects))
        reads = any(redirect.operator == "<" for redirect in within.redirects)
        within = within._replace(redirects=(), words=())
        if body is None:
            return None if reads else ""
    return run(body, scope, within)


def _run_after_here_document(node: Node, scope: ShellScope, output: str | None) -> str | None:
    """What follows `<<EOF` on its line: the rest of a pipeline, or further statements."""
    fed = tuple(scope.commands[-1:])
    for child in node.named_children:
        if child.type == "pipeline":
            output = _run_pipeline(
                child.named_children, scope, Around(reads_pipe=True, stdin=output, fed_by=fed)
            )
        elif child.type in ("command", "list", "redirected_statement", "subshell"):
            output = run(child, scope)
    return output


def _substitution(node: Node, scope: ShellScope, _around: Around) -> str | None:
    with scope.deeper() as within:
        return _each(node.named_children, scope, ALONE) if within else None


def _function(node: Node, scope: ShellScope, _around: Around) -> str:
    name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
    if name is not None and body is not None:
        called = raw(name)
        scope.functions[called] = body
        if "".join(raw(body).split()).startswith(f"{{{called}|{called}"):
            scope.add(Command(FORK_BOMB))
    return ""


def _file_alone(node: Node, scope: ShellScope, _around: Around) -> str | None:
    """`$(<file)` gives what is in the file, and `$(>file)` empties it."""
    redirect = redirect_of(node, scope)
    scope.add(Command("", redirects=(redirect,)))
    return scope.files.get(posixpath.normpath(redirect.target)) if redirect.operator == "<" else ""


def _assignment(node: Node, scope: ShellScope, _around: Around) -> str:
    if node.type == "variable_assignments":
        for child in node.named_children:
            _assignment(child, scope, ALONE)
    else:
        scope.add(Command("", assigned=(assign(node, scope),)))
    return ""


def _declaration(node: Node, scope: ShellScope, _around: Around) -> str:
    scope.add(read_declaration(node, scope))
    return ""


def _unset(node: Node, scope: ShellScope, _around: Around) -> str:
    scope.add(unset(node, scope))
    return ""


def _run_for(node: Node, scope: ShellScope, around: Around) -> str | None:
    for body in run_loop(node, scope):
        run(body, scope, around)
    return None


def _read_nothing(_node: Node, _scope: ShellScope, _around: Around) -> str:
    return ""


_HANDLERS = {
    "command": _command,
    "list": _list,
    "pipeline": _pipeline,
    "redirected_statement": _run_redirected,
    "command_substitution": _substitution,
    "process_substitution": _substitution,
    "file_redirect": _file_alone,
    "function_definition": _function,
    "variable_assignment": _assignment,
    "variable_assignments": _assignment,
    "declaration_command": _declaration,
    "unset_command": _unset,
    "for_statement": _run_for,
    "comment": _read_nothing,
}
