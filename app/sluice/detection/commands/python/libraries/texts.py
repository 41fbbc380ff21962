"""Functions that make texts, paths, modules and attributes out of others."""

from __future__ import annotations

import posixpath
import sys
from typing import TYPE_CHECKING

from sluice.detection.commands.python import strings
from sluice.detection.commands.python.python_values import (
    CANONICAL,
    HOLE,
    PATH,
    UNKNOWN,
    PythonValue,
    dotted,
    entry,
    known,
    listing,
    merged,
    word,
)
from sluice.detection.commands.shell import Command

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluice.detection.commands.python.libraries.called import Called

_MOST_CODES = 2000


def joined_path(call: Called) -> PythonValue:
    """`os.path.join(...)`."""
    return known(posixpath.join(*(word(one) for one in call.args)) if call.args else None, *call.args)


def made_path(call: Called) -> PythonValue:
    """`Path(...)`."""
    text = posixpath.join(*(word(one) for one in call.args)) if call.args else "."
    return known(text, *call.args, name=PATH)


def same_path(call: Called) -> PythonValue:
    """`path.resolve()`, `path.expanduser()`, `path.joinpath(...)`."""
    return known(
        posixpath.join(word(call.base), *(word(one) for one in call.args)), call.base, *call.args, name=PATH
    )


def renamed_path(call: Called) -> PythonValue:
    """`path.with_suffix(...)`, `path.with_name(...)`: another file in the same folder."""
    return known(posixpath.join(posixpath.dirname(word(call.base)), HOLE), call.base, name=PATH)


def same(call: Called) -> PythonValue:
    """`str(x)`, `list(x)`, `sorted(x)`: the same thing for what is asked here."""
    value = call.arg(0)
    return value._replace(name="" if value.name in {PATH, "int"} else value.name)


def function_of_text(call: Called) -> PythonValue:
    """A function over one path or quoted text."""
    value = call.arg(0)
    return known(None if value.text is None else strings.path_function(call.name, value.text), *call.args)


def decoded(call: Called) -> PythonValue:
    """A decoder: what it gives, or something whose source is a decoder."""
    value, codec = call.arg(0), call.arg(1, "encoding")
    plain = value.text is not None and HOLE not in value.text
    text = strings.decoded(call.name, value.text or "", codec.text or "") if plain else None
    if text is not None:
        return known(text, value)
    return PythonValue(feeds=(Command("decode"), *value.feeds))


def character(call: Called) -> PythonValue:
    """`chr(n)`."""
    value = call.arg(0)
    if value.name == "int" and value.text is not None and 0 <= int(value.text) <= sys.maxunicode:
        return PythonValue(chr(int(value.text)))
    return UNKNOWN


def characters(call: Called) -> PythonValue:
    """`bytes([...])`, or of a text itself."""
    value = call.arg(0)
    codes = [
        one.text for one in (value.items or ())[:_MOST_CODES] if one.name == "int" and one.text is not None
    ]
    if value.items and len(codes) == len(value.items):
        return PythonValue("".join(chr(int(code)) for code in codes if 0 <= int(code) < 256))  # noqa: PLR2004 - a byte
    return value._replace(name="")


def attribute_of(call: Called) -> PythonValue:
    """`getattr(module, "name")`."""
    base, name = call.arg(0), call.arg(1)
    return PythonValue(None, dotted(base.name, name.text)) if name.text is not None and base.name else UNKNOWN


def module(call: Called) -> PythonValue:
    """`__import__("name")`."""
    name = call.arg(0, "name").text or ""
    return PythonValue(None, CANONICAL.get(name, name))


def environment(call: Called) -> PythonValue:
    """`os.getenv(name)`, `os.environ.get(name)`: a variable of the shell."""
    return PythonValue(f"${{{call.arg(0, 'key').text or 'unknown'}}}")


def mapped(call: Called) -> PythonValue:
    """`map(function, items)`: the function is called with each."""
    items = call.arg(1).items or (PythonValue(feeds=call.arg(1).feeds),)
    return listing(*(call.walker.found_call(call.arg(0), [one]) for one in items[:_MOST_CODES]))


def counted(call: Called) -> PythonValue:
    """`enumerate(items)`: each with its number."""
    value = call.arg(0)
    return listing(*(PythonValue(items=(UNKNOWN, one), every=one.every) for one in value.items or (UNKNOWN,)))


def method(call: Called) -> PythonValue | None:
    """A method of a text, None where the text has none of that name."""
    text, name = call.base.text or "", call.method
    if name == "join":
        return _joined(call, text)
    if name == "format":
        return _formatted(call, text)
    if name in {"split", "splitlines", "rsplit"} and HOLE not in text:
        separator = call.arg(0, "sep").text
        return PythonValue(
            items=tuple(PythonValue(one) for one in text.split(separator or None)[:64]), feeds=call.base.feeds
        )
    made = strings.method(name, text, tuple(one.text for one in call.args))
    return None if made is None else known(made, call.base, *call.args)


def _joined(call: Called, separator: str) -> PythonValue:
    value = call.arg(0)
    if value.items:
        return known(separator.join(word(one) for one in value.items), *value.items)
    return known(value.text if not separator else None, value)


def _formatted(call: Called, text: str) -> PythonValue:
    for place, value in enumerate(call.args):
        text = text.replace("{}", word(value), 1).replace("{" + str(place) + "}", word(value))
    for name, value in call.keywords.items():
        text = text.replace("{" + name + "}", word(value))
    return known(text, call.base, *call.given())


def members(call: Called) -> PythonValue:
    """`dictionary.values()`, `.items()`, `.get(key)`."""
    base = call.base
    if call.method == "get":
        return entry(base, call.arg(0).text or "")
    if call.method == "values":
        return PythonValue(items=base.items, feeds=base.feeds)
    pairs = zip(base.keys, base.items or (), strict=False)
    return PythonValue(
        items=tuple(PythonValue(items=(PythonValue(key), value)) for key, value in pairs),
        feeds=merged([base]),
    )


def namespace(_: Called) -> PythonValue:
    """`globals()`."""
    return PythonValue(None, "globals()")


def attributes(call: Called) -> PythonValue:
    """`vars(module)`."""
    return PythonValue(None, f"{call.arg(0).name}.__dict__" if call.arg(0).name else "globals()")


_SAME = (
    "str",
    "list",
    "tuple",
    "sorted",
    "reversed",
    "set",
    "iter",
    "repr",
    "os.path.abspath",
    "os.path.realpath",
)
_OF_TEXT = strings.OF_PATHS
FUNCTIONS: dict[str, Callable[[Called], PythonValue]] = {
    **dict.fromkeys(_OF_TEXT, function_of_text),
    **dict.fromkeys(_SAME, same),
    **dict.fromkeys(strings.DECODERS, decoded),
    **{f"{PATH}.{name}": same_path for name in ("resolve", "expanduser", "absolute", "joinpath")},
    **{f"{PATH}.{name}": renamed_path for name in ("with_suffix", "with_name", "with_stem")},
    "os.path.join": joined_path,
    "pathlib.Path": made_path,
    "chr": character,
    "bytes": characters,
    "bytearray": characters,
    "getattr": attribute_of,
    "__import__": module,
    "globals": namespace,
    "vars": attributes,
    "os.getenv": environment,
    "os.environ.get": environment,
    "map": mapped,
    "enumerate": counted,
}
MEMBERS = frozenset({"get", "items", "values"})
"""Methods of a dictionary whose members are known."""
