"""Forbidden commands as data: a small declarative language over programs, words, flags and targets.

A text in a pattern is a glob (`*`, `?`, `[...]`) without regard to case; `a|b` is either; `@kind` is a kind
of target (argument_kinds). All conditions that a pattern gives must hold.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from sluice.detection.commands.patterns.conditions import CommandPattern, Glob, compile_conditions
from sluice.detection.commands.patterns.globs import KINDS, Globs
from sluice.detection.commands.patterns.pattern_words import CommandWords
from sluice.detection.library_model import LibraryError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluice.detection.commands.patterns.conditions import Condition
    from sluice.detection.commands.shell.shell_reading import Command, ShellReading

REMEMBERED_PROGRAMS = 4096
_GLOB = frozenset("*?[")
_FROM_OUTSIDE = (("writes",), ("assigned",), ("stdin",), ("fed_by", "fed_args"), ("via",), ("args", "flags"))
"""Fields of a pattern that ask for something many commands do not have at all, by what they ask for."""


Compiled: TypeAlias = "tuple[int, CommandPattern, tuple[Condition, ...]]"


class CommandPatterns:
    """All patterns, indexed by program."""

    def __init__(self, patterns: Iterable[CommandPattern]) -> None:
        """Raises LibraryError for a kind of target that does not exist."""
        self._exact: dict[str, list[Compiled]] = {}
        self._globs: list[tuple[Globs, Compiled]] = []
        self._undone_by: dict[int, tuple[Condition, ...]] = {}
        for index, pattern in enumerate(patterns):
            _check_kinds(pattern)
            entry = (index, pattern, compile_conditions(pattern))
            if pattern.unless_then:
                self._undone_by[index] = compile_conditions(_reduce_to_words(pattern.unless_then))
            plain = [name for name in pattern.program if _GLOB.isdisjoint(name)]
            rest = [name for name in pattern.program if name not in plain]
            for name in plain:
                self._exact.setdefault(name, []).append(entry)
            if rest:
                self._globs.append((Globs(rest), entry))
        self._of = lru_cache(maxsize=REMEMBERED_PROGRAMS)(self._candidates)

    def matches(self, reading: ShellReading) -> list[CommandPattern]:
        """The patterns that some command matches, each once, in the order of the list."""
        matches: dict[int, CommandPattern] = {}
        commands = set()
        for at, command in enumerate(reading.commands):
            if not command.fed_by:
                if command in commands:
                    continue
                commands.add(command)
            later = reading.commands[at + 1 :]
            matches |= {
                index: pattern
                for index, pattern in self.match(command)
                if not self._is_undone(index, command, later)
            }
        return [matches[index] for index in sorted(matches)]

    def _is_undone(self, index: int, command: Command, later: tuple[Command, ...]) -> bool:
        conditions = self._undone_by.get(index)
        if conditions is None:
            return False
        return any(
            other.program == command.program and _all_hold(conditions, CommandWords(other)) for other in later
        )

    def match(self, command: Command) -> list[tuple[int, CommandPattern]]:
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
        return [(index, pattern) for index, pattern, conditions in candidates if _all_hold(conditions, words)]

    def _candidates(self, program: str, lacking: tuple[bool, ...]) -> tuple[Compiled, ...]:
        named = self._exact.get(program, []) + [entry for names, entry in self._globs if names.match(program)]
        fields = [
            name for names, lacks in zip(_FROM_OUTSIDE, lacking, strict=True) if lacks for name in names
        ]
        return tuple(
            candidate for candidate in named if not any(getattr(candidate[1], field) for field in fields)
        )


def _reduce_to_words(words: list[Glob]) -> CommandPattern:
    """A pattern of words alone."""
    fields = dict.fromkeys(("id", "reason", "source"), "words")
    return CommandPattern.model_validate({**fields, "severity": "info", "program": ["*"], "words": words})


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
        for part in text.split("|"):
            if part[:1] == "@" and part[1:].isalpha() and part not in KINDS:
                raise LibraryError(f"{pattern.id}: there is no kind of target {part}")
