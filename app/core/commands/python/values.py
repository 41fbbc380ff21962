"""What is known of a value without running the program: its text, what made it, whose output it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.core.commands.shell.reading import Command

HOLE = "${unknown}"
"""Stands in a text for a part that is not known: a variable, the way the shell's patterns see one."""
MOST_TEXT = 8192
"""Characters of a text that is put together; what would be longer is not known."""
MOST_FEEDS = 6
"""Commands that a value remembers as its sources."""
PATH = "pathlib.Path()"


class Value(NamedTuple):
    """A value of the program.

    `text`: a string, path or number, with HOLE for unknown parts. `name`: the dotted name of a module,
    function or class, or with `()` at its end of what it returned. `items`: the members of a list, tuple or,
    by `keys`, of a dictionary. `feeds`: the commands whose output it holds. `every`: it stands for each of
    many files. `mode`: how a file was opened.
    """

    text: str | None = None
    name: str = ""
    items: tuple[Value, ...] | None = None
    keys: tuple[str, ...] = ()
    feeds: tuple[Command, ...] = ()
    every: bool = False
    mode: str = ""


UNKNOWN = Value()


def word(value: Value) -> str:
    """The value as a word of a command line."""
    return HOLE if value.text is None else value.text


def known(text: str | None, *parts: Value, name: str = "") -> Value:
    """A text made of the parts: it holds what they hold. Without a text, or one too long, that alone."""
    if text is not None and len(text) > MOST_TEXT:
        text = None
    return Value(text, name, None, (), merged(parts), any(part.every for part in parts))


def merged(parts: Iterable[Value]) -> tuple[Command, ...]:
    """The sources of all the parts."""
    found = tuple(feed for part in parts for feed in part.feeds)
    return tuple(dict.fromkeys(found))[:MOST_FEEDS] if len(found) > 1 else found


def listing(*elements: Value) -> Value:
    """Many values, of which each is like one of these."""
    return Value(None, "listing()", elements, (), merged(elements))


def entry(value: Value, key: str) -> Value:
    """The member of a dictionary under a key."""
    if value.items is not None and key in value.keys:
        return value.items[value.keys.index(key)]
    return UNKNOWN


def flags(value: Value) -> str:
    """The value as a flag's value: its text, or the name of what it is."""
    return value.text if value.text is not None else value.name or HOLE
