"""Values that JSON keeps: what a record holds is then exactly what was given, and what runs afterwards."""

from __future__ import annotations

import math
from typing import Any

from sluice.client.answers import ClientError

DEEPEST = 64
"""How deep a worker reads."""
LARGEST_BITS = 8192
"""Of a whole number. Python itself refuses to read much longer ones."""
_KEPT = (str, int, float, bool, type(None))
_PLAIN = (*_KEPT, bytes, bytearray)
_HOLDERS = (list, tuple, set, frozenset, dict)


def copy_faithfully(value: Any, name: str) -> Any:
    """A deep copy of a value that JSON keeps: of exactly the types that reading its text gives again.

    Raises ClientError for another one, with its place: `name` and the way to it.
    """
    return _copy(value, name, 0)


def may_be_json(value: Any) -> bool:
    """Whether a value consists of plain data alone, so that it may have been written as JSON. Of any depth,
    and of subclasses, tuples and sets too."""
    left, visited = [value], set()
    while left:
        item = left.pop()
        if isinstance(item, _HOLDERS):
            if id(item) not in visited:
                visited.add(id(item))
                left += [*item.keys(), *item.values()] if isinstance(item, dict) else item
        elif not isinstance(item, _PLAIN):
            return False
    return True


def _copy(value: Any, path: str, depth: int) -> Any:
    if depth > DEEPEST:
        raise _make_unfaithful(path, f"is nested more than {DEEPEST} deep")
    if type(value) is dict:
        for key in value:
            if type(key) is not str:
                raise _make_unfaithful(path, f"has the key {key!r}, which is no text")
        return {
            _copy(key, path, depth): _copy(member, f"{path}.{key}", depth + 1)
            for key, member in value.items()
        }
    if type(value) is list:
        return [_copy(element, f"{path}[{number}]", depth + 1) for number, element in enumerate(value)]
    flaw = _find_flaw(value)
    if flaw is not None:
        raise _make_unfaithful(path, flaw)
    return value


def _find_flaw(value: Any) -> str | None:
    """Find the reason for which a single value would not be read again as it is."""
    if type(value) not in _KEPT:
        return f"is a {type(value).__qualname__}, which JSON does not keep"
    if isinstance(value, float) and not math.isfinite(value):
        return f"is {value}, which JSON does not have"
    if isinstance(value, int) and value.bit_length() > LARGEST_BITS:
        return f"is a number of more than {LARGEST_BITS} bits"
    if isinstance(value, str) and not _is_unicode(value):
        return "has a lone surrogate, which UTF-8 does not have"
    return None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _make_unfaithful(path: str, flaw: str) -> ClientError:
    return ClientError(
        f"{path} {flaw}",
        "Give texts, finite numbers, booleans, None, lists, and tables with texts for keys; what a framework "
        "hands to the tool, `self` too, belongs into guard(context=[...])",
    )
