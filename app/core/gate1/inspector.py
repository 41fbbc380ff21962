"""One action under inspection: each leaf in each form, as its language, and what it runs in others."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from app.core.gate1.code_sql import sql_in_code
from app.core.gate1.inspection import Hit, Inspection
from app.core.gate1.languages import language_of
from app.core.gate1.place import Place
from app.core.gate1.scan import past_bounds
from app.core.gate1.shell import read_shell
from app.core.gate1.shell.code_strings import commands_in_code
from app.core.gate1.sql_reading import read_sql
from app.core.gate1.statement_like import begins_change, begins_command, begins_statement, is_sql
from app.core.gate1.targets import spellings
from app.core.gate1.tells import ANYTHING, JOINT, may_break_out, tells
from app.core.gate1.unfold import forms

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.core.gate1.leaves import Leaf
    from app.core.gate1.matchers import Matchers
    from app.core.gate1.pattern import Described
    from app.core.gate1.shell import ShellReading
    from app.core.gate1.text_patterns import Language

UNFOLDED_CHARS = 3072
"""A longer text is not unfolded, nor more than so many characters of an action's disguises read."""
CODE_CHARS = 32 * 1024
"""A longer program is not searched for commands and statements."""
PARSED_CHARS_PER_ACTION = 4 * 1024
"""All that one action gives to parsers; what would come after is not parsed, and the result inconclusive."""
LEAVES = 500
"""The most string leaves that are looked at one by one."""
NESTED = 4
"""How deep a language within a language is followed."""
_COMMAND_LANGUAGES = frozenset(["powershell", "cmd", "shell"])


class Inspector:
    """Collects hits over the leaves of one action, within its bounds."""

    def __init__(self, matchers: Matchers, tool_name: str, action_type: str) -> None:
        self._matchers = matchers
        self._tool_name = tool_name
        self._action_type = action_type
        self._hits: dict[tuple[str, str], Hit] = {}
        self._texts: dict[str, None] = {tool_name: None}
        self._tells = ANYTHING
        self._inconclusive: str | None = None
        self._forms_left = UNFOLDED_CHARS
        self._chars_left = PARSED_CHARS_PER_ACTION

    def inspect(self, leaves: list[Leaf]) -> None:
        """Read the leaves, up to the bound on their number."""
        self._tells = tells(JOINT.join(leaf.text for leaf in leaves), self._matchers)
        if len(leaves) > LEAVES:
            self._doubt(f"more than {LEAVES} texts to read")
        for leaf in leaves[:LEAVES]:
            self._leaf(leaf)
        self._texts.update((leaf.text, None) for leaf in leaves[LEAVES:])

    def result(self, keys: Iterable[str]) -> Inspection:
        """What was found; `keys` may name targets too."""
        self._texts.update(dict.fromkeys(keys))
        return Inspection(tuple(self._hits.values()), self._inconclusive, tuple(self._texts))

    def _leaf(self, leaf: Leaf) -> None:
        language = language_of(self._tool_name, self._action_type, leaf.key)
        self._text(leaf.text, language if leaf.whole else None, Place(leaf.path))
        if self._tells.disguise and len(leaf.text) <= UNFOLDED_CHARS:
            for form in forms(leaf.text):
                if not self._may_unfold(form.text):
                    return
                self._tells = ANYTHING
                self._text(form.text, language if leaf.whole else None, Place(leaf.path, form.how))

    def _text(self, text: str, language: Language | None, place: Place) -> None:
        """A leaf in one form: targets may be named in it; with a language it is also read."""
        self._texts[text] = None
        if self._tells.spelling and len(text) <= UNFOLDED_CHARS:
            self._texts.update(dict.fromkeys(spellings(text)))
        if language is None:
            return
        if self._tells.text:
            self._found(self._matchers.text.matches(text, language), place)
        if language != "prose":
            self._READERS[language](self, text, place)

    def _shell(self, text: str, place: Place) -> None:
        if self._may_parse(text):
            reading = read_shell(text)
            self._doubt(reading.inconclusive)
            self._commands(reading, place)
        if begins_change(text) and past_bounds(text) is None and is_sql(text):
            self._sql(text, place)

    def _commands(self, reading: ShellReading, place: Place) -> None:
        self._found(self._matchers.commands.matches(reading), place)
        self._texts.update((word, None) for command in reading.commands for word in command.args)
        for nested in reading.nested:
            inner = place.within(nested.how)
            if inner.depth > NESTED:
                self._doubt("languages are nested too deep to follow")
            elif nested.language == "sql":
                self._sql(nested.text, inner)
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
        if not begins_statement(text):
            self._found(self._matchers.injection.matches(text), place)
        for nested in reading.nested:
            inner = place.within(nested.how)
            if inner.depth > NESTED:
                self._doubt("languages are nested too deep to follow")
            elif nested.language == "sql":
                self._sql(nested.text, inner)
            else:
                self._shell(nested.text, inner)

    def _code(self, text: str, place: Place) -> None:
        self._targets(text, place)
        if len(text) > CODE_CHARS:
            self._doubt(f"{len(text)} characters of code are too many to read")
            return
        for command in commands_in_code(text):
            self._shell(command, place.within("code"))
        for statement in sql_in_code(text):
            self._sql(statement, place.within("code"))

    def _value(self, text: str, place: Place) -> None:
        self._targets(text, place)
        if self._tells.breakout and may_break_out(text) and self._may_parse(text):
            self._found(self._matchers.injection.matches(text), place)
        if begins_command(text, self._matchers.programs) and self._may_parse(text):
            self._commands(read_shell(text), place)
        if begins_change(text) and self._may_parse(text) and is_sql(text):
            self._sql(text, place)

    def _targets(self, text: str, place: Place) -> None:
        if self._tells.target:
            self._found(self._matchers.targets.matches(text), place)
        if self._tells.spelling and len(text) <= UNFOLDED_CHARS:
            spelled = JOINT.join(spellings(text))
            self._found(self._matchers.targets.matches(spelled), place)

    def _may_unfold(self, text: str) -> bool:
        self._forms_left -= len(text)
        if self._forms_left < 0:
            self._doubt(f"more than {UNFOLDED_CHARS} characters of disguises")
        return self._forms_left >= 0

    def _may_parse(self, text: str) -> bool:
        past = past_bounds(text)
        if past is None:
            self._chars_left -= len(text)
            if self._chars_left >= 0:
                return True
            past = f"more than {PARSED_CHARS_PER_ACTION} characters to parse"
        self._doubt(past)
        return False

    def _doubt(self, reason: str | None) -> None:
        self._inconclusive = self._inconclusive or reason

    def _found(self, patterns: Iterable[Described], place: Place) -> None:
        for one in patterns:
            key = (one.id, place.path)
            if key not in self._hits:
                self._hits[key] = Hit(one.id, one.reason, one.severity, place.path, place.how)

    _READERS: ClassVar = {"shell": _shell, "sql": _sql, "code": _code, "value": _value}
