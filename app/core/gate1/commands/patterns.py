"""Forbidden commands as data: a small declarative language over programs, words, flags and targets.

A text in a pattern is a glob (`*`, `?`, `[...]`) without regard to case; `a|b` is either; `@kind` is a kind
of target (argument_kinds). All conditions that a pattern gives must hold.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, TypeAlias

from pydantic import Field

from app.core.errors import BundleError
from app.core.gate1.commands.argument_kinds import KINDS
from app.core.gate1.commands.conditions import compiled
from app.core.gate1.commands.globs import Globs
from app.core.gate1.commands.words import CommandWords
from app.core.gate1.pattern import Described

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.core.gate1.commands.conditions import Condition
    from app.core.gate1.shell.reading import Command, ShellReading

Glob = Annotated[str, Field(max_length=8192)]
REMEMBERED_PROGRAMS = 4096
HARMLESS = ("--help", "--version", "--dry-run|--dryrun|--just-print|--what-if|-whatif|--simulate")
"""Flags with which nearly every program does nothing."""
_GLOB = frozenset("*?[")
_FROM_OUTSIDE = (("writes",), ("assigned",), ("stdin",), ("fed_by", "fed_args"), ("via",), ("args", "flags"))
"""Fields of a pattern that ask for something many commands do not have at all, by what they ask for."""


class CommandPattern(Described):
    """One forbidden family of commands."""

    program: Annotated[list[Glob], Field(min_length=1)]
    """Base names; "" is a bare redirection or assignment."""
    words: list[Glob] = Field(default_factory=list)
    """Subcommands in their order. Only a flag's value may stand between; `**` allows anything between."""
    flags: list[Glob] = Field(default_factory=list)
    """Each must be there: `-r|--recursive`, with a value `-X=DELETE`. `-r` is also found in `-rf`."""
    args: list[Glob] = Field(default_factory=list)
    """Each must match some word, or what stands after `=` or `@` in it."""
    every: list[Glob] = Field(default_factory=list)
    """Every word that is no flag must match one of these, and there must be one."""
    last: list[Glob] = Field(default_factory=list)
    """The last word that is no flag, where a copy goes, matches one of these."""
    writes: list[Glob] = Field(default_factory=list)
    """A redirection writes a file that matches one of these."""
    fed_by: list[Glob] = Field(default_factory=list)
    """One of these programs feeds it by a pipe or a substitution."""
    fed_args: list[Glob] = Field(default_factory=list)
    """A word of a command that feeds it (of `fed_by`, if given) matches one of these."""
    stdin: list[Glob] = Field(default_factory=list)
    """Its known standard input matches one of these."""
    via: list[Glob] = Field(default_factory=list)
    """One of these wrappers is around it."""
    assigned: list[Glob] = Field(default_factory=list)
    """A variable set for it or by it matches one of these, as `NAME=value`."""
    at_most: Annotated[int, Field(ge=0)] | None = None
    """It has no more words than this, flags included."""
    unless: list[Glob] = Field(default_factory=list)
    """None of these may be there: a flag (with a dash) or a word."""
    unless_every: list[Glob] = Field(default_factory=list)
    """Not where every word that is no flag matches one of these."""
    harmless: list[Glob] = Field(default_factory=lambda: list(HARMLESS))
    """Flags with which the program does nothing."""


Compiled: TypeAlias = "tuple[int, CommandPattern, tuple[Condition, ...]]"


class CommandPatterns:
    """All patterns, indexed by program."""

    def __init__(self, patterns: Iterable[CommandPattern]) -> None:
        """Raises BundleError for a kind of target that does not exist."""
        self._exact: dict[str, list[Compiled]] = {}
        self._globs: list[tuple[Globs, Compiled]] = []
        for place, pattern in enumerate(patterns):
            _check_kinds(pattern)
            one = (place, pattern, compiled(pattern))
            plain = [name for name in pattern.program if _GLOB.isdisjoint(name)]
            rest = [name for name in pattern.program if name not in plain]
            for name in plain:
                self._exact.setdefault(name, []).append(one)
            if rest:
                self._globs.append((Globs(rest), one))
        self._of = lru_cache(maxsize=REMEMBERED_PROGRAMS)(self._candidates)

    def matches(self, reading: ShellReading) -> list[CommandPattern]:
        """The patterns that some command matches, each once, in the order of the list."""
        found: dict[int, CommandPattern] = {}
        seen = set()
        for command in reading.commands:
            if not command.fed_by:
                if command in seen:
                    continue
                seen.add(command)
            found.update(self.matching(command))
        return [found[place] for place in sorted(found)]

    def matching(self, command: Command) -> list[tuple[int, CommandPattern]]:
        """The patterns that one command matches, with their places in the list."""
        candidates = self._of(
            command.program,
            (
                not command.redirects,
                not command.assigned,
                not command.stdin,
                not command.fed_by,
                not command.via,
                not command.args,
            ),
        )
        if not candidates:
            return []
        words = CommandWords(command)
        return [(place, pattern) for place, pattern, conditions in candidates if _all_hold(conditions, words)]

    def _candidates(self, program: str, lacking: tuple[bool, ...]) -> tuple[Compiled, ...]:
        named = self._exact.get(program, []) + [one for names, one in self._globs if names.match(program)]
        fields = [
            name for names, lacks in zip(_FROM_OUTSIDE, lacking, strict=True) if lacks for name in names
        ]
        return tuple(one for one in named if not any(getattr(one[1], field) for field in fields))


def _all_hold(conditions: tuple[Condition, ...], words: CommandWords) -> bool:
    for condition in conditions:  # noqa: SIM110 - half the time of all() over a generator, and run most often
        if not condition(words):
            return False
    return True


def _check_kinds(pattern: CommandPattern) -> None:
    texts = (
        *pattern.args,
        *pattern.every,
        *pattern.last,
        *pattern.writes,
        *pattern.fed_args,
        *pattern.unless_every,
        *pattern.unless,
    )
    for text in texts:
        for one in text.split("|"):
            if one[:1] == "@" and one[1:].isalpha() and one not in KINDS:
                raise BundleError(f"{pattern.id}: there is no kind of target {one}")
