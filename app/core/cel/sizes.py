"""How large the values are that an expression looks at: what its work is calculated from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from app.core.cel.reads import Path


class Size(NamedTuple):
    """`items`: entries of the longest list or map; `nodes`: values; `text`: characters, keys included."""

    items: int
    nodes: int
    text: int


NOTHING = Size(0, 0, 0)


def at(variables: dict[str, Any], path: Path) -> Any:
    """What lies at a path; None where there is nothing."""
    value: Any = variables
    for step in path:
        if type(value) is not dict or step not in value:
            return None
        value = value[step]
    return value


def size_of(value: Any) -> Size:
    """The size of a JSON value."""
    items = text = 0
    found = [value]
    for one in found:
        kind = type(one)
        if kind is str:
            text += len(one)
        elif kind is dict:
            items = max(items, len(one))
            text += len("".join(one))
            found += one.values()
        elif kind is list:
            items = max(items, len(one))
            found += one
    return Size(items, len(found), text)
