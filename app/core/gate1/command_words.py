"""A command's words the way patterns look at them: subcommands, flags with values, targets."""

from __future__ import annotations

import posixpath
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.core.gate1.shell.reading import Command

MOST_WORDS = 64
"""Words among which a pattern looks for subcommands: bounds the search in a line of thousands."""
_OFF = frozenset({"false", "none", "no", "0", "off"})


class Flag:
    """One flag of a command: `-rf`, `--force`, `--region=eu`; the word after it may be its value."""

    __slots__ = ("following", "name", "value")

    def __init__(self, token: str, following: str | None) -> None:
        name, equals, value = token.partition("=")
        self.name = name
        self.value = value if equals else None
        self.following = following

    @property
    def off(self) -> bool:
        """Whether it is there only to say no: `--dry-run=none`."""
        return self.value is not None and self.value.lower() in _OFF


class CommandWords:
    """Lazily taken apart: most commands are looked at by few patterns."""

    def __init__(self, command: Command) -> None:
        self.command = command

    @cached_property
    def flags(self) -> list[Flag]:
        """All flags before `--`."""
        args = self.command.args
        end = args.index("--") if "--" in args else len(args)
        following: list[str | None] = [*args[1:], None]
        return [
            Flag(arg, after)
            for arg, after in zip(args[:end], following, strict=False)
            if arg[:1] == "-" and len(arg) > 1
        ]

    @cached_property
    def words(self) -> list[tuple[str, bool]]:
        """The first words that are no flags, in lower case; whether a flag is before each."""
        return self._plain[:MOST_WORDS]

    @cached_property
    def _plain(self) -> list[tuple[str, bool]]:
        words: list[tuple[str, bool]] = []
        after_flag = only_words = False
        for arg in self.command.args:
            if arg == "--" and not only_words:
                only_words, after_flag = True, False
            elif arg[:1] == "-" and len(arg) > 1 and not only_words:
                after_flag = "=" not in arg
            else:
                words.append((arg.lower(), after_flag))
                after_flag = False
        return words

    @cached_property
    def targets(self) -> list[str]:
        """Every word, and what stands after `=` or `@` in it, in lower case and as normal paths."""
        targets = []
        for arg in self.command.args:
            folded = arg.lower()
            targets.append(_normal(folded))
            _, equals, value = folded.partition("=")
            if equals and value:
                targets.append(_normal(value.lstrip("@<")))
            elif folded[:1] == "@" and len(folded) > 1:
                targets.append(_normal(folded[1:]))
        return list(dict.fromkeys(targets))

    @cached_property
    def operands(self) -> list[str]:
        """The words that are no flags, in lower case and as normal paths."""
        return list(dict.fromkeys(_normal(word) for word, _ in self._plain))

    @cached_property
    def last(self) -> str:
        """The last word that is no flag: where a copy goes."""
        return _normal(self._plain[-1][0]) if self._plain else ""

    @cached_property
    def written(self) -> list[str]:
        """The files that its redirections write."""
        return [_normal(one.target.lower()) for one in self.command.redirects if ">" in one.operator]


def _normal(path: str) -> str:
    if "//" in path or "/." in path:
        scheme, separator, rest = path.partition("://")
        return path if separator and rest else posixpath.normpath(scheme)
    return path
