"""Flags as a pattern asks for them: `-r`, `--recursive`, `-X=DELETE`, several of which are one question."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.gate1.commands.globs import Globs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.core.gate1.commands.words import Flag, Flags

LEAST_PREFIX = 5
"""Characters, dashes included, from which a shortened long flag counts (GNU getopt takes `--recurs`)."""


class FlagForms:
    """Alternatives: those without a value are looked up, those with one compared one by one."""

    __slots__ = ("_letters", "_names", "_valued")

    def __init__(self, texts: Iterable[str], *, shortened: bool) -> None:
        """`shortened`: whether a beginning of a long flag counts, as GNU getopt takes it."""
        forms = [one for text in texts for one in text.split("|")]
        plain = [one for one in forms if "=" not in one]
        self._letters = frozenset(one[1] for one in plain if _is_letter(one))
        names = [one for one in plain if not _is_letter(one)]
        self._names = frozenset(
            spelling for name in names for spelling in _spellings(name, shortened=shortened)
        )
        self._valued = tuple(_Valued(one, shortened=shortened) for one in forms if "=" in one)

    def among(self, flags: Flags) -> bool:
        """Whether one of the command's flags is one of these."""
        if not (self._letters.isdisjoint(flags.letters) and self._names.isdisjoint(flags.names)):
            return True
        for form in self._valued:
            for flag in flags.each:
                if form.fits(flag):
                    return True
        return False


class _Valued:
    """A flag with a value that must match: `-X=DELETE` is also found in `-XDELETE` and `-X DELETE`."""

    __slots__ = ("_letter", "_names", "_value")

    def __init__(self, text: str, *, shortened: bool) -> None:
        name, _, value = text.partition("=")
        self._value = Globs([value])
        self._letter = name[1] if _is_letter(name) else ""
        self._names = frozenset(_spellings(name, shortened=shortened))

    def fits(self, flag: Flag) -> bool:
        own = flag.name
        if not self._letter:
            return own.lower() in self._names and self._matches(flag)
        if self._letter not in own or own[1] == "-":
            return False
        rest = own[own.index(self._letter) + 1 :]
        return self._value.match(rest.lower()) if rest else self._matches(flag)

    def _matches(self, flag: Flag) -> bool:
        given = flag.following if flag.value is None else flag.value
        return given is not None and self._value.match(given.lower())


def _is_letter(name: str) -> bool:
    return len(name) == 2 and name[0] == "-"  # noqa: PLR2004 - a dash and a letter


def _spellings(name: str, *, shortened: bool) -> list[str]:
    if not shortened or name[:2] != "--":
        return [name]
    return [name[:length] for length in range(min(LEAST_PREFIX, len(name)), len(name) + 1)]
