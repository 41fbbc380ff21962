"""A number with its noun, for every message."""

from __future__ import annotations


def count_noun(number: object, singular: str, many: str | None = None) -> str:
    """ "1 record", "2 records", "0 records"; `many` where the plural is not one with an s. A
    `number` out of a record may be anything."""
    return f"{number} {pluralize(number, singular, many)}"


def pluralize(number: object, singular: str, many: str | None = None) -> str:
    """The noun alone, for a number that is written in another way."""
    return singular if number == 1 else many or f"{singular}s"
