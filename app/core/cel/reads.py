"""What an expression looks at: the paths below its variables, read off its tree.

A path is a variable's name and the fields below it that are named in the text: `action.parameters.to[0].name`
reads ("action.parameters", "to"), because what an index picks is only known at run time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.core.cel.tree import Node

Path = tuple[str, ...]


def reads(node: Node, bound: frozenset[str] = frozenset()) -> Iterator[Path]:
    """The longest path of every mention, repeats included; `bound` are names that a macro has taken."""
    path = path_of(node)
    if path is not None:
        if path[0] not in bound:
            yield path
        return
    inner = bound | {node.name, node.accumulator} if node.kind == "comprehension" else bound
    for place, part in enumerate(node.parts):
        yield from reads(part, inner if place else bound)


def path_of(node: Node) -> Path | None:
    """The path that a node names, None when it is more than a name."""
    if node.kind == "variable":
        return (node.name,)
    if node.kind == "select":
        above = path_of(node.parts[0])
        return None if above is None else (*above, node.name)
    if node.kind == "call" and node.name == "_[_]" and node.parts[1].text is not None:
        above = path_of(node.parts[0])
        return None if above is None else (*above, node.parts[1].text)
    return None


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
