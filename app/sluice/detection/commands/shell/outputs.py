"""What harmless commands put out where their words tell it, and files that a text writes and then runs.

So a disguise is undone by hand: `echo cm0gLXJm | base64 -d | sh` runs what echo and base64 give; so do
printf, cat, rev, tr, xxd and the like; `printf 'rm -rf /srv' > x; sh x`, `psql -f x.sql` and `./x` run what
was written.
"""

from __future__ import annotations

import base64
import binascii
import posixpath
import re
from typing import TYPE_CHECKING, NamedTuple

from sluice.detection.commands.shell.expansions import ansi_c
from sluice.detection.commands.shell.interpreters import SHELLS, interpreter_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluice.detection.commands.shell.shell_reading import Redirect, ShellScope

MOST_OUTPUT = 8192
"""Characters of a known output that are followed further."""

_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/=_-]")
_NOT_HEX = re.compile(r"[^0-9A-Fa-f]")
_FORMAT = re.compile(r"%[-0-9.]*[sbdiqcx]")
_SUBSTITUTE = re.compile(r"s(.)(.*?)\1(.*?)\1g?$")


def compute_output(program: str, args: tuple[str, ...], stdin: str | None) -> str | None:
    """What the command writes to standard output; None where only running it would tell."""
    reader = _OUTPUTS.get(program)
    output = None if reader is None else reader(args, stdin)
    return output if output is None else output[:MOST_OUTPUT]


def _echo(args: tuple[str, ...], _stdin: str | None) -> str:
    index = 0
    while index < len(args) and re.fullmatch(r"-[neE]+", args[index]):
        index += 1
    text = " ".join(args[index:])
    return ansi_c(text) if any("e" in arg for arg in args[:index]) else text


def _printf(args: tuple[str, ...], _stdin: str | None) -> str:
    if not args:
        return ""
    form, values = ansi_c(args[0]), list(args[1:])
    if not values:
        return form
    width = max(1, len(_FORMAT.findall(form)))
    rounds = min(-(-len(values) // width), MOST_OUTPUT // max(1, len(form)) + 1)
    remaining = iter(values)
    return _FORMAT.sub(lambda _match: ansi_c(next(remaining, "")), form * rounds)


def pipe_through(args: tuple[str, ...], stdin: str | None) -> str | None:
    return stdin if all(arg[:1] == "-" for arg in args) else None


def _tee(_args: tuple[str, ...], stdin: str | None) -> str | None:
    return stdin


def _base64(args: tuple[str, ...], stdin: str | None) -> str | None:
    if stdin is None:
        return None
    if not {"-d", "-D", "--decode", "-di", "-id"}.intersection(args):
        return base64.b64encode(stdin.encode()).decode()
    return _decode_base64(_NOT_BASE64.sub("", stdin))


def _decode_base64(text: str) -> str | None:
    text = text.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4)).decode("utf-8", "replace")
    except binascii.Error:
        return None


def _base32(args: tuple[str, ...], stdin: str | None) -> str | None:
    if stdin is None or not any(arg.startswith(("-d", "--d")) for arg in args):
        return None
    try:
        return base64.b32decode(stdin.strip()).decode("utf-8", "replace")
    except binascii.Error:
        return None


def _openssl(args: tuple[str, ...], stdin: str | None) -> str | None:
    if stdin is None or not {"base64", "-base64", "-a"}.intersection(args) or "-d" not in args:
        return None
    return _decode_base64(_NOT_BASE64.sub("", stdin))


def _xxd(args: tuple[str, ...], stdin: str | None) -> str | None:
    if stdin is None or not any(arg[:1] == "-" and "r" in arg for arg in args):
        return None
    digits = _NOT_HEX.sub("", stdin)
    return bytes.fromhex(digits[: len(digits) // 2 * 2]).decode("utf-8", "replace")


def _rev(_args: tuple[str, ...], stdin: str | None) -> str | None:
    return None if stdin is None else "\n".join(line[::-1] for line in stdin.split("\n"))


def _tr(args: tuple[str, ...], stdin: str | None) -> str | None:
    options = "".join(
        arg.lstrip("-")[:1] if arg.startswith("--") else arg[1:] for arg in args if _is_option(arg)
    )
    sets = [_set_of(arg) for arg in args if not _is_option(arg)]
    if stdin is None or not sets or not set(options) <= set("dscC"):
        return None
    source = sets[0]
    if {"c", "C"} & set(options):
        source = "".join(sorted(set(stdin) - set(source)))
    output = stdin
    if "d" in options:
        output = "".join(character for character in stdin if character not in source)
    elif len(sets) > 1 and sets[1]:
        target = sets[1]
        last = len(target) - 1
        complement = {"c", "C"} & set(options)
        output = stdin.translate(
            {
                ord(character): target[last if complement else min(at, last)]
                for at, character in enumerate(source)
            }
        )
    return _squeeze(output, sets[-1] if len(sets) > 1 else source) if "s" in options else output


def _is_option(arg: str) -> bool:
    return len(arg) > 1 and arg.startswith("-")


def _squeeze(text: str, letters: str) -> str:
    return "".join(
        character
        for before, character in zip(" " + text, text, strict=False)
        if character != before or character not in letters
    )


def _set_of(text: str) -> str:
    def span(match: re.Match[str]) -> str:
        first, last = ord(match[1]), ord(match[2])
        return "".join(map(chr, range(first, min(last, first + 255) + 1)))

    return re.sub(r"(.)-(.)", span, ansi_c(text), flags=re.DOTALL)


def _sed(args: tuple[str, ...], stdin: str | None) -> str | None:
    scripts = [arg for arg in args if arg[:1] != "-"]
    match = _SUBSTITUTE.match(scripts[0]) if scripts else None
    if stdin is None or match is None or re.escape(match[2]) != match[2]:
        return None
    return stdin.replace(match[2], match[3])


def _which(args: tuple[str, ...], _stdin: str | None) -> str | None:
    """Where a program lies: `$(which rm)` runs it."""
    names = [arg for arg in args if arg[:1] != "-"]
    return f"/usr/bin/{names[-1]}" if len(names) == 1 else None


def _command(args: tuple[str, ...], stdin: str | None) -> str | None:
    return _which(args[1:], stdin) if args[:1] in (("-v",), ("-V",)) else None


_OUTPUTS: dict[str, Callable[[tuple[str, ...], str | None], str | None]] = {
    "echo": _echo,
    "printf": _printf,
    "cat": pipe_through,
    "tee": _tee,
    "tac": pipe_through,
    "base64": _base64,
    "gbase64": _base64,
    "base32": _base32,
    "openssl": _openssl,
    "xxd": _xxd,
    "rev": _rev,
    "tr": _tr,
    "sed": _sed,
    "which": _which,
    "command": _command,
    "type": _which,
}


MOST_FILES = 16
"""The most files that one text's writing is remembered of."""
_FILE_FLAGS = frozenset(["-f", "--file", "-i", "--input-file", "-input"])
_SOURCES = frozenset(["source", "."])


class Script(NamedTuple):
    """A known file that a command runs, and its language."""

    text: str
    language: str


def note_written(
    program: str,
    args: tuple[str, ...],
    redirects: tuple[Redirect, ...],
    output: str | None,
    scope: ShellScope,
) -> None:
    """Remembers what the command writes, where the text tells it."""
    if output is None:
        return
    paths = [
        (redirect.target, ">>" in redirect.operator) for redirect in redirects if ">" in redirect.operator
    ]
    if program == "tee":
        paths += [(arg, "-a" in args) for arg in args if arg[:1] != "-"]
    for path, appended in paths:
        name = posixpath.normpath(path)
        if len(scope.files) < MOST_FILES:
            before = scope.files.get(name, "") if appended else ""
            scope.files[name] = f"{before}\n{output}" if before else output


def script_of(
    path: str, program: str, args: tuple[str, ...], redirects: tuple[Redirect, ...], scope: ShellScope
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
    fed = next((redirect.target for redirect in redirects if redirect.operator == "<"), "")
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
