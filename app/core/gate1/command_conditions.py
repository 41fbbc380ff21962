"""A pattern's conditions, compiled: those that most commands fail at once come first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.gate1.command_globs import Globs
from app.core.gate1.command_words import CommandWords

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.core.gate1.command_patterns import CommandPattern
    from app.core.gate1.command_words import Flag

    Condition = Callable[[CommandWords], bool]

LEAST_PREFIX = 5
"""Characters, dashes included, from which a shortened long flag counts (GNU getopt takes `--recurs`)."""
_ANYTHING_BETWEEN = "**"


class FlagForm:
    """One way to write a flag: `-r`, `--recursive`, `-X=DELETE`."""

    __slots__ = ("letter", "name", "shortened", "value")

    def __init__(self, text: str, *, shortened: bool) -> None:
        """`shortened`: whether a beginning of a long flag counts, as GNU getopt takes it."""
        self.shortened = shortened
        self.name, equals, value = text.partition("=")
        self.value = Globs([value]) if equals else None
        self.letter = self.name[1] if len(self.name) == 2 and self.name[0] == "-" else ""  # noqa: PLR2004 - a dash and a letter

    def fits(self, flag: Flag) -> bool:
        """Whether the command's flag is this one, in a bundle or shortened too, with the value asked for."""
        own = flag.name
        if self.letter:
            return self.letter in own and own[1] != "-" and (self.value is None or self._letter_value(flag))
        own = own.lower()
        if own != self.name and not (self.shortened and self._begins(own)):
            return False
        return self.value is None or self._value(flag)

    def _begins(self, own: str) -> bool:
        return len(own) >= LEAST_PREFIX and own[:2] == "--" and self.name.startswith(own)

    def _letter_value(self, flag: Flag) -> bool:
        rest = flag.name[flag.name.index(self.letter) + 1 :]
        return self.value is not None and self.value.match(rest.lower()) if rest else self._value(flag)

    def _value(self, flag: Flag) -> bool:
        given = flag.following if flag.value is None else flag.value
        return given is not None and self.value is not None and self.value.match(given.lower())


def compiled(pattern: CommandPattern) -> tuple[Condition, ...]:
    """All conditions of a pattern."""
    dashed = [text for text in pattern.unless if text[:1] == "-"]
    plain = [text for text in pattern.unless if text[:1] != "-"]
    given: list[tuple[object, Callable[[], Condition]]] = [
        (pattern.writes, lambda: _writes(Globs(pattern.writes))),
        (pattern.assigned, lambda: _assigned(Globs(pattern.assigned))),
        (pattern.stdin, lambda: _stdin(Globs(pattern.stdin))),
        (pattern.fed_by, lambda: _fed_by(Globs(pattern.fed_by))),
        (pattern.fed_args, lambda: _fed_args(Globs(pattern.fed_args), Globs(pattern.fed_by or ["*"]))),
        (pattern.via, lambda: _via(Globs(pattern.via))),
        (pattern.at_most is not None, lambda: _at_most(pattern.at_most or 0)),
        *((True, lambda text=text: _flagged(_forms([text], shortened=True))) for text in pattern.flags),
        (pattern.words, lambda: _worded(pattern.words)),
        *((True, lambda text=text: _target(Globs([text]))) for text in pattern.args),
        (pattern.last, lambda: _last(Globs(pattern.last))),
        (pattern.every, lambda: _every(Globs(pattern.every))),
        (plain, lambda: _no_target(Globs(plain))),
        (pattern.unless_every, lambda: _not_every(Globs(pattern.unless_every))),
        (
            dashed or pattern.harmless,
            lambda: _unflagged(_forms([*pattern.harmless, *dashed], shortened=False)),
        ),
    ]
    return tuple(make() for wanted, make in given if wanted)


def _forms(texts: list[str], *, shortened: bool) -> tuple[FlagForm, ...]:
    return tuple(FlagForm(one, shortened=shortened) for text in texts for one in text.split("|"))


def _flagged(forms: tuple[FlagForm, ...]) -> Condition:
    return lambda words: any(form.fits(flag) for flag in words.flags for form in forms)


def _unflagged(forms: tuple[FlagForm, ...]) -> Condition:
    return lambda words: not any(form.fits(flag) and not flag.off for flag in words.flags for form in forms)


def _at_most(count: int) -> Condition:
    return lambda words: len(words.command.args) <= count


def _fed_by(programs: Globs) -> Condition:
    return lambda words: any(programs.match(one.program) for one in words.command.fed_by)


def _fed_args(texts: Globs, programs: Globs) -> Condition:
    return lambda words: any(
        programs.match(one.program) and any(texts.match(target) for target in CommandWords(one).targets)
        for one in words.command.fed_by
    )


def _via(names: Globs) -> Condition:
    return lambda words: any(names.match(name) for name in words.command.via)


def _worded(texts: list[str]) -> Condition:
    steps = [None if text == _ANYTHING_BETWEEN else Globs([text]) for text in texts]
    return lambda words: _in_order(steps, words.words, 0, 0)


def _in_order(steps: list[Globs | None], words: list[tuple[str, bool]], step: int, place: int) -> bool:
    if step == len(steps):
        return True
    wanted, anywhere = steps[step], False
    if wanted is None:
        step += 1
        wanted, anywhere = steps[step] if step < len(steps) else None, True
        if wanted is None:
            return True
    for at in range(place, len(words)):
        word, after_flag = words[at]
        if wanted.match(word) and _in_order(steps, words, step + 1, at + 1):
            return True
        if not (anywhere or after_flag):
            return False
    return False


def _target(texts: Globs) -> Condition:
    return lambda words: any(texts.match(target) for target in words.targets)


def _no_target(texts: Globs) -> Condition:
    return lambda words: not any(texts.match(target) for target in words.targets)


def _last(texts: Globs) -> Condition:
    return lambda words: texts.match(words.last)


def _every(texts: Globs) -> Condition:
    return lambda words: bool(words.operands) and all(texts.match(one) for one in words.operands)


def _not_every(texts: Globs) -> Condition:
    return lambda words: not (words.operands and all(texts.match(one) for one in words.operands))


def _writes(texts: Globs) -> Condition:
    return lambda words: any(texts.match(one) for one in words.written)


def _stdin(texts: Globs) -> Condition:
    return lambda words: words.command.stdin is not None and texts.match(words.command.stdin.lower())


def _assigned(texts: Globs) -> Condition:
    return lambda words: any(texts.match("=".join(one).lower()) for one in words.command.assigned)
