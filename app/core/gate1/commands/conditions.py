"""A pattern's conditions, compiled: those that most commands fail at once come first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.gate1.commands.flags import FlagForms
from app.core.gate1.commands.globs import Globs
from app.core.gate1.commands.words import MOST_WORDS, CommandWords

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.core.gate1.commands.patterns import CommandPattern

    Condition = Callable[[CommandWords], bool]

_ANYTHING_BETWEEN = "**"


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
        *((True, lambda text=text: _flagged(FlagForms([text], shortened=True))) for text in pattern.flags),
        (pattern.words, lambda: _worded(pattern.words)),
        *((True, lambda text=text: _target(Globs([text]))) for text in pattern.args),
        (pattern.last, lambda: _last(Globs(pattern.last))),
        (pattern.every, lambda: _every(Globs(pattern.every))),
        (plain, lambda: _no_target(Globs(plain))),
        (pattern.unless_every, lambda: _not_every(Globs(pattern.unless_every))),
        (
            dashed or pattern.harmless,
            lambda: _unflagged(FlagForms([*pattern.harmless, *dashed], shortened=False)),
        ),
    ]
    return tuple(make() for wanted, make in given if wanted)


def _flagged(forms: FlagForms) -> Condition:
    return lambda words: forms.among(words.flags)


def _unflagged(forms: FlagForms) -> Condition:
    return lambda words: not forms.among(words.flags_on)


def _at_most(count: int) -> Condition:
    return lambda words: len(words.command.args) <= count


def _fed_by(programs: Globs) -> Condition:
    return lambda words: programs.match_any([one.program for one in words.command.fed_by])


def _fed_args(texts: Globs, programs: Globs) -> Condition:
    return lambda words: any(
        programs.match(one.program) and texts.match_any(CommandWords(one).targets)
        for one in words.command.fed_by
    )


def _via(names: Globs) -> Condition:
    return lambda words: names.match_any(words.command.via)


def _worded(texts: list[str]) -> Condition:
    steps = [None if text == _ANYTHING_BETWEEN else Globs([text]) for text in texts]
    return lambda words: _in_order(steps, words.words[:MOST_WORDS], 0, 0)


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
    return lambda words: texts.match_any(words.targets)


def _no_target(texts: Globs) -> Condition:
    return lambda words: not texts.match_any(words.targets)


def _last(texts: Globs) -> Condition:
    return lambda words: texts.match(words.last)


def _every(texts: Globs) -> Condition:
    return lambda words: bool(words.operands) and all(texts.match(one) for one in words.operands)


def _not_every(texts: Globs) -> Condition:
    return lambda words: not (words.operands and all(texts.match(one) for one in words.operands))


def _writes(texts: Globs) -> Condition:
    return lambda words: texts.match_any(words.written)


def _stdin(texts: Globs) -> Condition:
    return lambda words: words.command.stdin is not None and texts.match(words.command.stdin.lower())


def _assigned(texts: Globs) -> Condition:
    return lambda words: any(texts.match("=".join(one).lower()) for one in words.command.assigned)
