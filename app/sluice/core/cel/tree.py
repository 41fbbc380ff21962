"""A compiled CEL expression as a tree, macros expanded and names resolved, and the paths that it reads.

What the compiler serialises is a `google.protobuf.Any` around a `cel.expr.CheckedExpr` or `ParsedExpr`
(cel-spec, proto/cel/expr/checked.proto and syntax.proto; the field numbers below are theirs).

A path is a variable's name and the fields below it that are named in the text: `action.parameters.to[0].name`
reads ("action.parameters", "to"), because what an index picks is only known at run time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_WIDTHS = {_FIXED64: 8, _FIXED32: 4}


def read_fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(field number, value) in order: whole numbers of varints, the raw bytes of everything else.

    Raises ValueError for a wire type that proto3 does not have.

    protobuf.dev, "Encoding". Reading it here saves a dependency on generated classes for one message type.
    """
    position = 0
    while position < len(message):
        tag, position = _read_varint(message, position)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, position = _read_varint(message, position)
            yield number, value
            continue
        if wire == _LENGTH:
            width, position = _read_varint(message, position)
        elif wire in _WIDTHS:
            width = _WIDTHS[wire]
        else:
            raise ValueError(f"wire type {wire} of field {number}")
        yield number, message[position : position + width]
        position += width


def _read_varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the continuation bit
            return value, position
        shift += 7


Kind = Literal["constant", "variable", "select", "call", "list", "map", "comprehension"]
Overloads = dict[int, tuple[str, ...]]
Raw = list[tuple[int, int | bytes]]
_ANY_VALUE, _PARSED_EXPR, _CHECKED_EXPR, _CHECKED_REFERENCES = 2, 2, 4, 2
_STRING_CONSTANT, _EXPR_ID = 6, 2


@dataclass(frozen=True, slots=True)
class Node:
    """`name`: of a variable, a field, a function, or the element in a comprehension. `parts`: operand,
    arguments (a method's target first), elements, or a comprehension's range, start, condition, step, result.

    `text`: a string constant. `overloads`: the functions that a call may turn out to be. `accumulator`: a
    comprehension's second variable. `presence`: a select that asks `has()`.
    """

    kind: Kind
    name: str = ""
    parts: tuple[Node, ...] = ()
    text: str | None = None
    overloads: tuple[str, ...] = ()
    accumulator: str = ""
    presence: bool = False

    def walk(self) -> Iterator[Node]:
        """This node and all below it."""
        yield self
        for part in self.parts:
            yield from part.walk()


def read_checked_tree(serialized: bytes) -> Node:
    """The tree of a serialised CheckedExpr: a qualified name like `action.tool` is one variable."""
    checked = list(read_fields(_find_message(list(read_fields(serialized)), _ANY_VALUE)))
    references = [cast("bytes", value) for number, value in checked if number == _CHECKED_REFERENCES]
    return _read_node(_find_message(checked, _CHECKED_EXPR), dict(map(_read_reference, references)))


def read_parsed_tree(serialized: bytes) -> Node:
    """The tree of a serialised ParsedExpr: calls have no overloads, `action.tool` is a select."""
    parsed = list(read_fields(_find_message(list(read_fields(serialized)), _ANY_VALUE)))
    return _read_node(_find_message(parsed, _PARSED_EXPR), {})


def _read_reference(entry: bytes) -> tuple[int, tuple[str, ...]]:
    parts = list(read_fields(entry))
    key = next((value for number, value in parts if number == 1), 0)
    return cast("int", key), tuple(_read_texts(list(read_fields(_find_message(parts, 2))), 3))


def _read_node(message: bytes, overloads: Overloads) -> Node:
    parts = list(read_fields(message))
    own = next((cast("int", value) for number, value in parts if number == _EXPR_ID), 0)
    for number, value in parts:
        if number in _READERS:
            return _READERS[number](list(read_fields(cast("bytes", value))), overloads, own)
    return Node("constant")


def _read_constant(raw: Raw, _overloads: Overloads, _own: int) -> Node:
    return Node("constant", text=next(_read_texts(raw, _STRING_CONSTANT), None))


def _read_variable(raw: Raw, _overloads: Overloads, _own: int) -> Node:
    return Node("variable", next(_read_texts(raw, 1), ""))


def _read_select(raw: Raw, overloads: Overloads, _own: int) -> Node:
    operand = _read_node(_find_message(raw, 1), overloads)
    return Node("select", next(_read_texts(raw, 2), ""), (operand,), presence=(3, 1) in raw)


def _read_call(raw: Raw, overloads: Overloads, own: int) -> Node:
    parts = _read_nodes(raw, 1, overloads) + _read_nodes(raw, 3, overloads)
    return Node("call", next(_read_texts(raw, 2), ""), parts, overloads=overloads.get(own, ()))


def _read_list(raw: Raw, overloads: Overloads, _own: int) -> Node:
    return Node("list", parts=_read_nodes(raw, 1, overloads))


def _read_map(raw: Raw, overloads: Overloads, _own: int) -> Node:
    entries = [list(read_fields(cast("bytes", value))) for number, value in raw if number == 2]  # noqa: PLR2004
    parts = [
        part
        for entry in entries
        for part in _read_nodes(entry, 3, overloads) + _read_nodes(entry, 4, overloads)
    ]
    return Node("map", next(_read_texts(raw, 1), ""), tuple(parts))


def _read_comprehension(raw: Raw, overloads: Overloads, _own: int) -> Node:
    parts = tuple(_read_node(_find_message(raw, number), overloads) for number in (2, 4, 5, 6, 7))
    return Node(
        "comprehension", next(_read_texts(raw, 1), ""), parts, accumulator=next(_read_texts(raw, 3), "")
    )


def _find_message(raw: Raw, wanted: int) -> bytes:
    return cast("bytes", next((value for number, value in raw if number == wanted), b""))


def _read_nodes(raw: Raw, wanted: int, overloads: Overloads) -> tuple[Node, ...]:
    return tuple(_read_node(cast("bytes", value), overloads) for number, value in raw if number == wanted)


def _read_texts(raw: Raw, wanted: int) -> Iterator[str]:
    return (cast("bytes", value).decode() for number, value in raw if number == wanted)


_READERS: dict[int, Callable[[Raw, Overloads, int], Node]] = {
    3: _read_constant,
    4: _read_variable,
    5: _read_select,
    6: _read_call,
    7: _read_list,
    8: _read_map,
    9: _read_comprehension,
}


Path = tuple[str, ...]


def list_reads(node: Node, bound: frozenset[str] = frozenset()) -> Iterator[Path]:
    """The longest path of every mention, repeats included; `bound` are names that a macro has taken."""
    path = find_path(node)
    if path is not None:
        if path[0] not in bound:
            yield path
        return
    inner = bound | {node.name, node.accumulator} if node.kind == "comprehension" else bound
    for index, part in enumerate(node.parts):
        yield from list_reads(part, inner if index else bound)


def find_path(node: Node) -> Path | None:
    """The path that a node names, None when it is more than a name."""
    if node.kind == "variable":
        return (node.name,)
    if node.kind == "select":
        above = find_path(node.parts[0])
        return None if above is None else (*above, node.name)
    if node.kind == "call" and node.name == "_[_]" and node.parts[1].text is not None:
        above = find_path(node.parts[0])
        return None if above is None else (*above, node.parts[1].text)
    return None


class Size(NamedTuple):
    """`items`: entries of the longest list or map; `nodes`: values; `text`: characters, keys included."""

    items: int
    nodes: int
    text: int


NOTHING = Size(0, 0, 0)


def get_at(variables: dict[str, Any], path: Path) -> Any:
    """What lies at a path; None where there is nothing."""
    value: Any = variables
    for step in path:
        if type(value) is not dict or step not in value:
            return None
        value = value[step]
    return value


def measure_size(value: Any) -> Size:
    """The size of a JSON value."""
    items = text = 0
    nodes = [value]
    for node in nodes:
        kind = type(node)
        if kind is str:
            text += len(node)
        elif kind is dict:
            items = max(items, len(node))
            text += len("".join(node))
            nodes += node.values()
        elif kind is list:
            items = max(items, len(node))
            nodes += node
    return Size(items, len(nodes), text)
