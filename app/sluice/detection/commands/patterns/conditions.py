"""A pattern's conditions, compiled: those that most commands fail at once come first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from sluice.detection.commands.inspection import Described
from sluice.detection.commands.patterns.globs import Globs
from sluice.detection.commands.patterns.pattern_words import MOST_WORDS, CommandWords

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sluice.detection.commands.patterns.pattern_words import Flag, Flags

    Condition = Callable[[CommandWords], bool]

Glob = Annotated[str, Field(max_length=8192)]


HARMLESS = ("--help", "--version", "--dry-run|--dryrun|--just-print|--what-if|-whatif|--simulate")
"""Flags with which nearly every program does nothing."""


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
    unless_then: list[Glob] = Field(default_factory=list)
    """Not where a later command of the same program has these words: what was taken down is put up again."""
    harmless: list[Glob] = Field(default_factory=lambda: list(HARMLESS))
    """Flags with which the program does nothing."""


LEAST_PREFIX = 5
"""Characters, dashes included, from which a shortened long flag counts (GNU getopt takes `--recurs`)."""


class FlagForms:
    """Alternatives: those without a value are looked up, those with one compared one by one."""

    __slots__ = ("_letters", "_names", "_valued")

    def __init__(self, texts: Iterable[str], *, shortened: bool) -> None:
        """`shortened`: whether a beginning of a long flag counts, as GNU getopt takes it."""
        forms = [form for text in texts for form in text.split("|")]
        plain = [form for form in forms if "=" not in form]
        self._letters = frozenset(form[1] for form in plain if _is_letter(form))
        names = [form for form in plain if not _is_letter(form)]
        self._names = frozenset(
            spelling for name in names for spelling in _list_spellings(name, shortened=shortened)
        )
        self._valued = tuple(_Valued(form, shortened=shortened) for form in forms if "=" in form)

    def is_among(self, flags: Flags) -> bool:
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

    __slots__ = ("_character", "_names", "_value")

    def __init__(self, text: str, *, shortened: bool) -> None:
        name, _, value = text.partition("=")
        self._value = Globs([value])
        self._character = name[1] if _is_letter(name) else ""
        self._names = frozenset(_list_spellings(name, shortened=shortened))

    def fits(self, flag: Flag) -> bool:
        own = flag.name
        if not self._character:
            return own.lower() in self._names and self._matches(flag)
        if self._character not in flag.letters[1:]:
            return False
        rest = own[own.index(self._character) + 1 :]
        return self._value.match(rest.lower()) if rest else self._matches(flag)

    def _matches(self, flag: Flag) -> bool:
        value = flag.following if flag.value is None else flag.value
        return value is not None and self._value.match(value.lower())


def _is_letter(name: str) -> bool:
    return len(name) == 2 and name[0] == "-"  # noqa: PLR2004 - a dash and a letter


def _list_spellings(name: str, *, shortened: bool) -> list[str]:
    if not shortened or name[:2] != "--":
        return [name]
    return [name[:length] for length in range(min(LEAST_PREFIX, len(name)), len(name) + 1)]


_ANYTHING_BETWEEN = "**"


def compile_conditions(pattern: CommandPattern) -> tuple[Condition, ...]:
    """All conditions of a pattern."""
    dashed = [text for text in pattern.unless if text[:1] == "-"]
    plain = [text for text in pattern.unless if text[:1] != "-"]
    conditions: list[tuple[object, Callable[[], Condition]]] = [
        (pattern.writes, lambda: _writes(Globs(pattern.writes))),
        (pattern.assigned, lambda: _require_assignment(Globs(pattern.assigned))),
        (pattern.stdin, lambda: _stdin(Globs(pattern.stdin))),
        (pattern.fed_by, lambda: _require_source(Globs(pattern.fed_by))),
        (
            pattern.fed_args,
            lambda: _require_fed_args(Globs(pattern.fed_args), Globs(pattern.fed_by or ["*"])),
        ),
        (pattern.via, lambda: _make_via(Globs(pattern.via))),
        (pattern.at_most is not None, lambda: _limit_args(pattern.at_most or 0)),
        *(
            (True, lambda text=text: _require_flag(FlagForms([text], shortened=True)))
            for text in pattern.flags
        ),
        (pattern.words, lambda: _require_words(pattern.words)),
        *((True, lambda text=text: _target(Globs([text]))) for text in pattern.args),
        (pattern.last, lambda: _last(Globs(pattern.last))),
        (pattern.every, lambda: _every(Globs(pattern.every))),
        (plain, lambda: _no_target(Globs(plain))),
        (pattern.unless_every, lambda: _not_every(Globs(pattern.unless_every))),
        (
            dashed or pattern.harmless,
            lambda: _forbid_flag(FlagForms([*pattern.harmless, *dashed], shortened=False)),
        ),
    ]
    return tuple(make() for wanted, make in conditions if wanted)


def _require_flag(forms: FlagForms) -> Condition:
    return lambda words: forms.is_among(words.flags)


def _forbid_flag(forms: FlagForms) -> Condition:
    return lambda words: not forms.is_among(words.flags_on)


def _limit_args(count: int) -> Condition:
    return lambda words: len(words.command.args) <= count


def _require_source(programs: Globs) -> Condition:
    return lambda words: programs.match_any([command.program for command in words.command.fed_by])


def _require_fed_args(texts: Globs, programs: Globs) -> Condition:
    return lambda words: any(
        programs.match(command.program) and texts.match_any(CommandWords(command).targets)
        for command in words.command.fed_by
    )


def _make_via(names: Globs) -> Condition:
    return lambda words: names.match_any(words.command.via)


def _require_words(texts: list[str]) -> Condition:
    steps = [None if text == _ANYTHING_BETWEEN else Globs([text]) for text in texts]
    return lambda words: _holds_in_order(steps, words.words[:MOST_WORDS], 0, 0)


def _holds_in_order(steps: list[Globs | None], words: list[tuple[str, bool]], step: int, index: int) -> bool:
    if step == len(steps):
        return True
    wanted, anywhere = steps[step], False
    if wanted is None:
        step += 1
        wanted, anywhere = steps[step] if step < len(steps) else None, True
        if wanted is None:
            return True
    for at in range(index, len(words)):
        word, after_flag = words[at]
        if wanted.match(word) and _holds_in_order(steps, words, step + 1, at + 1):
            return True
        if not (anywhere or after_flag):
            return False
    return False


def _target(texts: Globs) -> Condition:
    return lambda words: texts.match_any(words.targets)


def _no_target(texts: Globs) -> Condition:
    return lambda words: not texts.match_any(words.targets)


def _last(texts: Globs) -> Condition:
    return lambda words: texts.match(words.last)


def _every(texts: Globs) -> Condition:
    return lambda words: bool(words.operands) and all(texts.match(operand) for operand in words.operands)


def _not_every(texts: Globs) -> Condition:
    return lambda words: not (words.operands and all(texts.match(operand) for operand in words.operands))


def _writes(texts: Globs) -> Condition:
    return lambda words: texts.match_any(words.written)


def _stdin(texts: Globs) -> Condition:
    return lambda words: words.command.stdin is not None and texts.match(words.command.stdin.lower())


def _require_assignment(texts: Globs) -> Condition:
    return lambda words: any(
        texts.match("=".join(assignment).lower()) for assignment in words.command.assigned
    )
