"""What an expression may not do, whatever the values: refused when a bundle is loaded.

CEL cannot loop for ever, but it can take memory and time by leaps (product.md, "Bad input"): a macro in a
macro multiplies, a macro that builds text copies it at every step, and `matches` compiles its pattern anew at
every call. None of that can be interrupted, since an evaluation holds the interpreter.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import re2

from app.core.cel.patterns import program_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.core.cel.tree import Node

MAX_SOURCE = 4096
"""Characters. 12 000 take 29 ms to compile; the compiler itself refuses more than 32 levels of nesting."""
MAX_PATTERN_PROGRAM = 256
"""RE2 instructions. Compiling costs 0.5 to 1.2 us each, at every call: one `\\p{L}` are 1200 of them."""
_FIXED_ZONE = re.compile(r"UTC|[+-]?\d\d:\d\d")
_GROWING = frozenset({"add_string", "add_bytes", "add_list"})


def refusals(tree: Node) -> Iterator[str]:
    """Why a tree is refused; nothing when it is not."""
    for node in tree.walk():
        if node.kind == "comprehension":
            yield from _of_macro(node)
        elif node.kind == "call" and node.name == "matches":
            yield from _of_pattern(node.parts[1])
        elif node.kind == "call" and any(name.endswith("_with_tz") for name in node.overloads):
            yield from _of_zone(node.parts[1])


def grows(call: Node) -> bool:
    """Whether a call is a `+` that may put texts or lists together."""
    return call.kind == "call" and call.name == "_+_" and not _GROWING.isdisjoint(call.overloads)


def accumulates(call: Node, macro: Node) -> bool:
    """Whether a call is a macro's own collecting of its result."""
    return call.kind == "call" and call.name == "_+_" and call.parts[0].name == macro.accumulator


def _of_macro(macro: Node) -> Iterator[str]:
    inner = [node for part in macro.parts for node in part.walk()]
    if any(node.kind == "comprehension" for node in inner):
        yield "a macro inside or after another one (all, exists, exists_one, map, filter)"
    if any(grows(node) and not accumulates(node, macro) for node in inner):
        yield "`+` on what may be texts or lists inside a macro; of numbers, write double(a) + double(b)"


def _of_zone(zone: Node) -> Iterator[str]:
    if zone.text is None or not _FIXED_ZONE.fullmatch(zone.text):
        yield "a time zone by name: what it means differs by machine; write an offset such as '+02:00'"


def _of_pattern(pattern: Node) -> Iterator[str]:
    if pattern.text is None:
        yield "matches() with a pattern that is no literal"
        return
    try:
        size = program_size(pattern.text)
    except re2.error as error:
        yield f"the pattern {pattern.text!r} does not compile: {error}"
        return
    if size > MAX_PATTERN_PROGRAM:
        yield f"the pattern {pattern.text!r} takes {size} instructions, {MAX_PATTERN_PROGRAM} are allowed"
