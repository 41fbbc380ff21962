"""Where files are: listings of many, as a glob of all of them, and well-known directories."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from app.core.commands.python.values import PATH, UNKNOWN, Value, known, listing, word

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.core.commands.python.libraries.called import Called


def _glob(path: Value, name: str = "") -> Value:
    return known(path.text, path, name=name)._replace(every=True)


def globbed(call: Called) -> Value:
    """`glob.glob(pattern)`."""
    return listing(_glob(call.arg(0, "pathname")))


def walked(call: Called) -> Value:
    """`os.walk(top)`: the directory, its directories, its files."""
    top, names = call.arg(0, "top"), listing(Value("*", every=True))
    return listing(Value(items=(known(word(top), top), names, names), every=True))


def listed(_: Called) -> Value:
    """`os.listdir(path)`: names alone."""
    return listing(Value("*", every=True))


def scanned(call: Called) -> Value:
    """`os.scandir(path)`: entries that have a path."""
    top = call.arg(0, "path")
    return listing(known(posixpath.join(top.text or ".", "*"), top, name=PATH)._replace(every=True))


def path_listed(call: Called) -> Value:
    """`Path.glob(pattern)`, `rglob`, `iterdir`."""
    pattern = call.arg(0, "pattern").text or "*"
    return listing(known(posixpath.join(word(call.base), pattern), call.base, name=PATH)._replace(every=True))


def temporary(call: Called) -> Value:
    """A path below the temporary directory."""
    name = "open()" if "File" in call.name else ""
    items = (UNKNOWN, Value("/tmp/made")) if call.method == "mkstemp" else None  # noqa: S108 - a word of a command, no file
    return Value("/tmp/made", name, items, mode="w")  # noqa: S108 - as above


def home(_: Called) -> Value:
    """`Path.home()`."""
    return Value("~", PATH)


def here(_: Called) -> Value:
    """`os.getcwd()`."""
    return Value(".")


def path_here(_: Called) -> Value:
    """`Path.cwd()`."""
    return Value(".", PATH)


FUNCTIONS: dict[str, Callable[[Called], Value]] = {
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
