"""What a call does, as the command that it stands for, and what it returns."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from sluice.detection.commands.python.call_table import BY_NAME, ROWS, SHELLS, STATEMENTS
from sluice.detection.commands.python.text_calls import TEXTS, call_of_members, call_of_text
from sluice.detection.commands.python.values import (
    HOLE,
    PATH,
    UNKNOWN,
    PythonValue,
    flag,
    member,
    merge,
    word,
)
from sluice.detection.commands.shell import Command
from sluice.detection.commands.shell.shell_reading import Redirect

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluice.detection.commands.python.call import PythonCall
    from sluice.detection.commands.python.call_table import Row

MOST_WRITTEN = 2000
"""Characters of a text written to a file that are looked at."""
MOST_SHOWN = 200
"""Characters of an argument of a call that is judged by its name."""


def evaluate(call: PythonCall) -> PythonValue:
    """What the call returns; the commands that it stands for are found."""
    function = _FUNCTIONS.get(call.name)
    if function is None and call.base.text is not None and call.base.name in {"", "int"}:
        text = call_of_text(call)
        if text is not None:
            return text
    if function is None and call.base.keys and call.method in {"get", "items", "values"}:
        return call_of_members(call)
    function = function or (_call_sdk if _SDK.match(call.name) else _METHODS.get(call.method))
    if function is not None:
        return function(call)
    row = ROWS.get(call.name) or ROWS.get(call.method)
    return _translate(call, row) if row is not None else _say_by_name(call)


def _translate(call: PythonCall, row: Row) -> PythonValue:
    arguments = {name: call.arg(index, name) for index, name in enumerate(row.parameters)}
    words: list[str] = []
    for part in row.words[1:]:
        words += (
            [flag(arg) for arg in call.args] if part == "{every*}" else _words(part, arguments, call.base)
        )
    return call.result(call.run(row.words[0], *words, feeds=call.list_sources()))


_PARAMETER = re.compile(r"\{(\w+)\}")


def _words(part: str, arguments: dict[str, PythonValue], base: PythonValue) -> list[str]:
    values = {**arguments, "self": base}
    names = _PARAMETER.findall(part)
    if len(names) == 1 and values[names[0]].items:
        return [flag(item) for item in values[names[0]].items or ()]

    def fill(match: re.Match[str]) -> str:
        value = values[match[1]]
        is_mode = match[1] == "mode" and value.name == "int" and (value.text or "").isdigit()
        return f"{int(value.text or 0):03o}" if is_mode else flag(value)

    return [_PARAMETER.sub(fill, part)]


def _say_by_name(call: PythonCall) -> PythonValue:
    if "." in call.name and call.name.partition(".")[0].lower() in BY_NAME:
        words = [flag(arg)[:MOST_SHOWN] for arg in call.args]
        words += [f"--{name}={flag(value)[:MOST_SHOWN]}" for name, value in call.keywords.items()]
        call.run(call.name.lower(), *words, feeds=call.list_sources())
    elif call.method == "__subclasses__" and not call.name and not call.base.name:
        call.run("python.subclasses", "unnamed")
    return call.result()


def start(call: PythonCall) -> PythonValue:
    """`os.system(text)`, `subprocess.run([...])`: the text or the words as a shell's."""
    return _start(call, call.arg(0, "args", "command", "cmd", "argv"))


def _start(call: PythonCall, line: PythonValue) -> PythonValue:
    text = _line(line)
    if text is None:
        return call.result(*((call.run("sh", feeds=line.feeds),) if line.feeds else ()))
    piped = call.keywords.get("input", UNKNOWN)
    if piped.text is not None and not piped.feeds:
        text = f"{text} <<'END_OF_INPUT'\n{piped.text}\nEND_OF_INPUT\n"
    commands = call.findings.shell(text)
    environment = call.keywords.get("env", UNKNOWN)
    assigned = tuple((key, word(member(environment, key))) for key in environment.keys if key)
    if assigned:
        call.findings.command(Command("", assigned=assigned))
    streams = merge(call.keywords.get(name, UNKNOWN) for name in ("stdin", "stdout", "stderr"))
    feeds = (*piped.feeds, *(stream for stream in streams if stream.program == "nc"))
    for command in commands if feeds else ():
        call.run(command.program, *command.args, feeds=feeds)
    if call.name == "pty.spawn":
        call.run("pty.spawn", *(run.program for run in commands[:1]))
    return PythonValue(text, "subprocess.Popen()", feeds=commands[:3])


def _line(line: PythonValue) -> str | None:
    if line.items is not None and not line.keys:
        words = [word(item) for item in line.items]
        if not words or words[0] == HOLE:
            return None
        return " ".join(f'"{part}"' if HOLE in part else shlex.quote(part) for part in words)
    return None if line.text in {None, HOLE} else line.text


def _execute(call: PythonCall) -> PythonValue:
    """`os.execv(path, args)`, `os.spawnl(mode, path, *args)`."""
    args = call.args[1:] if "spawn" in call.method else call.args
    listed = next((arg.items for arg in args[1:] if arg.items is not None and not arg.keys), None)
    return _start(call, PythonValue(items=(*args[:1], *tuple(listed or args[1:])[1:])))


def _start_elsewhere(call: PythonCall) -> PythonValue:
    """`client.exec_command(text)`."""
    line = call.arg(0, "command")
    return _start(call, line) if line.text is not None or line.feeds else call.result()


def _communicate(call: PythonCall) -> PythonValue:
    """`process.communicate(text)`: the text goes to the program that was started."""
    if call.base.name == "subprocess.Popen()" and call.base.text is not None:
        _start(call._replace(keywords={"input": call.arg(0, "input")}), call.base)
    return call.result()


def _duplicate(call: PythonCall) -> PythonValue:
    """`os.dup2(fd, fd2)`: a standard stream of this process becomes a socket."""
    if any(feed.program == "nc" for feed in call.arg(0).feeds) and call.arg(1).text in {"0", "1", "2"}:
        call.run("sh", "-i", feeds=call.arg(0).feeds)
    return UNKNOWN


def _run_text(call: PythonCall) -> PythonValue:
    """`exec(text)`, `eval(text)`: read here and now where the text is known."""
    program = call.arg(0, "source")
    if program.text is not None and HOLE not in program.text:
        before = call.findings.started
        value = call.findings.inner(program.text)
        if call.name == "eval" and call.findings.started > before:
            call.run("python.eval")
        return value
    return call.result(call.run("python3", "-", feeds=program.feeds)) if program.feeds else UNKNOWN


def _open(call: PythonCall) -> PythonValue:
    """`open(path, mode)`: reading is `cat`, writing is `tee` onto the path."""
    return _read_open(call, call.arg(0, "file", "path"), word(call.arg(1, "mode")))


def _read_open(call: PythonCall, path: PythonValue, mode: str) -> PythonValue:
    if mode != HOLE and set("wax+") & set(mode):
        arrow = ">>" if "a" in mode else ">"
        if path.text is not None:
            _write(call, path, arrow, UNKNOWN)
        return PythonValue(path.text, f"open({arrow})", feeds=())
    return PythonValue(path.text, "open()", feeds=_read(call, path))


def _read(call: PythonCall, path: PythonValue) -> tuple[Command, ...]:
    return path.feeds if path.text in {None, HOLE} else (call.run("cat", word(path)),)


def _write(call: PythonCall, path: PythonValue, arrow: str, content: PythonValue) -> None:
    target = word(path)
    for feed in content.feeds:
        if feed.program in {"curl", "wget"}:
            call.run(feed.program, *feed.args, "-o", target)
    redirects = (Redirect(arrow, target),)
    tee = Command("tee", ("-a", target) if arrow == ">>" else (target,), redirects, path="tee")
    feeds = tuple(feed._replace(fed_by=()) for feed in content.feeds)
    call.findings.command(tee._replace(stdin=content.text, fed_by=feeds, reads_pipe=bool(feeds)))
    if content.text is not None:
        call.findings.command(Command("echo", (content.text[:MOST_WRITTEN],), redirects, path="echo"))


def _read_path(call: PythonCall) -> PythonValue:
    return PythonValue(feeds=_read(call, call.base))


def _write_path(call: PythonCall) -> PythonValue:
    _write(call, call.base, ">", call.arg(0, "data"))
    return UNKNOWN


def _write_file(call: PythonCall) -> PythonValue:
    """`file.write(text)`, `writelines`."""
    content = call.arg(0)
    if call.base.name.startswith("open(>") and call.base.text is not None:
        lines = content.items or ()
        text = "".join(map(word, lines)) if lines and content.text is None else content.text
        _write(call, call.base, call.base.name[5:-1], content._replace(text=text))
    return call.result() if not call.base.name.startswith("open(") else UNKNOWN


def _remove_tree(call: PythonCall) -> PythonValue:
    """`shutil.rmtree(path)`: of a plain directory below the working one without force, as nobody is asked."""
    path = call.arg(0, "path")
    text = word(path).removeprefix("./")
    is_plain = text[:1] not in {"/", "~", ".", "$"} or text.startswith(HOLE)
    call.run("rm", *(("-r",) if is_plain else ("-r", "-f")), word(path), feeds=path.feeds)
    return UNKNOWN


def _request(call: PythonCall) -> PythonValue:
    """`requests.post(url, data=...)`: `curl` with what it carries, files by their path."""
    named = call.method in {"request", "stream"}
    method = word(call.arg(0, "method")) if named else "GET" if call.method == "urlopen" else call.method
    url = call.arg(int(named), "url")
    carried = [
        *call.args[1 + named :],
        *(
            value
            for name, value in call.keywords.items()
            if name in {"data", "json", "files", "content", "body"}
        ),
    ]
    if call.method == "urlopen":
        method = "POST" if carried else url.keys[0] if url.keys else method
    feeds = merge([*carried, url])
    words = [] if method.upper() in {"GET", HOLE} else ["-X", method.upper()]
    words += [part for feed in feeds if feed.program == "cat" for part in ("-d", f"@{feed.args[-1]}")]
    text = next((value.text for value in carried if value.text), None)
    words += [] if text is None else ["-d", text[:MOST_SHOWN]]
    command = call.run("curl", *words, word(url), feeds=feeds)
    return PythonValue(None, "requests.Response()", feeds=(command._replace(args=(word(url),), fed_by=()),))


def _prepare_request(call: PythonCall) -> PythonValue:
    """`urllib.request.Request(url, data)`: sent later."""
    data, method = call.arg(1, "data"), call.arg(5, "method").text
    method = method or ("GET" if data == UNKNOWN else "POST")
    return PythonValue(word(call.arg(0, "url")), "urllib.request.Request()", keys=(method,), feeds=data.feeds)


_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


_SDK = re.compile(r"(?:boto3\.client\(\)|kubernetes\.client\.\w+\(\))\.\w+\Z")


def _call_sdk(call: PythonCall) -> PythonValue:
    """A method of an SDK's client, named like the command of the command line."""
    verb, _, thing = call.method.partition("_")
    if call.name.startswith("kubernetes."):
        everything = ("--all",) if thing.startswith("collection_") else ()
        thing = thing.removeprefix("collection_").removeprefix("namespaced_").replace("_", "")
        return call.result(call.run("kubectl", verb, thing, *map(word, call.args[:1]), *everything))
    words = [word(call.base), call.method.replace("_", "-")]
    for name, value in call.keywords.items():
        words += ["--" + _HUMPS.sub("-", name).lower(), *map(flag, value.items or (value,))]
    return call.result(call.run("aws", *words, feeds=call.list_sources()))


def _state(call: PythonCall) -> PythonValue:
    """A method that takes a statement: what begins one is read as SQL."""
    text = call.arg(0, "sql", "query", "statement", "operation").text
    if text is not None:
        call.findings.sql(text, "python")
    return call.result()


_REQUESTS = ("get", "post", "put", "patch", "delete", "request", "stream")
_EXECS = ("execl execle execlp execlpe execv execve execvp execvpe posix_spawn posix_spawnp spawnl spawnle"
          " spawnlp spawnlpe spawnv spawnve spawnvp spawnvpe")  # fmt: skip
_FUNCTIONS: dict[str, Callable[[PythonCall], PythonValue]] = {
    **TEXTS,
    **dict.fromkeys(SHELLS, start),
    **{f"os.{name}": _execute for name in _EXECS.split()},
    **{f"requests.{name}": _request for name in _REQUESTS},
    **dict.fromkeys((f"{PATH}.read_text", f"{PATH}.read_bytes"), _read_path),
    **dict.fromkeys((f"{PATH}.write_text", f"{PATH}.write_bytes"), _write_path),
    f"{PATH}.open": lambda call: _read_open(call, call.base, word(call.arg(0, "mode"))),
    "asyncio.create_subprocess_exec": lambda call: _start(call, PythonValue(items=tuple(call.args))),
    "urllib.request.urlopen": _request,
    "urllib.request.Request": _prepare_request,
    "os.dup2": _duplicate,
    "open": _open,
    "shutil.rmtree": _remove_tree,
    "exec": _run_text,
    "eval": _run_text,
    "socket.socket": lambda _: PythonValue(None, "socket.socket()", feeds=(Command("nc"),)),
    "boto3.client": lambda call: PythonValue(call.arg(0, "service_name").text, "boto3.client()"),
}
_METHODS: dict[str, Callable[[PythonCall], PythonValue]] = {
    **dict.fromkeys(STATEMENTS, _state),
    **dict.fromkeys(("write", "writelines"), _write_file),
    **dict.fromkeys(("read", "readline", "readlines"), lambda call: PythonValue(feeds=call.base.feeds)),
    "exec_command": _start_elsewhere,
    "communicate": _communicate,
}
