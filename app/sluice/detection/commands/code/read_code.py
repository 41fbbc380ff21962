"""From code to the commands that its calls stand for, in one pass over its tokens."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from sluice.detection.commands.code.code_calls import Calls
from sluice.detection.commands.code.code_values import (
    MOST_TOKENS,
    UNKNOWN,
    CodeValue,
    Node,
    Token,
    is_sign,
    options_of,
    put_together,
    split,
    tokens,
)
from sluice.detection.commands.code.libraries import CodeCall, is_spoken, may_do_something

if TYPE_CHECKING:
    from sluice.detection.commands.shell.shell_reading import Command

DEEPEST = 64
"""Brackets within brackets; what is deeper is read as if they were not there."""
LANGUAGES = frozenset(["javascript", "ruby", "php", "perl", "groovy", "lua", "r", "julia"])
"""Those of them that an interpreter's command line may hold."""
_OF_PYTHON = re.compile(
    r"^\s*(?:import\s+\w|from\s+[\w.]+\s+import\s|(?:def|class|for|with|if|try|while)\b.*:\s*(?:#.*)?$)"
    r"|\bprint\(",
    re.MULTILINE,
)
"""Other languages' calls parse as Python's too: `rimraf("/srv")`. With one of these it is Python."""
_ASSIGNS = frozenset(["=", ":="])


class CodeReading(NamedTuple):
    """`commands`: what calls do to files; `lines`: texts that a shell or a program's start runs."""

    commands: tuple[Command, ...]
    lines: tuple[str, ...]
    scripts: tuple[str, ...]
    """What the code writes to a file and then runs."""
    all_read: bool = True


NOTHING = CodeReading((), (), ())


class _Frame:
    """What stands between two brackets so far; `start`: where the current statement begins."""

    __slots__ = ("nodes", "opened", "start")

    def __init__(self, opened: str) -> None:
        self.opened = opened
        self.nodes: list[Node] = []
        self.start = 0


def read_code(text: str, *, is_python: bool = False) -> CodeReading:
    """The calls of a text. `is_python`: Python's grammar takes it; if it is Python, its calls are known."""
    if not may_do_something(text):
        return NOTHING
    reader = _Reader(Calls(text, also_python=is_python and _OF_PYTHON.search(text) is not None))
    count = 0
    for token in tokens(text):
        count += 1
        if count > MOST_TOKENS:
            break
        reader.take(token)
    return reader.finish()._replace(all_read=count <= MOST_TOKENS)


class _Reader:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._variables: dict[str, CodeValue] = {}
        self._frames = [_Frame("")]

    def take(self, token: Token) -> None:
        frame = self._frames[-1]
        if token.kind == "open" and len(self._frames) < DEEPEST:
            self._frames.append(_Frame(token.text))
        elif token.kind == "close" and len(self._frames) > 1:
            self._close(token.text)
        elif token.kind == "end" and frame.opened in ("", "{"):
            self._end_statement(frame)
            frame.start = len(frame.nodes)
        elif token.kind == "template":
            frame.nodes.append(token)
            self._templated(frame)
        else:
            frame.nodes.append(token)

    def finish(self) -> CodeReading:
        while len(self._frames) > 1:
            self._close("")
        self._end_statement(self._frames[0])
        return CodeReading(*self._calls.found())

    def _close(self, _bracket: str) -> None:
        frame = self._frames.pop()
        if frame.opened == "{":
            self._end_statement(frame)
        outer = self._frames[-1]
        self._imported(frame.nodes)
        parts = split(frame.nodes, self._variables)
        if frame.opened == "(":
            callee = _callee(outer.nodes)
            if callee is not None:
                base = self._base(outer, callee.text)
                outer.nodes.append(self._called(callee.text, base, parts))
            else:
                outer.nodes.append(parts[0] if len(parts) == 1 else CodeValue(items=tuple(parts)))
        elif frame.opened == "[":
            callee = _callee(outer.nodes)
            if callee is not None and callee.text == "Dir":
                del outer.nodes[-1]
                outer.nodes.append(self._called("Dir.glob", UNKNOWN, parts))
            elif callee is None or callee.text.rpartition(".")[2] in _BEFORE_LIST:
                value = CodeValue(items=tuple(parts), options=options_of(parts))
                if callee is not None and callee.text in ("of", "in"):
                    self._calls.iterated(value)
                outer.nodes.append(value)
            elif len(parts) == 1 and parts[0].text is not None and parts[0].text.isidentifier():
                outer.nodes[-1] = Token("name", f"{callee.text}.{parts[0].text}")
        else:
            self._braced(outer, parts)

    def _base(self, outer: _Frame, name: str) -> CodeValue:
        """Takes the name, and the value before `.name`, off what stands before a call."""
        del outer.nodes[-1]
        node = outer.nodes[-1] if name[:1] == "." and outer.nodes else None
        if isinstance(node, Token) and node.kind not in ("string", "template"):
            return UNKNOWN
        if node is None:
            first = name.partition(".")[0].lstrip("$@")
            return self._variables.get(first, UNKNOWN) if "." in name[1:] else UNKNOWN
        del outer.nodes[-1]
        return put_together([node], self._variables)

    def _braced(self, outer: _Frame, parts: list[CodeValue]) -> None:
        """An object or list in braces; a block of statements is nothing more."""
        options = options_of(parts)
        listed = tuple(part for part in parts if part.text is not None)
        if options or (listed and len(listed) == len(parts)):
            outer.nodes.append(CodeValue(items=listed or None, options=options))

    def _called(self, name: str, base: CodeValue, args: list[CodeValue]) -> CodeValue:
        return self._calls.call(CodeCall(self._calls.resolved(name), base, tuple(args)))

    def _imported(self, nodes: list[Node]) -> None:
        """`import { rmSync as r }`."""
        for place in range(1, len(nodes) - 1):
            before, word, after = nodes[place - 1 : place + 2]
            if not (isinstance(word, Token) and word.text == "as"):
                continue
            if isinstance(before, Token) and isinstance(after, Token):
                self._calls.alias(after.text, CodeValue(name=before.text))

    def _templated(self, frame: _Frame) -> None:
        """``$`rm -rf /srv` ``: a template right behind a name is a call with it."""
        if len(frame.nodes) > 1 and isinstance(frame.nodes[-2], Token) and frame.nodes[-2].kind == "name":
            template = put_together(frame.nodes[-1:], self._variables)
            name = frame.nodes[-2].text
            del frame.nodes[-2:]
            frame.nodes.append(self._called(f"{name}`", UNKNOWN, [template]))
        else:
            self._calls.template(put_together(frame.nodes[-1:], self._variables))

    def _end_statement(self, frame: _Frame) -> None:
        nodes = frame.nodes[frame.start :]
        while nodes and isinstance(nodes[0], Token) and nodes[0].text in _BEFORE_STATEMENT:
            del nodes[0]
        if len(nodes) > 1 and _is_bare_call(nodes):
            name = nodes[0]
            args = split(nodes[1:], self._variables)
            self._called(name.text if isinstance(name, Token) else "", UNKNOWN, args)
        for place, node in enumerate(nodes[:-1]):
            if place > 0 and is_sign(node, _ASSIGNS):
                last = nodes[-1]
                value = put_together(nodes[place + 1 :], self._variables)
                if isinstance(last, Token) and last.kind == "name" and value.text is None:
                    value = CodeValue(name=last.text.lstrip("."))
                self._assign(nodes[place - 1], value)
                return

    def _assign(self, target: Node, value: CodeValue) -> None:
        if isinstance(target, Token) and target.kind == "name":
            name = target.text.lstrip("$@%&.")
            self._variables[name] = value
            self._calls.alias(name, value)
        elif isinstance(target, CodeValue):
            for given, own in target.options:
                self._calls.alias(own.name or given, CodeValue(name=given))


_BEFORE_LIST = frozenset(
    ["in", "of", "return", "new", "array", "Array", "String", "string", "byte", "await", "and"]
)
_BEFORE_STATEMENT = frozenset(
    [
        "const",
        "let",
        "var",
        "my",
        "our",
        "val",
        "final",
        "await",
        "return",
        "then",
        "do",
        "export",
        "if",
        "unless",
    ]
)


def _callee(nodes: list[Node]) -> Token | None:
    node = nodes[-1] if nodes else None
    return node if isinstance(node, Token) and node.kind == "name" and node.text not in _KEYWORDS else None


_KEYWORDS = frozenset(
    ["if", "for", "while", "switch", "catch", "foreach", "elsif", "elseif", "until", "and", "or", "in"]
)


def _is_bare_call(nodes: list[Node]) -> bool:
    """`system "rm -rf /srv"`, `FileUtils.rm_rf Dir.glob("/srv/*")`: calls without parentheses."""
    first, second = nodes[0], nodes[1]
    if not (isinstance(first, Token) and first.kind == "name" and is_spoken(first.text)):
        return False
    return isinstance(second, CodeValue) or second.kind in ("string", "name", "template")
