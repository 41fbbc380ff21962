"""Calls of standard libraries as the commands that they stand for."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from sluice.detection.commands.code.code_values import UNKNOWN, CodeValue, options_of
from sluice.detection.commands.code.libraries import (
    APPENDERS,
    COPIES,
    EACH,
    FILES,
    FILES_OF,
    HTTP,
    JAVASCRIPT,
    KNOWN,
    LISTINGS,
    MAYBE_TREES,
    NARROWING,
    OPENERS,
    PATHS,
    RECURSIVE,
    REFERENCE,
    SHELLS,
    TREES,
    WITH_PYTHON,
    WRITERS,
    WRITES_OF,
    CodeCall,
    joined,
    program_words,
    words_of_values,
)
from sluice.detection.commands.python.python_values import HOLE
from sluice.detection.commands.shell.shell_reading import Command, Redirect

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_FOUND = 32
"""Commands and lines that are taken from one piece of code."""


class Calls:
    """Notes what the calls of one text do."""

    def __init__(self, text: str, *, also_python: bool) -> None:
        self._text = text
        self._also_python = also_python
        self._aliases: dict[str, str] = {}
        self._commands: list[Command] = []
        self._lines: list[str] = []
        self._processes: list[list[str]] = []
        self._files: dict[str, str] = {}
        self._roots: list[str] = []
        self._iterated: list[CodeValue] = []
        self._left_open = False
        self._is_javascript = JAVASCRIPT.search(text) is not None
        self._removes_each = REFERENCE.search(text) is not None

    def alias(self, name: str, value: CodeValue) -> None:
        """`e = require("child_process").exec`: what a name calls."""
        if value.name and value.text is None:
            self._aliases[name] = value.name

    def resolved(self, name: str) -> str:
        """A call's name in lower case, by what it was imported as."""
        first, dot, rest = name.lstrip("$@%&").partition(".")
        known = self._aliases.get(first)
        if known is not None and known != first:
            name = f"{known}{dot}{rest}"
        return name.lower().lstrip("$@%&") if not name.startswith("$`") else name

    def template(self, value: CodeValue) -> None:
        """A text between backticks by itself, which Ruby, Perl and PHP run."""
        if value.text and not self._is_javascript:
            self._line(value.text)

    def iterated(self, items: CodeValue) -> None:
        """`["/a", "/b"].forEach(...)`: what a loop goes over, by its elements."""
        self._iterated += items.items or ()

    def found(self) -> tuple[tuple[Command, ...], tuple[str, ...], tuple[str, ...]]:
        """All commands, lines, and the scripts among the written files that a line runs."""
        if self._removes_each and self._roots and not NARROWING.search(self._text):
            for root in self._roots:
                self._commands.append(Command("rm", (*_force(root), root)))
        for one in self._iterated if self._left_open else ():
            self._remove(one, tree=True)
        for words in self._processes:
            self._line(joined(words))
        scripts = tuple(
            content
            for path, content in self._files.items()
            if any(path in line or posixpath.basename(path) in line for line in self._lines)
        )
        return tuple(self._commands[:MOST_FOUND]), tuple(dict.fromkeys(self._lines))[:MOST_FOUND], scripts

    def call(self, call: CodeCall) -> CodeValue:
        """What a call returns; what it does is noted."""
        if self._also_python and call.last in WITH_PYTHON:
            return CodeValue(name=f"{call.name}()")
        if call.last in EACH and call.base.items:
            self.iterated(call.base)
        for handler in _HANDLERS if call.last in KNOWN else ():
            value = handler(self, call)
            if value is not None:
                return value
        return CodeValue(call.base.text, call.base.items, name=f"{call.name}()", lists=call.base.lists)

    def path(self, call: CodeCall) -> CodeValue | None:
        """`path.join("/srv", x)`, `new File("/srv")`, `Paths.get("/srv")`: the text."""
        if not (call.name in PATHS or f"{call.owner}.{call.last}" in PATHS) or not call.args:
            return None
        parts = [one for one in call.args if not one.options]
        if call.last in ("join", "resolve", "combine", "get", "of") and len(parts) > 1:
            return CodeValue("/".join(HOLE if one.text is None else one.text for one in parts))
        return parts[0] if parts else None

    def listing(self, call: CodeCall) -> CodeValue | None:
        """`readdirSync("/srv")`: each of many files."""
        if call.last not in LISTINGS and call.name not in LISTINGS:
            return None
        root = next((one.text for one in (*call.args, call.base) if one.text), None)
        if root is not None:
            root = root.rstrip("*/") or "/"
            self._roots.append(root)
        return CodeValue(root, lists=True, name=f"{call.name}()")

    def removal(self, call: CodeCall) -> CodeValue | None:
        """What removes a tree or a file."""
        last, paths = call.last, _paths(call)
        if not paths and call.base.text is None and not call.args:
            return None
        if last in TREES or call.name in TREES or (last in MAYBE_TREES and _is_recursive(call)):
            for path in paths or [call.base]:
                self._remove(path, tree=True)
        elif last in FILES or call.owner in FILES_OF.get(last, ()):
            for path in paths or [call.base]:
                self._remove(path, tree=path.lists)
        else:
            return None
        return UNKNOWN

    def _remove(self, path: CodeValue, *, tree: bool) -> None:
        text = HOLE if path.text is None else path.text
        each = text == HOLE or text.endswith("/" + HOLE)
        if each and not tree and self._roots and not NARROWING.search(self._text):
            text, tree = self._roots[-1], True
        self._left_open = self._left_open or (tree and path.text is None and not path.items)
        if path.items:
            for one in path.items:
                self._remove(one, tree=tree)
        else:
            self._commands.append(Command("rm", (*(_force(text) if tree else ()), text)))

    def program(self, call: CodeCall) -> CodeValue | None:
        """What starts a program given as words, or hands a line to a shell."""
        first = call.args[0] if call.args else UNKNOWN
        if call.last in ("arg", "args") and call.base.name.startswith("process:"):
            words = self._processes[int(call.base.name.partition(":")[2])]
            words += words_of_values(call.args)
            return call.base
        started = program_words(call, first)
        if started is not None:
            self._processes.append(started)
            return CodeValue(name=f"process:{len(self._processes) - 1}")
        if call.last not in SHELLS and call.name not in SHELLS:
            return None
        text = first.text if first.text is not None else call.base.text
        if text is not None:
            self._line(text)
        return UNKNOWN

    def written(self, call: CodeCall) -> CodeValue | None:
        """What writes a file: as `tee` would."""
        known = call.last in WRITERS | APPENDERS
        of_another = call.last == "write" and call.owner not in WRITES_OF
        if not known or of_another or len(call.args) < 2:  # noqa: PLR2004 - path and content
            return self._opened(call)
        path, content = call.args[0], call.args[1]
        if path.text is not None:
            self._write(path.text, content.text, append=call.last in APPENDERS or _appends(call))
        return UNKNOWN

    def _opened(self, call: CodeCall) -> CodeValue | None:
        if call.last == "write" and call.base.name == "open()" and call.base.text is not None:
            self._write(call.base.text, call.args[0].text if call.args else None, append=False)
            return UNKNOWN
        if call.last not in OPENERS or not call.args or call.args[0].text is None:
            return None
        mode = call.args[1].text or "" if len(call.args) > 1 else ""
        writes = call.last not in ("fopen", "open", "openfile") or mode[:1] in ("w", "a")
        if not writes:
            return None
        self._write(call.args[0].text, None, append=mode[:1] == "a")
        return CodeValue(call.args[0].text, name="open()")

    def _write(self, path: str, content: str | None, *, append: bool) -> None:
        if content is not None:
            self._files[path] = content
        words = ("-a", path) if append else (path,)
        self._commands.append(
            Command("tee", words, (Redirect(">>" if append else ">", path),), stdin=content)
        )

    def copied(self, call: CodeCall) -> CodeValue | None:
        """`rename(a, b)`, `copyFile(a, b)`."""
        program = COPIES.get(call.last)
        paths = _paths(call)
        if program is None or len(paths) < 2:  # noqa: PLR2004 - from and to
            return None
        self._commands.append(
            Command(program, tuple(HOLE if one.text is None else one.text for one in paths))
        )
        return UNKNOWN

    def request(self, call: CodeCall) -> CodeValue | None:
        """`fetch(url, {method: "DELETE"})`, `axios.delete(url)`, `http.NewRequest("DELETE", url)`."""
        method = next((one.text for one in call.args if one.text in ("DELETE", "PURGE")), None)
        given = CodeValue(options=options_of(call.args)).option("method", "type", "verb")
        if given is not None:
            method = given.text
        deletes = HTTP.search(call.name) is not None or (method or "").upper() in ("DELETE", "PURGE")
        option = CodeValue(options=options_of(call.args)).option("url", "uri")
        url = next(
            (
                one.text
                for one in (*call.args, *((option,) if option else ()))
                if one.text and "//" in one.text
            ),
            None,
        )
        if not deletes or url is None:
            return None
        self._commands.append(Command("curl", ("-X", "DELETE", url)))
        return UNKNOWN

    def _line(self, text: str) -> None:
        if len(self._lines) < MOST_FOUND:
            self._lines.append(text)


_HANDLERS: tuple[Callable[[Calls, CodeCall], CodeValue | None], ...] = (
    Calls.path,
    Calls.removal,
    Calls.program,
    Calls.written,
    Calls.copied,
    Calls.request,
    Calls.listing,
)


def _paths(call: CodeCall) -> list[CodeValue]:
    """The arguments that are paths: not options, nor ShellJS's flags."""
    named = [CodeValue(options=options_of(call.args)).option("atpath", "at", "path", "paths", "target")]
    return [
        one
        for one in (*call.args, *filter(None, named))
        if (one.text is not None or one.items or one.lists or one.name)
        and not (one.options and one.text is None)
        and not (one.text or "").startswith("-")
        and one.text not in ("true", "false")
        and not one.name.startswith(("process:", "function"))
    ]


def _is_recursive(call: CodeCall) -> bool:
    if any(value.text == "true" for name, value in options_of(call.args) if name in RECURSIVE):
        return True
    texts = [one.text or "" for one in call.args]
    flagged = any(one[:1] == "-" and "r" in one.lower() for one in texts)
    return flagged or (call.owner in ("directory", "dir") and "true" in texts[1:])


def _force(path: str) -> tuple[str, ...]:
    """As Python's tree removal: of a plain directory below the working one without force."""
    text = path if HOLE in path or not path else posixpath.normpath(path)
    forced = text[:1] in ("/", "~", ".", "*") or text[1:3] in (":\\", ":/")
    return ("-r", "-f") if forced or (text[:1] == "$" and not text.startswith(HOLE)) else ("-r",)


def _appends(call: CodeCall) -> bool:
    return any((one.text or one.name) in ("a", "FILE_APPEND") for one in call.args[2:])
