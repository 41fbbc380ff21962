"""Attributes of modules, paths and what is known by a name."""

from __future__ import annotations

import posixpath
import stat

from app.core.gate1.python.names import dotted
from app.core.gate1.python.values import PATH, Value, known, word
from app.core.gate1.shell import Command

_SYS = {
    "sys.executable": "python3",
    "os.sep": "/",
    "os.linesep": "\n",
    "os.curdir": ".",
    "os.devnull": "/dev/null",
}


def attribute(base: Value, name: str) -> Value:
    """What is known of an attribute."""
    if base.name == PATH:
        return _path_attribute(base, name)
    whole = dotted(base.name, name)
    if whole in _SYS:
        return Value(_SYS[whole])
    if base.name == "stat" and isinstance(getattr(stat, name, None), int):
        return Value(str(getattr(stat, name)), "int")
    if base.name == "signal" and name.startswith("SIG"):
        return Value(name)
    if whole == "os.environ":
        return Value(None, whole, feeds=(Command("env"),))
    return Value(None, whole, feeds=base.feeds, every=base.every)


def _path_attribute(base: Value, name: str) -> Value:
    if name == "parent":
        text = posixpath.dirname(word(base)) or "."
        return base._replace(text=text)
    if name in {"name", "stem", "path"}:
        return known(posixpath.basename(word(base)) if name != "path" else word(base), base)
    return Value(None, f"{PATH}.{name}", feeds=base.feeds, every=base.every)
