"""One action under inspection: each leaf in each form, as its language, and what it runs in others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from sluice.detection.commands.calls import may_change, milder, read_calls
from sluice.detection.commands.changes import (
    STATEMENT_WORDS,
    begins_change,
    begins_command,
    changes_data,
    first_word,
    is_sql,
    may_write,
)
from sluice.detection.commands.inspection import Hit, Inspection
from sluice.detection.commands.languages import language_of
from sluice.detection.commands.leaves import LEAVES, LeafPlace
from sluice.detection.commands.matchers import (
    ANYTHING,
    JOINT,
    REQUESTS,
    find_cues,
    may_be_disguised,
    may_break_out,
)
from sluice.detection.commands.program_lines import find_program, lines_of
from sluice.detection.commands.python import read_python
from sluice.detection.commands.shell import ShellReading, read_shell
from sluice.detection.commands.sql.sql_reading import read_sql, sql_in_code
from sluice.detection.commands.targets import spellings
from sluice.detection.commands.written.contents import run_by_itself
from sluice.detection.commands.written.writes import files_of, find_written_files, meant
from sluice.detection.disguises.scan import PARSED_NESTING, UNFOLDED_CHARS, exceed_bounds
from sluice.detection.disguises.unfold import TooManyForms, forms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sluice.detection.commands.inspection import Described
    from sluice.detection.commands.languages import Language
    from sluice.detection.commands.leaves import Leaf, Walk
    from sluice.detection.commands.matchers import Matchers
    from sluice.detection.commands.shell import Nested
    from sluice.detection.commands.sql.effects import HandedOn
    from sluice_topics.records.base import Severity

Inner = TypeVar("Inner", "Nested", "HandedOn")
_COMMAND_LANGUAGES = frozenset(["powershell", "cmd", "shell"])

PARSED_CHARS_PER_ACTION = 4 * 1024
"""All that one action gives to parsers: 1 to 2 ms for each thousand."""
CODE_CHARS = 32 * 1024
"""A longer program is not searched for commands and statements."""
PORTION = 32
"""So many leaves are scanned together; only where the scan of a portion answers is each asked alone."""
PYTHON_CHARS = 8 * 1024
"""What of one action's code is read with Python's grammar, and what by its calls."""
NESTED = 4
"""How deep a language within a language is followed."""
LARGE_CHARS = 16 * 1024
"""An action of more text spends its time on the linear scan of it."""
PARSED_CHARS_WITH_LARGE, PARSED_TEXTS_WITH_LARGE, UNFOLDED_CHARS_WITH_LARGE = 512, 8, 1024
"""What such an action gives to parsers, and has unfolded."""


SHELL_WORK_PER_ACTION = 2.0
"""All shell texts of an action together; what one text may cost is 1.0 (shell/bounds.py), some 10 ms."""


class Allowance:
    """Counts down what is parsed and unfolded of an action. What would come after is not: the reading is
    inconclusive.

    `shell_work` is what is left; `spent`: a text was not parsed, and so is no later one; `all_unfolded`:
    the same of disguises.
    """

    __slots__ = (
        "_forms",
        "_forms_left",
        "_parsed",
        "_parsed_left",
        "_texts_left",
        "all_unfolded",
        "shell_work",
        "spent",
    )

    def __init__(self, chars: int) -> None:
        """For an action whose texts have so many characters together."""
        large = chars > LARGE_CHARS
        self._parsed = self._parsed_left = PARSED_CHARS_WITH_LARGE if large else PARSED_CHARS_PER_ACTION
        self._texts_left = PARSED_TEXTS_WITH_LARGE if large else PARSED_CHARS_PER_ACTION
        self._forms = self._forms_left = UNFOLDED_CHARS_WITH_LARGE if large else UNFOLDED_CHARS
        self.shell_work = SHELL_WORK_PER_ACTION
        self.spent = self.all_unfolded = False

    def spend(self, text: str) -> str | None:
        """Count a text before it is parsed; why it may not be parsed any more, None where it may."""
        self._parsed_left -= len(text)
        self._texts_left -= 1
        self.spent = self._parsed_left < 0 or self._texts_left < 0
        return f"more than {self._parsed} characters to parse" if self.spent else None

    def spend_on_form(self, form: str) -> None:
        """Count a form of a text before it is read. Raises TooManyForms where no more may be read."""
        self._forms_left -= len(form)
        self.all_unfolded = self._forms_left < 0
        if self.all_unfolded:
            raise TooManyForms(f"more than {self._forms} characters of disguises")


class Inspector:
    """Collects hits over the leaves of one action, within its bounds."""

    __slots__ = (
        "_action_type", "_allowance", "_changes", "_code_left", "_cues", "_hits",
        "_inconclusive", "_matchers", "_texts", "_tool_name",
    )  # fmt: skip

    def __init__(self, matchers: Matchers, tool_name: str, action_type: str) -> None:
        self._matchers = matchers
        self._tool_name = tool_name
        self._action_type = action_type
        self._hits: dict[tuple[str, str], Hit] = {}
        self._texts = [tool_name]
        self._cues = ANYTHING
        self._code_left = PYTHON_CHARS
        self._inconclusive: str | None = None
        self._changes = False

    def inspect(self, walk: Walk, parameters: dict[str, Any]) -> Inspection:
        """What is in the parameters, by the walk over them too; of more texts than the bound none is read."""
        texts = walk.texts
        self._texts += [*texts, *walk.keys]
        self._allowance = Allowance(sum(map(len, texts)))
        if walk.more:
            self._doubt(f"more than {LEAVES} texts to read")
        else:
            named = self._matchers.cues.search_names([self._tool_name, *walk.keys])
            requests, wants_location = named & REQUESTS, "place" in named
            for start in range(0, len(texts), PORTION):
                self._cues = find_cues(texts[start : start + PORTION], self._matchers)
                requests |= self._cues.requests
                wants_location = wants_location or self._cues.location
                for leaf in walk.leaves[start : start + PORTION]:
                    self._leaf(leaf)
            if wants_location:
                self._files(walk)
            if requests or find_program(self._tool_name, self._matchers.programs) is not None:
                self._structure(parameters, requests)
        changes = self._changes or bool(self._hits) or self._inconclusive is not None
        return Inspection(tuple(self._hits.values()), self._inconclusive, tuple(self._texts), changes)

    def _files(self, walk: Walk) -> None:
        """The files that the call writes, where it names one whose content runs by itself."""
        for file in find_written_files(self._tool_name, walk, self._matchers.files):
            try:
                for how, content in meant(file.content):
                    self._judge_file(file.path, content, LeafPlace(file.trail, how))
            except TooManyForms as error:
                self._doubt(str(error))

    def _judge_file(self, path: str, content: str | None, location: LeafPlace) -> None:
        """A file at that place: what its pattern says, and what it runs."""
        placed = self._matchers.files.judge(path, content)
        self._add_all(placed.patterns, location)
        if placed.reads and location.depth >= NESTED:
            self._doubt("languages are nested too deep to follow")
            return
        for reads in placed.reads:
            for text in run_by_itself(content or "", reads):
                inner = location.nest(reads)
                if reads == "python":
                    self._python(text, inner)
                else:
                    self._add_all(self._matchers.text.matches(text, "shell"), inner)
                    self._shell(text, inner)

    def _structure(self, parameters: dict[str, Any], requests: frozenset[str]) -> None:
        """The parameters together: the command line or the requests that they stand for.

        `requests`: what of a request may stand in the texts, the keys and the tool's name.
        """
        named_after = find_program(self._tool_name, self._matchers.programs)
        if named_after is not None:
            for line in lines_of(named_after, parameters):
                self._shell(line, LeafPlace(None, named_after.name))
        if not requests:
            return
        reading = read_calls(self._tool_name, parameters, self._matchers.calls.verbs, requests)
        self._doubt(reading.inconclusive)
        self._changes = self._changes or any(may_change(call) for call, _ in reading.calls)
        for call, trail in reading.calls:
            for pattern in self._matchers.calls.matches(call):
                self._hit(pattern, milder(pattern.severity, call.trial), LeafPlace(trail, call.protocol))
        for program, text, trail in reading.lines:
            self._shell(text, LeafPlace(trail, program))
        for name, value, trail in reading.fields:
            language = language_of(self._tool_name, self._action_type, name)
            self._text(value, language, LeafPlace(trail, "field"))

    def _leaf(self, leaf: Leaf) -> None:
        language = language_of(self._tool_name, self._action_type, leaf.key) if leaf.whole else None
        self._text(leaf.text, language, LeafPlace(leaf.trail))
        if self._cues.disguise and len(leaf.text) <= UNFOLDED_CHARS and may_be_disguised(leaf.text):
            cues, self._cues = self._cues, ANYTHING
            self._forms(leaf, language)
            self._cues = cues

    def _forms(self, leaf: Leaf, language: Language | None) -> None:
        if self._allowance.all_unfolded:
            return
        try:
            for form in forms(leaf.text):
                self._allowance.spend_on_form(form.text)
                self._texts.append(form.text)
                self._text(form.text, language, LeafPlace(leaf.trail, form.how))
        except TooManyForms as error:
            self._doubt(str(error))

    def _text(self, text: str, language: Language | None, location: LeafPlace) -> None:
        """A leaf in one form: targets may be named in it; with a language it is also read."""
        spelled: list[str] = []
        if self._cues.spelling and len(text) <= UNFOLDED_CHARS:
            spelled = list(spellings(text))
            self._texts += spelled
        if language is None:
            return
        if self._cues.text:
            self._add_all(self._matchers.text.matches(text, language), location)
        if language in ("code", "value"):
            self._targets(text, spelled, location)
        if language != "prose":
            self._READERS[language](self, text, location)

    def _targets(self, text: str, spelled: list[str], location: LeafPlace) -> None:
        if self._cues.target:
            self._add_all(self._matchers.targets.matches(text), location)
        if spelled:
            self._add_all(self._matchers.targets.matches(JOINT.join(spelled)), location)

    def _shell(self, text: str, location: LeafPlace) -> None:
        if not self._may_parse(text):
            return
        reading = self._shell_reading(text)
        self._doubt(reading.inconclusive)
        self._commands(reading, location)
        if begins_change(first_word(text)) and is_sql(text):
            self._sql(text, location)

    def _shell_reading(self, text: str) -> ShellReading:
        reading = read_shell(text, self._allowance.shell_work)
        self._allowance.shell_work -= reading.work
        return reading

    def _commands(self, reading: ShellReading, location: LeafPlace) -> None:
        self._add_all(self._matchers.commands.matches(reading), location)
        for command in reading.commands:
            self._texts += command.args
            self._changes = self._changes or may_write(command)
            for path, content in files_of(command):
                self._judge_file(path, content, location)
        for nested, inner in self._go_within(reading.nested, location):
            if nested.language == "sql":
                self._sql(nested.text, inner)
            elif nested.language == "python":
                self._add_all(self._matchers.text.matches(nested.text, "code"), inner)
                self._python(nested.text, inner)
            else:
                language: Language = "shell" if nested.language in _COMMAND_LANGUAGES else "code"
                self._add_all(self._matchers.text.matches(nested.text, language), inner)

    def _sql(self, text: str, location: LeafPlace) -> None:
        if not self._may_parse(text):
            return
        if self._matchers.sql.excuse(text):
            if text.partition(" ")[0].upper() not in STATEMENT_WORDS:
                self._add_all(self._matchers.injection.matches(text), location)
            return
        reading = read_sql(text)
        self._doubt(reading.inconclusive)
        for statement in reading.statements:
            self._add_all(self._matchers.sql.matches(statement), location)
            self._changes = self._changes or changes_data(statement)
        if first_word(text).upper() not in STATEMENT_WORDS:
            self._add_all(self._matchers.injection.matches(text), location)
        for nested, inner in self._go_within(reading.nested, location):
            if nested.language == "sql":
                self._sql(nested.text, inner)
            else:
                self._shell(nested.text, inner)

    def _go_within(self, every: Iterable[Inner], location: LeafPlace) -> Iterator[tuple[Inner, LeafPlace]]:
        """Texts in another language with their places, as deep as languages are followed."""
        for nested in every:
            inner = location.nest(nested.how)
            if inner.depth > NESTED:
                self._doubt("languages are nested too deep to follow")
            else:
                yield nested, inner

    def _code(self, text: str, location: LeafPlace) -> None:
        if len(text) > CODE_CHARS:
            self._doubt(f"{len(text)} characters of code are too many to read")
            return
        if self._python(text, location):
            return
        for statement in sql_in_code(text):
            self._sql(statement, location.nest("code"))

    def _python(self, text: str, location: LeafPlace) -> bool:
        """Whether it is Python, and then it is read as such, up to a bound on all of an action's code."""
        if len(text) > self._code_left:
            self._doubt("too much code to read with its grammar")
            return False
        self._code_left -= len(text)
        reading = read_python(text)
        self._doubt(reading.inconclusive)
        self._commands(ShellReading(*reading[:3]), location.nest("python"))
        return reading.parsed

    def _value(self, text: str, location: LeafPlace) -> None:
        if self._allowance.spent:
            return
        if self._cues.breakout and may_break_out(text) and self._may_parse(text):
            self._add_all(self._matchers.injection.matches(text), location)
        word = first_word(text)
        if begins_command(word, text, self._matchers.programs) and self._may_parse(text):
            self._commands(self._shell_reading(text), location)
        if begins_change(word) and self._may_parse(text) and is_sql(text):
            self._sql(text, location)

    def _may_parse(self, text: str) -> bool:
        if self._allowance.spent:
            return False
        past = exceed_bounds(text) if len(text) > PARSED_NESTING else None
        past = past or self._allowance.spend(text)
        if past is not None:
            self._doubt(past)
        return past is None

    def _doubt(self, reason: str | None) -> None:
        self._inconclusive = self._inconclusive or reason

    def _add_all(self, patterns: Iterable[Described], location: LeafPlace) -> None:
        for pattern in patterns:
            self._hit(pattern, pattern.severity, location)

    def _hit(self, pattern: Described, severity: Severity | None, location: LeafPlace) -> None:
        key = (pattern.id, location.path)
        if severity is not None and key not in self._hits:
            self._hits[key] = Hit(pattern.id, pattern.reason, severity, key[1], location.how)

    _READERS: ClassVar = {"shell": _shell, "sql": _sql, "code": _code, "value": _value}
