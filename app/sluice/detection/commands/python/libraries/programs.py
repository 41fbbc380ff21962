"""Programs that are started, processes that are ended."""

from __future__ import annotations

import posixpath
import shlex
from typing import TYPE_CHECKING

from sluice.detection.commands.python.python_values import HOLE, UNKNOWN, PythonValue, entry, flags, word
from sluice.detection.commands.shell import Command

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluice.detection.commands.python.libraries.called import Called

_STREAMS = ("stdin", "stdout", "stderr")
_SHELLS = frozenset(
    {"sh", "bash", "zsh", "dash", "ksh", "python", "python3", "perl", "ruby", "source", ".", "chmod"}
)
_NETWORK = frozenset({"nc"})
_FETCHED = frozenset({"curl", "wget", "nc"})


def shell(call: Called) -> PythonValue:
    """`os.system(text)`, `subprocess.run([...])`: the text or the words as a shell's."""
    line = call.arg(0, "args", "command", "cmd")
    _environment(call)
    return _started(call, line)


def _started(call: Called, line: PythonValue) -> PythonValue:
    text = _line(line)
    if text is None:
        if line.feeds:
            call.runs("sh", fed_by=line.feeds)
        return call.result()
    fed = _given(call)
    commands = call.walker.found.shell(_fed(text, call.arg(99, "input")))
    fed += tuple(
        one for name in _STREAMS for one in call.keywords.get(name, UNKNOWN).feeds if one.program in _NETWORK
    )
    for command in commands:
        if fed:
            call.runs(command.program, *command.args, fed_by=fed)
        _written_before(call, command)
    return PythonValue(text, "subprocess.Popen()", feeds=tuple(commands[:3]))


def _given(call: Called) -> tuple[Command, ...]:
    given = call.keywords.get("input", UNKNOWN)
    return given.feeds


def _fed(text: str, given: PythonValue) -> str:
    if given.text is None or given.feeds:
        return text
    return f"{text} <<'END_OF_INPUT'\n{given.text}\nEND_OF_INPUT\n"


def _line(line: PythonValue) -> str | None:
    if line.items is not None and not line.keys:
        words = [word(one) for one in line.items]
        if not words or words[0] == HOLE:
            return None
        return " ".join(f'"{one}"' if HOLE in one else shlex.quote(one) for one in words)
    return None if line.text in {None, HOLE} else line.text


def _environment(call: Called) -> None:
    given = call.keywords.get("env", UNKNOWN)
    assigned = tuple((key, word(entry(given, key))) for key in given.keys if key)
    if assigned:
        call.walker.found.command(Command("", assigned=assigned))


def _written_before(call: Called, command: Command) -> None:
    for path in (command.path, *(command.args if command.program in _SHELLS else ())):
        content = call.walker.files.get(posixpath.normpath(path)) if path else None
        if content is not None and command.program != "chmod":
            if any(feed.program in _FETCHED or feed.program == "decode" for feed in content.feeds):
                call.runs("sh", path, fed_by=content.feeds)
            elif content.text is not None and content.text != command.path:
                _script(call, path, content.text)


def _script(call: Called, path: str, text: str) -> None:
    del call.walker.files[posixpath.normpath(path)]
    if path.endswith(".py") or "python" in text[:40]:
        call.walker.inner(text)
    else:
        call.walker.found.shell(text)


def executed(call: Called) -> PythonValue:
    """`os.execv(path, args)`, `os.spawnl(mode, path, *args)`."""
    args = call.args[1:] if "spawn" in call.method else call.args
    if not args:
        return UNKNOWN
    listed = next((one.items for one in args[1:] if one.items is not None and not one.keys), None)
    rest = tuple(listed or args[1:])[1:]
    return _started(call, PythonValue(items=(args[0], *rest)))


def spawned(call: Called) -> PythonValue:
    """`pty.spawn(argv)`: a shell tied to whatever the streams were tied to."""
    argv = call.arg(0, "argv")
    result = _started(call, argv)
    program = word(argv.items[0]) if argv.items else word(argv)
    call.runs("pty.spawn", program.split("/")[-1].split(" ")[0])
    return result


def communicated(call: Called) -> PythonValue:
    """`process.communicate(input)`: the text goes to the program that was started."""
    given = call.arg(0, "input")
    if call.base.name == "subprocess.Popen()" and call.base.text is not None and given.text is not None:
        call.walker.found.shell(_fed(call.base.text, given))
    return call.result()


def duplicated(call: Called) -> PythonValue:
    """`os.dup2(fd, fd2)`: a standard stream of this process becomes a socket."""
    if any(feed.program in _NETWORK for feed in call.arg(0).feeds) and call.arg(1).text in {"0", "1", "2"}:
        call.runs("sh", "-i", fed_by=call.arg(0).feeds)
    return UNKNOWN


def remote(call: Called) -> PythonValue:
    """`client.exec_command(text)`, Fabric's and Invoke's `run` and `sudo`."""
    line = call.arg(0, "command")
    return _started(call, line) if line.text is not None or line.feeds else call.result()


def registry_key(call: Called) -> PythonValue:
    """`winreg.OpenKey(root, path)`."""
    return PythonValue(f"{flags(call.arg(0)).rpartition('.')[2]}\\{word(call.arg(1))}", "winreg.key()")


_SHELL_CALLS = ("os.system", "os.popen", "os.startfile", "subprocess.getoutput", "subprocess.getstatusoutput")
_RUNS = ("run", "call", "check_call", "check_output", "Popen")
_EXECS = (
    "execl",
    "execle",
    "execlp",
    "execlpe",
    "execv",
    "execve",
    "execvp",
    "execvpe",
    "posix_spawn",
    "posix_spawnp",
)
_SPAWNS = ("spawnl", "spawnle", "spawnlp", "spawnlpe", "spawnv", "spawnve", "spawnvp", "spawnvpe")
_OTHERS = (
    "asyncio.create_subprocess_shell",
    "pexpect.spawn",
    "pexpect.run",
    "invoke.run",
    "fabric.api.run",
    "plumbum.cmd",
)
FUNCTIONS: dict[str, Callable[[Called], PythonValue]] = {
    **dict.fromkeys((*_SHELL_CALLS, *(f"subprocess.{one}" for one in _RUNS), *_OTHERS), shell),
    **{f"os.{one}": executed for one in (*_EXECS, *_SPAWNS)},
    "asyncio.create_subprocess_exec": lambda call: _started(call, PythonValue(items=tuple(call.args))),
    "pty.spawn": spawned,
    "os.dup2": duplicated,
    **{f"winreg.{name}": registry_key for name in ("OpenKey", "OpenKeyEx", "CreateKey", "CreateKeyEx")},
}
METHODS: dict[str, Callable[[Called], PythonValue]] = {
    "exec_command": remote,
    "communicate": communicated,
}
