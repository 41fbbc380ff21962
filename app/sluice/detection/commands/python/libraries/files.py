"""Files: opened, read, written, removed, listed; a listing of many is a glob of all of them."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from sluice.detection.commands.python.libraries.called import EVERY, FETCHERS, Called
from sluice.detection.commands.python.python_values import (
    HOLE,
    PATH,
    UNKNOWN,
    PythonValue,
    flags,
    known,
    listing,
    word,
)
from sluice.detection.commands.shell import Command
from sluice.detection.commands.shell.shell_reading import Redirect

if TYPE_CHECKING:
    from collections.abc import Callable

_WRITING = frozenset("wax+")
ENCRYPTED = Command("encrypt")
"""Stands among the sources of what was encrypted."""
_PROGRAM = ENCRYPTED.program


def opened(call: Called) -> PythonValue:
    """`open(path, mode)`: reading is `cat`, writing is `tee` onto the path."""
    path, mode = call.arg(0, "file", "path"), call.arg(1, "mode").text or "r"
    return _opened(call, path, mode)


def _opened(call: Called, path: PythonValue, mode: str) -> PythonValue:
    if _WRITING & set(mode):
        if path.text is not None:
            _written(call, path, "a" if "a" in mode else "w", UNKNOWN)
        return PythonValue(path.text, "open()", every=path.every, mode="a" if "a" in mode else "w")
    return PythonValue(path.text, "open()", feeds=_read(call, path), every=path.every, mode="r")


def _read(call: Called, path: PythonValue) -> tuple[Command, ...]:
    if path.text in {None, HOLE}:
        return path.feeds
    return (call.runs("cat", call.path(path)),)


def _written(call: Called, path: PythonValue, mode: str, content: PythonValue) -> None:
    target, walker = call.path(path), call.walker
    if path.text is not None and HOLE not in path.text and content != UNKNOWN:
        walker.files[posixpath.normpath(path.text)] = content
    arrow = Redirect(">>" if mode == "a" else ">", target)
    via = (EVERY,) if path.every else ()
    for feed in content.feeds:
        if feed.program in FETCHERS:
            call.runs(feed.program, *feed.args, "-o", target)
        elif feed.program == _PROGRAM and path.every:
            walker.around.encrypts = True
    if any(feed.program == _PROGRAM for feed in content.feeds) and _in_place(path, content):
        call.runs("encrypt", target, via=via)
    words = ("-a", target) if mode == "a" else (target,)
    call.runs("tee", *words, redirects=(arrow,), stdin=content.text, fed_by=content.feeds, via=via)
    if content.text is not None:
        call.runs("echo", content.text[:2000], redirects=(arrow,), via=via)


def _in_place(path: PythonValue, content: PythonValue) -> bool:
    return path.every and any(feed.program == "cat" and word(path) in feed.args for feed in content.feeds)


def write(call: Called) -> PythonValue:
    """`file.write(text)`, `writelines`."""
    if call.base.name != "open()":
        return call.result()
    if call.base.text is not None and call.base.mode != "r":
        content = call.arg(0)
        _written(call, call.base, call.base.mode, content._replace(text=_content(content)))
    return UNKNOWN


def _content(value: PythonValue) -> str | None:
    return "".join(word(one) for one in value.items) if value.items and value.text is None else value.text


def dumped(call: Called) -> PythonValue:
    """`json.dump(value, file)` and its like."""
    if call.arg(1).name == "open()" and call.arg(1).text is not None:
        _written(call, call.arg(1), "w", call.arg(0)._replace(text=None))
    return UNKNOWN


def read(call: Called) -> PythonValue:
    """`file.read()`: what it holds."""
    return PythonValue(feeds=call.base.feeds, every=call.base.every)


def path_opened(call: Called) -> PythonValue:
    """`Path.open(mode)`."""
    return _opened(call, call.base, call.arg(0, "mode").text or "r")


def path_read(call: Called) -> PythonValue:
    """`Path.read_text()`."""
    return PythonValue(feeds=_read(call, call.base), every=call.base.every)


def path_written(call: Called) -> PythonValue:
    """`Path.write_text(text)`."""
    _written(call, call.base, "w", call.arg(0, "data"))
    return UNKNOWN


def removed(call: Called) -> PythonValue:
    """`os.remove(path)`: over every file of a listing it is a removal of the tree."""
    path = call.base if call.name.startswith(PATH) else call.arg(0, "path")
    around = call.walker.around
    if around.encrypts and path.every:
        call.runs("encrypt", call.path(path), via=(EVERY,))
    whole = path.every and not around.narrowed
    call.runs("rm", *(_force(path) if whole else ()), call.path(path), via=(EVERY,) if path.every else ())
    return UNKNOWN


def tree_removed(call: Called) -> PythonValue:
    """`shutil.rmtree(path)`: of a plain directory below the working one without force, as nobody is asked."""
    path = call.arg(0, "path")
    call.runs("rm", *_force(path), call.path(path), fed_by=path.feeds)
    return UNKNOWN


def _force(path: PythonValue) -> tuple[str, ...]:
    text = word(path).removeprefix("./")
    return (
        ("-r", "-f")
        if text[:1] in {"/", "~", "."} or (text[:1] == "$" and not text.startswith(HOLE))
        else ("-r",)
    )


def encrypted(call: Called) -> PythonValue:
    """`box.encrypt(data)`."""
    return call.result(ENCRYPTED)


def updated(call: Called) -> PythonValue:
    """`cipher.encryptor().update(data)`; of anything else, what it holds."""
    return encrypted(call) if call.base.name.endswith("encryptor()") else call.result()


def touched(call: Called) -> PythonValue:
    """`os.utime(path, times)`: a forged time only where one is given."""
    if len(call.args) > 1 and call.args[1].items is not None:
        call.runs("touch", "-d", flags(call.args[1]), call.path(call.args[0]))
    return UNKNOWN


def _glob(path: PythonValue, name: str = "") -> PythonValue:
    return known(path.text, path, name=name)._replace(every=True)


def globbed(call: Called) -> PythonValue:
    """`glob.glob(pattern)`."""
    return listing(_glob(call.arg(0, "pathname")))


def walked(call: Called) -> PythonValue:
    """`os.walk(top)`: the directory, its directories, its files."""
    top, names = call.arg(0, "top"), listing(PythonValue("*", every=True))
    return listing(PythonValue(items=(known(word(top), top), names, names), every=True))


def listed(_: Called) -> PythonValue:
    """`os.listdir(path)`: names alone."""
    return listing(PythonValue("*", every=True))


def scanned(call: Called) -> PythonValue:
    """`os.scandir(path)`: entries that have a path."""
    top = call.arg(0, "path")
    return listing(known(posixpath.join(top.text or ".", "*"), top, name=PATH)._replace(every=True))


def path_listed(call: Called) -> PythonValue:
    """`Path.glob(pattern)`, `rglob`, `iterdir`."""
    pattern = call.arg(0, "pattern").text or "*"
    return listing(known(posixpath.join(word(call.base), pattern), call.base, name=PATH)._replace(every=True))


def temporary(call: Called) -> PythonValue:
    """A path below the temporary directory."""
    name = "open()" if "File" in call.name else ""
    items = (UNKNOWN, PythonValue("/tmp/made")) if call.method == "mkstemp" else None  # noqa: S108 - a word of a command, no file
    return PythonValue("/tmp/made", name, items, mode="w")  # noqa: S108 - as above


def home(_: Called) -> PythonValue:
    """`Path.home()`."""
    return PythonValue("~", PATH)


def here(_: Called) -> PythonValue:
    """`os.getcwd()`."""
    return PythonValue(".")


def path_here(_: Called) -> PythonValue:
    """`Path.cwd()`."""
    return PythonValue(".", PATH)


FUNCTIONS: dict[str, Callable[[Called], PythonValue]] = {
    "open": opened,
    "os.remove": removed,
    "os.unlink": removed,
    "shutil.rmtree": tree_removed,
    "send2trash.send2trash": removed,
    "os.utime": touched,
    "json.dump": dumped,
    "pickle.dump": dumped,
    "yaml.dump": dumped,
    **{f"{PATH}.{name}": path_read for name in ("read_text", "read_bytes")},
    **{f"{PATH}.{name}": path_written for name in ("write_text", "write_bytes")},
    f"{PATH}.unlink": removed,
    f"{PATH}.open": path_opened,
    "glob.glob": globbed,
    "os.walk": walked,
    "os.fwalk": walked,
    "os.listdir": listed,
    "os.scandir": scanned,
    "os.getcwd": here,
    "pathlib.Path.home": home,
    "pathlib.Path.cwd": path_here,
    **{f"{PATH}.{name}": path_listed for name in ("glob", "rglob", "iterdir")},
    **{
        f"tempfile.{name}": temporary
        for name in ("mkdtemp", "mkstemp", "mktemp", "gettempdir", "TemporaryDirectory")
    },
    **{
        f"tempfile.{name}": temporary
        for name in ("NamedTemporaryFile", "TemporaryFile", "SpooledTemporaryFile")
    },
}
METHODS: dict[str, Callable[[Called], PythonValue]] = {
    "write": write,
    "writelines": write,
    "read": read,
    "readline": read,
    "readlines": read,
    "encrypt": encrypted,
    "encrypt_and_digest": encrypted,
    "update": updated,
}
