"""The values that expressions may see: bounded copies, and what had to be left out.

An evaluation holds the interpreter, so nothing large may reach it. What is over a bound is left out and its
path remembered: an expression that could see it is not evaluated at all, since a missing value could turn a
rule's answer round. Integers beyond int64, on which the evaluator fails for the whole map, enter as doubles.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from sluice.core.cel.tree import Size, get_at, measure_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sluice.core.cel.tree import Path

MAX_ITEMS = 256
"""Entries of one list or map: a `map` or `filter` over them takes 2.6 ms, over 2000 it took 843 MB."""
MAX_TEXT = 32_768
"""Characters of one string."""
MAX_ALL_ITEMS = 2048
"""Values in all variables together: the evaluator's own copy of them takes 0.2 to 0.6 us each."""
MAX_ALL_TEXT = 131_072
"""Characters in all variables together, keys included."""
INT64 = 2**63


class Values:
    """Variables by their qualified names, within the bounds."""

    def __init__(self, variables: Mapping[str, Any], bounded: Mapping[str, Any] | None = None) -> None:
        """JSON values, and what CEL has beside them (timestamps).

        `bounded`: further variables that were held to the bounds before; they take no room from the others,
        so that which of them there are decides nothing about the rest.
        """
        self._bounded = bounded or {}
        self.left_out: set[Path] = set()
        self._above_left_out: dict[Path, Path] = {}
        self._sizes: dict[Path, Size] = {}
        size = measure_within_bounds(variables)
        if size is None:
            taking = _BoundedCopy(self._leave_out)
            own: Mapping[str, Any] = {name: taking.copy((name,), value) for name, value in variables.items()}
            size = taking.size
        else:
            own = variables
        self._own_size = size
        self.variables: dict[str, Any] = {**own, **self._bounded}

    @property
    def whole(self) -> Size:
        """The size of all variables."""
        items, nodes, text = self._own_size
        if not self._bounded:
            return Size(items, nodes + len(self.variables), text)
        further = [self.size((name,)) for name in self._bounded]
        return Size(
            max(items, *(size.items for size in further)),
            nodes + len(self.variables) + sum(size.nodes for size in further),
            text + sum(size.text for size in further),
        )

    def hides(self, reads: Iterable[Path]) -> Path | None:
        """A path that was left out and that one of these would see; None when all is there."""
        if not self.left_out:
            return None
        return next((gone for gone in map(self._hide, reads) if gone is not None), None)

    def _hide(self, read: Path) -> Path | None:
        above = (read[:length] for length in range(1, len(read)))
        return next((path for path in above if path in self.left_out), self._above_left_out.get(read))

    def measure_shown(self, reads: Iterable[Path]) -> Size:
        """The size of what these show together, as often as each is there."""
        items = nodes = text = 0
        for path in reads:
            size = self._sizes.get(path) or self.size(path)
            items, nodes, text = max(items, size.items), nodes + size.nodes, text + size.text
        return Size(items, nodes, text)

    def _leave_out(self, path: Path) -> None:
        self.left_out.add(path)
        for length in range(1, len(path) + 1):
            self._above_left_out.setdefault(path[:length], path)

    def size(self, path: Path) -> Size:
        """The size of what lies at a path; nothing where there is nothing."""
        if path not in self._sizes:
            self._sizes[path] = measure_size(get_at(self.variables, path))
        return self._sizes[path]


class _BoundedCopy:
    """Copies values, and takes them from what the bounds have left."""

    def __init__(self, leave_out: Callable[[Path], None]) -> None:
        self._leave_out = leave_out
        self._longest = 0
        self._items_left, self._text_left = MAX_ALL_ITEMS, MAX_ALL_TEXT

    @property
    def size(self) -> Size:
        """What was taken, the values of the variables themselves not counted."""
        return Size(self._longest, MAX_ALL_ITEMS - self._items_left, MAX_ALL_TEXT - self._text_left)

    def copy(self, path: Path, value: Any) -> Any:
        """The value as far as it fits; None where it does not fit at all."""
        kind = type(value)
        if kind is str:
            return self._copy_text(path, value)
        if kind is dict:
            return self._copy_map(path, value)
        if kind is list:
            return self._copy_list(path, value)
        return _convert_integer(value) if kind is int else value

    def _copy_text(self, path: Path, value: str) -> str | None:
        if len(value) > MAX_TEXT or len(value) > self._text_left:
            self._leave_out(path)
            return None
        self._text_left -= len(value)
        return value

    def _copy_map(self, path: Path, value: dict[str, Any]) -> dict[str, Any] | None:
        keys = sum(map(len, value))
        if self._is_too_many(value) or keys > self._text_left:
            self._leave_out(path)
            return None
        self._text_left -= keys
        return {key: self.copy((*path, key), item) for key, item in value.items()}

    def _copy_list(self, path: Path, value: list[Any]) -> list[Any] | None:
        if self._is_too_many(value):
            self._leave_out(path)
            return None
        return [self.copy(path, item) for item in value]

    def _is_too_many(self, value: dict[str, Any] | list[Any]) -> bool:
        if len(value) > MAX_ITEMS or len(value) > self._items_left:
            return True
        self._items_left -= len(value)
        self._longest = max(self._longest, len(value))
        return False


def _convert_integer(value: int) -> int | float:
    if -INT64 <= value < INT64:
        return value
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def measure_within_bounds(variables: Mapping[str, Any]) -> Size | None:
    """The size of JSON values; None where something has to be left out or changed.

    Nearly always nothing has, and then they need no copy: nobody below writes into them.
    """
    items = nodes = text = 0
    pending = [*variables.values()]
    for item in pending:
        kind = type(item)
        if kind is str:
            text += len(item)
            if len(item) > MAX_TEXT:
                return None
        elif kind is dict or kind is list:
            entries = len(item)
            nodes += entries
            if entries > MAX_ITEMS or nodes > MAX_ALL_ITEMS:
                return None
            items = max(items, entries)
            if kind is dict:
                text += len("".join(item))
                pending += item.values()
            else:
                pending += item
        elif kind is int and not -INT64 <= item < INT64:
            return None
    return Size(items, nodes, text) if text <= MAX_ALL_TEXT else None
