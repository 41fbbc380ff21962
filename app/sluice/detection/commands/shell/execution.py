"""What running one command would run: functions, aliases, wrappers, interpreters, standard input."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from sluice.detection.commands.shell.each_input import (
    insert_inputs,
    list_found,
    list_found_commands,
    parallel_text,
)
from sluice.detection.commands.shell.interpreters import (
    SHELLS,
    Interpreter,
    base_name,
    codes,
    interpreter_of,
    reads_program_from_stdin,
    shell_code,
    windows_code,
)
from sluice.detection.commands.shell.outputs import compute_output, note_written, script_of
from sluice.detection.commands.shell.shell_reading import Command, Nested, Redirect
from sluice.detection.commands.shell.shell_words import UNKNOWN_OUTPUT
from sluice.detection.commands.shell.wrappers import Inner, unwrap_command

if TYPE_CHECKING:
    from sluice.detection.commands.shell.shell_reading import ShellScope


MOST_CODE_COMMANDS = 8
"""Commands taken from one piece of code."""

_CALLS = (
    r"(?:system|popen\w*|exec\w*|spawn\w*|Popen|run|call|check_call|check_output|getoutput|getstatusoutput"
    r"|shell_exec|passthru|proc_open|os\.execute|doShellScript|do shell script)"
)
_CALL = re.compile(
    _CALLS + r"\s*\(?\s*(?:[bru]*)(?:\"((?:[^\"\\]|\\.){2,2000})\"|'((?:[^'\\]|\\.){2,2000})')"
)
_LIST = re.compile(_CALLS + r"\s*\(\s*\[([^\]]{2,500})\]")
_PROGRAM_AND_LIST = re.compile(
    _CALLS + r"\s*\(\s*(?:\"([^\"]{1,200})\"|'([^']{1,200})')\s*,\s*\[([^\]]{1,500})\]"
)
_BACKTICKS = re.compile(r"(?:`|%x[({\[])([^`)}\]]{2,2000})(?:`|[)}\]])")
_STRING = re.compile(r"\"([^\"]*)\"|'([^']*)'")
_BACKTICK_LANGUAGES = frozenset({"ruby", "perl", "php"})


def commands_in_code(text: str, language: str = "") -> list[str]:
    """The shell texts that the code hands to a shell or starts as a program, at most MOST_CODE_COMMANDS."""
    programs = [_join_words(match[3], match[1] or match[2]) for match in _PROGRAM_AND_LIST.finditer(text)]
    programs += [_join_words(match[1]) for match in _LIST.finditer(text)]
    programs += [(match[1] or match[2]).replace("\\", "") for match in _CALL.finditer(text)]
    if language in _BACKTICK_LANGUAGES:
        programs += [match[1] for match in _BACKTICKS.finditer(text)]
    return programs[:MOST_CODE_COMMANDS]


def _join_words(items: str, program: str = "") -> str:
    words = [match[1] or match[2] or "" for match in _STRING.finditer(items)]
    return " ".join([program, *words] if program else words)


class Around(NamedTuple):
    """What surrounds a command: redirections, its standard input, who feeds it, variables set for it, and the
    words of it that stand behind a redirection (`rm -rf 2>log /srv`)."""

    redirects: tuple[Redirect, ...] = ()
    reads_pipe: bool = False
    stdin: str | None = None
    fed_by: tuple[Command, ...] = ()
    assigned: tuple[tuple[str, str], ...] = ()
    words: tuple[str, ...] = ()


ALONE = Around()
_SCHEDULE = re.compile(r"^\s*(?:@\w+|(?:[-*/,0-9a-zA-Z]+\s+){5})", re.MULTILINE)
"""The five fields, or the `@reboot`, in front of a crontab's command (crontab(5))."""


def execute(words: tuple[str, ...], scope: ShellScope, around: Around = ALONE) -> str | None:
    """Notes the command and all that it runs in turn; gives its output where the text tells it."""
    if scope.full():
        return None
    path, args = words[0], words[1:]
    if path in scope.functions:
        return _run_function(path, args, scope)
    if path in scope.aliases:
        return _run_alias(path, args, scope, around)
    program = base_name(path)
    scope.add(
        Command(
            program,
            args,
            around.redirects,
            around.reads_pipe,
            scope.via,
            path,
            around.assigned,
            around.stdin,
            around.fed_by,
        )
    )
    script = script_of(path, program, args, around.redirects, scope)
    if script is not None:
        _note(script.text, script.language, program, scope)
    special = _SPECIAL.get(program)
    handler = _run_within if special is None else special
    output = handler(program, args, scope, around)
    note_written(program, args, around.redirects, output, scope)
    return output


def _run_within(program: str, args: tuple[str, ...], scope: ShellScope, around: Around) -> str | None:
    inner = unwrap_command(program, args)
    if inner is not None:
        return _run_inside(program, inner, scope, around)
    interpreter = interpreter_of(program)
    if interpreter is not None:
        _interpret(program, interpreter, args, scope, around)
        return None
    return compute_output(program, args, around.stdin)


def _run_function(name: str, args: tuple[str, ...], scope: ShellScope) -> str | None:
    scope.called.add(name)
    bound = {str(index): arg for index, arg in enumerate(args, 1)} | {"@": " ".join(args)}
    before = {key: scope.variables.get(key) for key in bound}
    scope.variables.update(bound)
    try:
        with scope.deeper() as within:
            return scope.run(scope.functions[name], scope) if within else None
    finally:
        for key, value in before.items():
            if value is None:
                scope.variables.pop(key, None)
            else:
                scope.variables[key] = value


def _run_alias(name: str, args: tuple[str, ...], scope: ShellScope, around: Around) -> str | None:
    text = scope.aliases.pop(name)
    try:
        if not args and around == ALONE:
            return scope.read_nested(text, scope.via)
        return execute((*text.split(), *args) or (name,), scope, around)
    finally:
        scope.aliases[name] = text


def _run_inside(program: str, inner: Inner, scope: ShellScope, around: Around) -> str | None:
    via = (*scope.via, program)
    if inner.text is not None:
        return scope.read_nested(inner.text, via)
    words = inner.words
    if program == "xargs" and around.stdin is not None:
        words = insert_inputs(words, inner.replaced, around.stdin)
    before, scope.via = scope.via, via
    try:
        with scope.deeper() as within:
            return (
                execute(words, scope, around._replace(assigned=around.assigned + inner.assigned))
                if within
                else None
            )
    finally:
        scope.via = before


def _shell(program: str, args: tuple[str, ...], scope: ShellScope, around: Around) -> str | None:
    via = (*scope.via, program)
    code = shell_code(args)
    if code is not None:
        return scope.read_nested(code, via)
    if around.stdin is not None and reads_program_from_stdin(args):
        return scope.read_nested(around.stdin, via)
    return None


def _interpret(
    program: str, interpreter: Interpreter, args: tuple[str, ...], scope: ShellScope, around: Around
) -> None:
    for code in codes(interpreter, args):
        _note(code, interpreter.language, program, scope)
    if around.stdin is not None and interpreter.stdin:
        _note(around.stdin, interpreter.language, f"{program} <", scope)


def _note(code: str, language: str, how: str, scope: ShellScope) -> None:
    if language == "shell":
        scope.read_nested(code, (*scope.via, how))
        return
    scope.nested.append(Nested(code, language, how))
    if language == "sql":
        return
    for text in commands_in_code(code, language):
        scope.read_nested(text, (*scope.via, how.split(" ", 1)[0]))


def _eval(program: str, args: tuple[str, ...], scope: ShellScope, _around: Around) -> str | None:
    if args == (UNKNOWN_OUTPUT,):
        return None
    return scope.read_nested(" ".join(args), (*scope.via, program))


def _trap(program: str, args: tuple[str, ...], scope: ShellScope, _around: Around) -> str | None:
    return scope.read_nested(args[0], (*scope.via, program)) if len(args) > 1 and args[0][:1] != "-" else None


def _run_at(program: str, _args: tuple[str, ...], scope: ShellScope, around: Around) -> str | None:
    if around.stdin is None:
        return None
    return scope.read_nested(_SCHEDULE.sub("", around.stdin), (*scope.via, program))


def _find(program: str, args: tuple[str, ...], scope: ShellScope, _around: Around) -> str | None:
    before, scope.via = scope.via, (*scope.via, program)
    try:
        with scope.deeper() as within:
            for words in list_found_commands(args) if within else ():
                execute(words, scope)
    finally:
        scope.via = before
    return "\n".join(list_found(args))


def _parallel(program: str, args: tuple[str, ...], scope: ShellScope, around: Around) -> str | None:
    text = parallel_text(args, around.stdin)
    return None if text is None else scope.read_nested(text, (*scope.via, program))


def _alias(_program: str, args: tuple[str, ...], scope: ShellScope, _around: Around) -> None:
    for arg in args:
        name, equals, text = arg.partition("=")
        if equals:
            scope.aliases[name] = text


def _windows(program: str, args: tuple[str, ...], scope: ShellScope, around: Around) -> str | None:
    code = windows_code(program, args)
    if code is None:
        return _run_at(program, args, scope, around) if args[-1:] == ("-",) or not args else None
    if program != "cmd":
        scope.nested.append(Nested(code, "powershell", program))
    return scope.read_nested(code, (*scope.via, program))


_SPECIAL = {
    **dict.fromkeys(SHELLS, _shell),
    "eval": _eval,
    "source": _shell,
    ".": _shell,
    "trap": _trap,
    "at": _run_at,
    "batch": _run_at,
    "crontab": _run_at,
    "find": _find,
    "gfind": _find,
    "fd": _find,
    "fdfind": _find,
    "parallel": _parallel,
    "sem": _parallel,
    "alias": _alias,
    "cmd": _windows,
    "powershell": _windows,
    "pwsh": _windows,
}
