"""A number with its noun, for every message."""

from __future__ import annotations


def count_noun(number: object, one: str, many: str | None = None) -> str:
    """ "1 record", "2 records", "0 records"; `many` where the plural is not one with an s. A
    `number` out of a record may be anything."""
    return f"{number} {pluralize(number, one, many)}"


def pluralize(number: object, one: str, many: str | None = None) -> str:
    """The noun alone, for a number that is written in another way."""
    return one if number == 1 else many or f"{one}s"
