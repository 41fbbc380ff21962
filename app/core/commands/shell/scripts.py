"""Files that a text writes and then runs: `printf 'rm -rf /srv' > x; sh x`, `psql -f x.sql`, `./x`."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, NamedTuple

from app.core.commands.shell.interpreters import SHELLS, interpreter_of

if TYPE_CHECKING:
    from app.core.commands.shell.reading import Redirect
    from app.core.commands.shell.scope import Scope

MOST_FILES = 16
"""The most files that one text's writing is remembered of."""
_FILE_FLAGS = frozenset(["-f", "--file", "-i", "--input-file", "-input"])
_SOURCES = frozenset(["source", "."])


class Script(NamedTuple):
    """A known file that a command runs, and its language."""

    text: str
    language: str


def note_written(
    program: str, args: tuple[str, ...], redirects: tuple[Redirect, ...], output: str | None, scope: Scope
) -> None:
    """Remembers what the command writes, where the text tells it."""
    if output is None:
        return
    paths = [(one.target, ">>" in one.operator) for one in redirects if ">" in one.operator]
    if program == "tee":
        paths += [(arg, "-a" in args) for arg in args if arg[:1] != "-"]
    for path, appended in paths:
        name = posixpath.normpath(path)
        if len(scope.files) < MOST_FILES:
            before = scope.files.get(name, "") if appended else ""
            scope.files[name] = f"{before}\n{output}" if before else output


def script_of(
    path: str, program: str, args: tuple[str, ...], redirects: tuple[Redirect, ...], scope: Scope
) -> Script | None:
    """The file that a command runs, if the text wrote it before; each is run once."""
    if not scope.files:
        return None
    name, language = _run_by(path, program, args, redirects)
    text = scope.files.pop(posixpath.normpath(name), None) if name else None
    if text is None:
        return None
    first = text.split("\n", 1)[0]
    if language == "shell" and first.startswith("#!"):
        called = interpreter_of(posixpath.basename(first.split()[-1]))
        language = called.language if called is not None else language
    return Script(text, language)


def _run_by(
    path: str, program: str, args: tuple[str, ...], redirects: tuple[Redirect, ...]
) -> tuple[str, str]:
    if "/" in path and path[:1] in "./~":
        interpreter = interpreter_of(program)
        if interpreter is None and program not in SHELLS:
            return path, "shell"
    named = next((arg for arg in args if arg[:1] != "-"), "")
    fed = next((one.target for one in redirects if one.operator == "<"), "")
    if program in SHELLS or program in _SOURCES:
        return named or fed, "shell"
    interpreter = interpreter_of(program)
    if interpreter is None:
        return "", ""
    if interpreter.language == "sql":
        flagged = (args[at + 1] for at, arg in enumerate(args[:-1]) if arg in _FILE_FLAGS)
        joined = (arg.partition("=")[2] for arg in args if arg.startswith("--file="))
        return next(iter((*flagged, *joined, fed))), "sql"
    return named or fed, interpreter.language
