"""Calls that make texts, paths, modules and attributes out of others."""

from __future__ import annotations

import posixpath
import sys
from typing import TYPE_CHECKING

from sluice.detection.commands.python import strings
from sluice.detection.commands.python.values import (
    HOLE,
    PATH,
    UNKNOWN,
    PythonValue,
    canonical,
    join,
    member,
    word,
)
from sluice.detection.commands.shell import Command

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluice.detection.commands.python.call import PythonCall

MOST_CODES = 2000


def _decode(call: PythonCall) -> PythonValue:
    """A decoder: what it gives, or something whose source is a decoder."""
    value, codec = call.arg(0), call.arg(1, "encoding")
    if value.text is not None and HOLE not in value.text:
        text = strings.decode(call.name, value.text, codec.text or "")
        if text is not None:
            return join(text, value)
    return PythonValue(feeds=(Command("decode"), *value.feeds))


def _join_path(call: PythonCall) -> PythonValue:
    parts = [*((call.base,) if call.base.name == PATH else ()), *call.args]
    text = posixpath.join(*map(word, parts)) if parts else "."
    return join(text, *parts, name="" if call.name == "os.path.join" else PATH)


def call_of_text(call: PythonCall) -> PythonValue | None:
    """A method of a text, None where the text has none of that name."""
    text, value = call.base.text or "", call.arg(0)
    if call.method == "join":
        parts = value.items or (value,)
        return join(text.join(map(word, parts)) if value.items or not text else None, *parts)
    if call.method == "format":
        for index, arg in enumerate(call.args):
            text = text.replace("{}", word(arg), 1).replace("{" + str(index) + "}", word(arg))
        for name, python_value in call.keywords.items():
            text = text.replace("{" + name + "}", word(python_value))
        return join(text, call.base, *call.args, *call.keywords.values())
    if call.method == "split" and HOLE not in text:
        return PythonValue(items=tuple(PythonValue(part) for part in text.split(value.text or None)[:64]))
    made = strings.method(call.method, text, tuple(argument.text for argument in call.args))
    return None if made is None else join(made, call.base, *call.args)


def call_of_members(call: PythonCall) -> PythonValue:
    """`dictionary.values()`, `.items()`, `.get(key)`."""
    base = call.base
    if call.method == "get":
        return member(base, call.arg(0).text or "")
    pairs = zip(map(PythonValue, base.keys), base.items or (), strict=False)
    items = base.items if call.method == "values" else tuple(PythonValue(items=pair) for pair in pairs)
    return PythonValue(items=items, feeds=base.feeds)


def _character(call: PythonCall) -> PythonValue:
    value = call.arg(0)
    code = int(value.text or -1) if value.name == "int" else -1
    return PythonValue(chr(code)) if 0 <= code <= sys.maxunicode else UNKNOWN


def _bytes(call: PythonCall) -> PythonValue:
    value = call.arg(0)
    items = (value.items or ())[:MOST_CODES]
    codes = [int(python_value.text or -1) for python_value in items if python_value.name == "int"]
    if not items or len(codes) < len(items) or not all(0 <= code < 256 for code in codes):  # noqa: PLR2004 - a byte
        return value._replace(name="")
    return PythonValue("".join(map(chr, codes)))


def _attribute_of(call: PythonCall) -> PythonValue:
    base, name = call.arg(0), call.arg(1).text
    return PythonValue(None, canonical(f"{base.name}.{name}")) if name and base.name else UNKNOWN


def _pass_through(call: PythonCall) -> PythonValue:
    return call.arg(0)._replace(name="")


def _path_function(call: PythonCall) -> PythonValue:
    value = call.arg(0)
    return join(None if value.text is None else strings.path_function(call.name, value.text), *call.args)


def _variable(call: PythonCall) -> PythonValue:
    return PythonValue(f"${{{call.arg(0, 'key').text or 'unknown'}}}")


TEXTS: dict[str, Callable[[PythonCall], PythonValue]] = {
    **dict.fromkeys(strings.OF_PATHS, _path_function),
    **dict.fromkeys(("str", "list", "tuple", "sorted", "set", "iter", "repr", "compile"), _pass_through),
    **dict.fromkeys(strings.DECODERS, _decode),
    **{f"{PATH}.{name}": _join_path for name in ("resolve", "expanduser", "absolute", "joinpath")},
    "os.path.join": _join_path,
    "pathlib.Path": _join_path,
    "pathlib.Path.home": lambda _: PythonValue("~", PATH),
    "pathlib.Path.cwd": lambda _: PythonValue(".", PATH),
    "os.getcwd": lambda _: PythonValue("."),
    "chr": _character,
    "bytes": _bytes,
    "bytearray": _bytes,
    "getattr": _attribute_of,
    "__import__": lambda call: PythonValue(None, canonical(word(call.arg(0, "name")))),
    "os.getenv": _variable,
    "os.environ.get": _variable,
    "globals": lambda _: PythonValue(None, "globals()"),
}
