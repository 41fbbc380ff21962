"""Loops: over known lists member by member, over files as a glob of all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.gate1.python.values import UNKNOWN, Value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.core.gate1.python.walker import Walker

MOST_ELEMENTS = 8
"""Members of a known list for which a loop's body is read."""


def of_elements(iterable: Value) -> tuple[Value, ...]:
    """What a loop over the value goes through: its members, or one that stands for each."""
    if iterable.keys:
        return tuple(Value(key) for key in iterable.keys)
    if iterable.items:
        return iterable.items
    return (UNKNOWN._replace(feeds=iterable.feeds, every=iterable.every),)


def each(walker: Walker, elements: tuple[Value, ...]) -> Iterator[Value]:
    """The elements, as many as the work that is left allows; meanwhile the tests of a loop count anew."""
    around = walker.around
    for place, element in enumerate(elements[:MOST_ELEMENTS]):
        if place and not walker.may_repeat:
            return
        walking, tests = around.walking, around.tests
        if _of_many(element):
            around.walking, around.tests = walking + 1, []
        yield element
        around.walking, around.tests = walking, tests


def _of_many(element: Value) -> bool:
    return element.every or any(_of_many(one) for one in element.items or ())
