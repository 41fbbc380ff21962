"""One action under inspection: each leaf in each form, as its language, and what it runs in others."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeVar

from app.core.gate1.allowance import UNFOLDED_CHARS, Allowance
from app.core.gate1.inspection import Hit, Inspection
from app.core.gate1.languages import language_of
from app.core.gate1.leaves import LEAVES
from app.core.gate1.place import Place
from app.core.gate1.python import read_python
from app.core.gate1.scan import past_bounds
from app.core.gate1.shell import ShellReading, read_shell
from app.core.gate1.shell.code_strings import commands_in_code
from app.core.gate1.sql.in_code import sql_in_code
from app.core.gate1.sql.reading import read_sql
from app.core.gate1.statement_like import begins_change, begins_command, begins_statement, first_word, is_sql
from app.core.gate1.targets import spellings
from app.core.gate1.tells import ANYTHING, JOINT, may_be_disguised, may_break_out, tells
from app.core.gate1.unfold import forms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from app.core.gate1.leaves import Leaf, Walk
    from app.core.gate1.matchers import Matchers
    from app.core.gate1.pattern import Described
    from app.core.gate1.shell import Nested
    from app.core.gate1.sql.handed_on import HandedOn
    from app.core.gate1.text_patterns import Language

Inner = TypeVar("Inner", "Nested", "HandedOn")
CODE_CHARS = 32 * 1024
"""A longer program is not searched for commands and statements."""
PORTION = 32
"""So many leaves are scanned together; only where the scan of a portion answers is each asked alone."""
PYTHON_CHARS = 8 * 1024
"""What of one action's code is read with Python's grammar."""
NESTED = 4
"""How deep a language within a language is followed."""
_COMMAND_LANGUAGES = frozenset(["powershell", "cmd", "shell"])


class Inspector:
    """Collects hits over the leaves of one action, within its bounds."""

    __slots__ = (
        "_action_type",
        "_allowance",
        "_code_left",
        "_hits",
        "_inconclusive",
        "_matchers",
        "_tells",
        "_texts",
        "_tool_name",
    )

    def __init__(self, matchers: Matchers, tool_name: str, action_type: str) -> None:
        self._matchers = matchers
        self._tool_name = tool_name
        self._action_type = action_type
        self._hits: dict[tuple[str, str], Hit] = {}
        self._texts = [tool_name]
        self._tells = ANYTHING
        self._code_left = PYTHON_CHARS
        self._inconclusive: str | None = None
        self._allowance = Allowance(0)

    def inspect(self, walk: Walk) -> Inspection:
        """What there is in the parameters walked; of more texts than the bound none is read."""
        texts = walk.texts()
        self._texts += texts
        self._texts += walk.keys
        if walk.more:
            self._doubt(f"more than {LEAVES} texts to read")
        else:
            self._allowance = Allowance(sum(map(len, texts)))
            for start in range(0, len(texts), PORTION):
                self._tells = tells(JOINT.join(texts[start : start + PORTION]), self._matchers)
                for leaf in walk.leaves[start : start + PORTION]:
                    self._leaf(leaf)
        return Inspection(tuple(self._hits.values()), self._inconclusive, tuple(self._texts))

    def _leaf(self, leaf: Leaf) -> None:
        language = language_of(self._tool_name, self._action_type, leaf.key) if leaf.whole else None
        self._text(leaf.text, language, Place(leaf.trail))
        if self._tells.disguise and len(leaf.text) <= UNFOLDED_CHARS and may_be_disguised(leaf.text):
            told, self._tells = self._tells, ANYTHING
            self._forms(leaf, language)
            self._tells = told

    def _forms(self, leaf: Leaf, language: Language | None) -> None:
        if self._allowance.all_unfolded:
            return
        for form in forms(leaf.text):
            past = self._allowance.not_unfolded(form.text)
            if past is not None:
                self._doubt(past)
                return
            self._texts.append(form.text)
            self._text(form.text, language, Place(leaf.trail, form.how))

    def _text(self, text: str, language: Language | None, place: Place) -> None:
        """A leaf in one form: targets may be named in it; with a language it is also read."""
        spelled: list[str] = []
        if self._tells.spelling and len(text) <= UNFOLDED_CHARS:
            spelled = list(spellings(text))
            self._texts += spelled
        if language is None:
            return
        if self._tells.text:
            self._found(self._matchers.text.matches(text, language), place)
        if language in ("code", "value"):
            self._targets(text, spelled, place)
        if language != "prose":
            self._READERS[language](self, text, place)

    def _targets(self, text: str, spelled: list[str], place: Place) -> None:
        if self._tells.target:
            self._found(self._matchers.targets.matches(text), place)
        if spelled:
            self._found(self._matchers.targets.matches(JOINT.join(spelled)), place)

    def _shell(self, text: str, place: Place) -> None:
        if not self._may_parse(text):
            return
        reading = self._shell_reading(text)
        self._doubt(reading.inconclusive)
        self._commands(reading, place)
        if begins_change(first_word(text)) and is_sql(text):
            self._sql(text, place)

    def _shell_reading(self, text: str) -> ShellReading:
        reading = read_shell(text, self._allowance.shell_work)
        self._allowance.shell_work -= reading.work
        return reading

    def _commands(self, reading: ShellReading, place: Place) -> None:
        self._found(self._matchers.commands.matches(reading), place)
        for command in reading.commands:
            self._texts += command.args
        for nested, inner in self._within(reading.nested, place):
            if nested.language == "sql":
                self._sql(nested.text, inner)
            elif nested.language == "python":
                self._found(self._matchers.text.matches(nested.text, "code"), inner)
                self._python(nested.text, inner)
            else:
                language: Language = "shell" if nested.language in _COMMAND_LANGUAGES else "code"
                self._found(self._matchers.text.matches(nested.text, language), inner)

    def _sql(self, text: str, place: Place) -> None:
        if not self._may_parse(text):
            return
        reading = read_sql(text)
        self._doubt(reading.inconclusive)
        for statement in reading.statements:
            self._found(self._matchers.sql.matches(statement), place)
        if not begins_statement(first_word(text)):
            self._found(self._matchers.injection.matches(text), place)
        for nested, inner in self._within(reading.nested, place):
            if nested.language == "sql":
                self._sql(nested.text, inner)
            else:
                self._shell(nested.text, inner)

    def _within(self, every: Iterable[Inner], place: Place) -> Iterator[tuple[Inner, Place]]:
        """Texts in another language with their places, as deep as languages are followed."""
        for nested in every:
            inner = place.within(nested.how)
            if inner.depth > NESTED:
                self._doubt("languages are nested too deep to follow")
            else:
                yield nested, inner

    def _code(self, text: str, place: Place) -> None:
        if len(text) > CODE_CHARS:
            self._doubt(f"{len(text)} characters of code are too many to read")
            return
        if self._python(text, place):
            return
        for command in commands_in_code(text):
            self._shell(command, place.within("code"))
        for statement in sql_in_code(text):
            self._sql(statement, place.within("code"))

    def _python(self, text: str, place: Place) -> bool:
        """Whether it is Python, and then it is read as such, up to a bound on all of an action's code."""
        if len(text) > self._code_left:
            self._doubt("too much code to read with its grammar")
            return False
        self._code_left -= len(text)
        reading = read_python(text)
        self._doubt(reading.inconclusive)
        self._commands(ShellReading(*reading[:3]), place.within("python"))
        return reading.parsed

    def _value(self, text: str, place: Place) -> None:
        if self._allowance.spent:
            return
        if self._tells.breakout and may_break_out(text) and self._may_parse(text):
            self._found(self._matchers.injection.matches(text), place)
        word = first_word(text)
        if begins_command(word, text, self._matchers.programs) and self._may_parse(text):
            self._commands(self._shell_reading(text), place)
        if begins_change(word) and self._may_parse(text) and is_sql(text):
            self._sql(text, place)

    def _may_parse(self, text: str) -> bool:
        if self._allowance.spent:
            return False
        past = past_bounds(text) or self._allowance.refused(text)
        self._doubt(past)
        return past is None

    def _doubt(self, reason: str | None) -> None:
        self._inconclusive = self._inconclusive or reason

    def _found(self, patterns: Iterable[Described], place: Place) -> None:
        for one in patterns:
            path = place.path
            key = (one.id, path)
            if key not in self._hits:
                self._hits[key] = Hit(one.id, one.reason, one.severity, path, place.how)

    _READERS: ClassVar = {"shell": _shell, "sql": _sql, "code": _code, "value": _value}
