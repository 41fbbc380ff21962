"""What a call does to the world: reads, adds, writes, deletes or sends, and to what.

A tier by effect rests on it, so the reading is one-sided: a call is said to do something only where each word
of it is understood (effect_forms.py). An option or a name that no table knows, a variable, an expansion, a
loop, a path that is nobody's business: all of that is `unknown`, which leaves the tier as it was.
"""

from __future__ import annotations

import posixpath
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import urlsplit

from sluice.detection.commands import effect_forms as forms
from sluice.detection.commands.calls import read_calls
from sluice.detection.commands.changes import begins_change, begins_command, first_word, is_sql
from sluice.detection.commands.effect_forms import parse_words
from sluice.detection.commands.inspector import Allowance
from sluice.detection.commands.languages import is_prose_key, language_of
from sluice.detection.commands.leaves import Walk
from sluice.detection.commands.matchers import REQUESTS
from sluice.detection.commands.program_lines import (
    LONGEST_VALUE,
    MOST_WORDS,
    find_program,
    holds_arguments,
    lines_of,
    speaks_of_line,
)
from sluice.detection.commands.shell import read_shell
from sluice.detection.commands.sql.sql_reading import read_sql
from sluice.detection.disguises.scan import exceed_bounds
from sluice.text.name_words import words_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sluice.detection.commands.calls.call import Call
    from sluice.detection.commands.effect_forms import Words
    from sluice.detection.commands.languages import Language
    from sluice.detection.commands.leaves import Leaf
    from sluice.detection.commands.matchers import Matchers
    from sluice.detection.commands.shell.shell_reading import Command, Redirect, ShellReading
    from sluice.detection.commands.sql.sql_reading import SqlStatement

EffectKind = Literal["reads", "adds", "writes", "deletes", "sends", "unknown"]


class Effect(NamedTuple):
    """One thing that a call does. `adds` can be undone without a copy of anything: a new folder, a commit.

    `target`: what is changed, by `where`: a path in normal form ("notes/a.txt" below the folder in which
    commands run, "/etc/hosts"), a host, or a database; "" where nothing is, or it is not known.
    """

    kind: EffectKind
    target: str = ""
    where: Literal["path", "host", "database"] = "path"


UNKNOWN = Effect("unknown")
READS = Effect("reads")


def find_effects(
    matchers: Matchers, tool_name: str, action_types: Sequence[str], parameters: dict[str, Any]
) -> tuple[Effect, ...]:
    """Everything that a call of one of these types does, each effect once; empty: nothing in it is a command,
    a statement or a request, so nobody can tell from it.

    What one call may have read is bounded as for its inspection; `unknown` stands for the rest.
    """
    walk = Walk(parameters, tool_name)
    edit = _read_edit(tool_name, parameters)
    if edit is not None:
        return (edit,)
    reader = CallReader(matchers, walk, Allowance(sum(map(len, walk.texts))))
    lines = reader.read_program(tool_name, parameters)
    for action_type in dict.fromkeys(action_types):
        for leaf in walk.leaves:
            if leaf.whole and not _is_in_line(leaf, lines, walk):
                reader.read(leaf.text, language_of(tool_name, action_type, leaf.key))
    reader.read_structure(tool_name, parameters, read_lines=not lines)
    reader.check_names(tool_name, action_types, () if lines else walk.keys)
    return tuple(dict.fromkeys(reader.effects))


class CallReader:
    """Collects what the texts and the structure of one call do, within its bounds."""

    __slots__ = ("_allowance", "_database", "_folder", "_matchers", "_ran", "effects")

    def __init__(self, matchers: Matchers, walk: Walk, allowance: Allowance) -> None:
        self.effects: list[Effect] = []
        self._matchers = matchers
        self._allowance = allowance
        folders = _find_values(walk, forms.FOLDER_WORDS)
        self._folder = _normalize(folders[0], "") if len(folders) == 1 else "?" if folders else ""
        databases = _find_values(walk, forms.DATABASE_WORDS)
        self._database = databases[0] if len(databases) == 1 else ""
        self._ran = False
        if walk.more:
            self._doubt()

    def read(self, text: str, language: Language) -> None:
        """Add what a text of that language does; what is neither a command nor a statement does nothing."""
        if language == "shell":
            self.read_shell(text)
        elif language == "sql":
            self._read_sql(text, self._database)
        elif language == "code":
            self._doubt()
        elif language == "value":
            word = first_word(text)
            if begins_command(word, text, self._matchers.programs):
                self.read_shell(text)
            elif begins_change(word) and is_sql(text):
                self._read_sql(text, self._database)

    def read_program(self, tool_name: str, parameters: dict[str, Any]) -> tuple[str, ...]:
        """Add what the command lines do that a tool of one program makes of all its parameters.

        Gives these lines; none where it may do something else with a parameter.
        """
        program = find_program(tool_name, self._matchers.programs)
        if program is None or not program.certain or not _is_flat(parameters):
            return ()
        lines = lines_of(program, parameters)
        if any(line.startswith(f"{program.name} -") for line in lines):
            return ()
        for line in lines:
            self.read_shell(line)
        return lines

    def read_structure(self, tool_name: str, parameters: dict[str, Any], *, read_lines: bool) -> None:
        """Add what the parameters together stand for: command lines, unless they are read, and requests.

        A line without a command is none where the parameters name an operation. The line that an operation
        stands for says nothing of how the call's other parameters are used.
        """
        program = find_program(tool_name, self._matchers.programs)
        reading = read_calls(tool_name, parameters, self._matchers.calls.verbs, REQUESTS)
        if program is not None and read_lines:
            is_request = reading.calls and not any(map(speaks_of_line, parameters))
            for line in lines_of(program, parameters):
                if not (is_request and line.startswith(f"{program.name} -")):
                    self.read_shell(line)
        if reading.inconclusive is not None:
            self._doubt()
        for call, _ in reading.calls:
            self._read_request(call)
        ran = self._ran
        for _, line, _ in reading.lines:
            self.read_shell(line)
        self._ran = ran

    def check_names(self, tool_name: str, action_types: Sequence[str], keys: Iterable[str]) -> None:
        """Doubt what commands and statements do in a call of which the tool's name or a key says more."""
        if not self._ran:
            return
        if not forms.CHANGING_VERBS.isdisjoint(words_of(tool_name)):
            self._doubt()
        for key in keys:
            texts = any(
                language_of(tool_name, action_type, key) in ("shell", "sql") for action_type in action_types
            )
            inert = key.lower() in forms.INERT_KEYS or forms.INERT_WORDS.issuperset(words_of(key))
            if not (texts or inert or is_prose_key(key)):
                self._doubt()

    def read_shell(self, text: str) -> None:
        """Add what a shell text does."""
        if not self._may_read(text):
            return
        self._ran = True
        plain = not forms.NOT_PLAIN.search(text)
        if not (plain or _is_plain_outside_quotes(text)):
            self._doubt()
            return
        reading = read_shell(text, self._allowance.shell_work)
        self._allowance.shell_work -= reading.work
        if reading.inconclusive is not None or not reading.commands:
            self._doubt()
        if not plain and any(map(_may_evaluate, reading.commands)):
            self._doubt()
        started = forms.STARTS_IN.match(text)
        folder, self._folder = self._folder, _normalize(started[1], self._folder) if started else self._folder
        if started and (
            forms.LEAVES_LIST.search(text[started.end() :]) or not _is_cd(reading.commands[:1], started[1])
        ):
            self._doubt()
        self._read_commands(reading.commands[1:] if started else reading.commands)
        self._folder = folder
        self._read_nested(reading)

    def _read_nested(self, reading: ShellReading) -> None:
        clients = sum(command.program in forms.SQL_CLIENTS for command in reading.commands)
        if clients != len(reading.nested) or any(nested.language != "sql" for nested in reading.nested):
            self._doubt()
        for nested in reading.nested:
            if nested.language == "sql":
                self._read_sql(nested.text, "")

    def _read_commands(self, commands: Sequence[Command]) -> None:
        for command, after in pairwise((*commands, None)):
            if command is not None:
                self.effects += self._judge_command(command, after)

    def _judge_command(self, command: Command, after: Command | None) -> Iterator[Effect]:
        """What one command does; `after`: the one that follows, which a wrapper's own is."""
        for redirect in command.redirects:
            yield from self._judge_redirect(redirect)
        program, args = command.program, command.args
        folder, _, name = command.path.rpartition("/")
        if any(forms.HARMLESS_VARIABLES.fullmatch(variable) is None for variable, _ in command.assigned):
            yield UNKNOWN
        if not command.path:
            return
        if folder not in forms.STANDARD_FOLDERS or name != program or not forms.PROGRAM.fullmatch(program):
            yield UNKNOWN
        elif program in forms.WRAPPERS and _only_wraps(command, after):
            return
        elif program in forms.SHELLS:
            ran = (
                len(args) == len(("-c", "text")) and args[0] in forms.RUNS_TEXT and _is_within(after, command)
            )
            yield READS if ran else UNKNOWN
        else:
            yield from self._judge_program(program, args)

    def _judge_program(self, program: str, args: Sequence[str]) -> Iterator[Effect]:
        if program in forms.CONTENT:
            yield self._judge_content(program, args)
        elif program in forms.LOOKS:
            yield _judge(parse_words(args, forms.LOOKS[program]) is not None)
        elif program == "echo":
            yield READS
        elif program in forms.SAYS:
            yield _judge(_only_says(program, args))
        elif program == "find":
            yield _judge(_only_finds(args))
        elif program == "curl":
            yield from self._judge_curl(args)
        elif program == "git":
            yield from self._judge_git(args)
        elif program in forms.SQL_CLIENTS:
            words = parse_words(args, forms.SQL_CLIENTS[program])
            plain = words is not None and all(map(forms.CLI_NAME.fullmatch, words.names))
            texts = sum(option in forms.SQL_TEXT for option, _ in words.options) if words else 0
            yield _judge(plain and texts == 1)
        elif program in forms.CHANGES:
            yield from self._judge_change(program, args)
        else:
            yield _judge(_is_question(program, args))

    def _judge_content(self, program: str, args: Sequence[str]) -> Effect:
        words = parse_words(args, forms.CONTENT[program])
        if words is None or not _is_plain_script(program, words):
            return UNKNOWN
        has_script = program in forms.WITH_SCRIPT and words.value("-e") is None
        paths = [_normalize(name, self._folder) for name in words.names[has_script:] if program != "tr"]
        if program == "rg" or words.value("-r", "-R", "--recursive") is not None:
            wide = any(path.startswith(("/", "~", "..")) for path in paths) or self._folder[:1] in ("/", "~")
            if wide or any(map(forms.SECRET.search, words.names[:has_script])):
                return UNKNOWN
        return _judge(not any(map(_is_private, paths)))

    def _judge_change(self, program: str, args: Sequence[str]) -> Iterator[Effect]:
        kind, form = forms.CHANGES[program]
        words = parse_words(args, form)
        if words is None or not words.names:
            yield UNKNOWN
        elif program in ("cp", "mv"):
            *sources, target = words.names
            paths = [_normalize(name, self._folder) for name in sources]
            whole = words.value("-r", "-R", "-a") is not None
            far = whole and any(path.startswith(("/", "~", "..")) or path == "." for path in paths)
            far = far or (whole and any(name.endswith(("/.", "/")) for name in sources))
            if not sources or far or any(map(_is_private, paths)):
                yield UNKNOWN
            yield from self._list_changes(kind, [target, *(sources if program == "mv" else ())])
        else:
            yield from self._list_changes(kind, words.names)

    def _list_changes(self, kind: EffectKind, names: Sequence[str]) -> Iterator[Effect]:
        for name in names:
            path = _normalize(name, self._folder)
            plain = path != "?" and not forms.GLOB.search(path)
            yield Effect(kind, path) if plain else UNKNOWN

    def _judge_redirect(self, redirect: Redirect) -> Iterator[Effect]:
        operator, target = redirect
        if operator in forms.DUPLICATES and (target.isdecimal() or target == "-"):
            return
        if operator in forms.WRITING_REDIRECTS:
            if target not in ("/dev/null", "/dev/stdout", "/dev/stderr"):
                yield from self._list_changes("writes", [target])
        elif operator == "<":
            yield _judge(not _is_private(_normalize(target, self._folder)))
        elif operator not in ("<<", "<<-", "<<<"):
            yield UNKNOWN

    def _judge_curl(self, args: Sequence[str]) -> Iterator[Effect]:
        words = parse_words(args, forms.CURL)
        if words is None or not words.names:
            yield UNKNOWN
            return
        for option, value in words.options:
            if option in ("-o", "--output") and value not in ("-", "/dev/null"):
                if "#" in value:
                    yield UNKNOWN
                yield from self._list_changes("writes", [value])
            elif (
                (option in ("-X", "--request") and value not in forms.SAFE_METHODS)
                or forms.OVERRIDES.search(value)
                or value.startswith("@")
            ):
                yield UNKNOWN
        yield from (_judge(_is_open_address(name)) for name in words.names)

    def _judge_git(self, args: Sequence[str]) -> Iterator[Effect]:
        rest = list(args)
        while rest[:1] and rest[0] in ("-P", "--no-pager"):
            del rest[0]
        kind = None if self._folder or not rest else _classify_git(rest[0], rest[1:])
        yield READS if kind == "reads" else Effect("adds", ".") if kind == "adds" else UNKNOWN

    def _read_sql(self, text: str, database: str) -> None:
        """Add what statements do in the database that the call names, "" for none."""
        if self._may_read(text):
            self._ran = True
            reading = read_sql(text)
            doubtful = reading.inconclusive is not None or reading.nested or not reading.statements
            if doubtful or forms.CLIENT_COMMANDS.search(text):
                self._doubt()
            self.effects += (_judge_statement(statement, database) for statement in reading.statements)

    def _read_request(self, call: Call) -> None:
        words = (call.host, call.path, call.thing, *call.words)
        if any(map(forms.SECRET.search, words)) or forms.CLOSED_HOSTS.fullmatch(call.host.partition(":")[0]):
            self._doubt()
        else:
            self.effects.append(READS if _only_asks(call) else Effect("sends", call.host, "host"))

    def _may_read(self, text: str) -> bool:
        refused = self._allowance.spent or exceed_bounds(text) or self._allowance.spend(text)
        if refused:
            self._doubt()
        return not refused

    def _doubt(self) -> None:
        """Add that something is not understood."""
        self.effects.append(UNKNOWN)


def _is_flat(parameters: dict[str, Any]) -> bool:
    """Whether a line holds all of the parameters whole: plain words, beside what speaks of a line."""
    words = [
        (speaks_of_line(key), word)
        for key, value in parameters.items()
        for word in (value if isinstance(value, list) else (value,))
    ]
    return len(words) < MOST_WORDS and all(
        word is None
        or isinstance(word, (int, float))
        or (isinstance(word, str) and len(word) <= LONGEST_VALUE and (of_line or _is_plain_word(word)))
        for of_line, word in words
    )


def _is_plain_word(word: str) -> bool:
    return forms.TRIED_NAME.fullmatch(word) is not None


def _is_in_line(leaf: Leaf, lines: Sequence[str], walk: Walk) -> bool:
    """Whether a text is read as a part of a line already: of one that a tool of one program is given, or as
    the options of a program that another parameter names, which are no command by themselves."""
    if speaks_of_line(leaf.key) and any(leaf.text in line for line in lines):
        return True
    options = holds_arguments(leaf.key) and forms.OPTIONS.fullmatch(leaf.text) is not None
    alone = sum(map(holds_arguments, walk.keys)) == 1
    joined = any(other.key == "command" and other.text.endswith(f" {leaf.text}") for other in walk.leaves)
    return options and alone and joined


def _read_edit(tool_name: str, parameters: dict[str, Any]) -> Effect | None:
    """What a tool does that reads or changes one file, as its name, its command and the file's path say.

    None: it is no such tool, or a parameter says more.
    """
    keys = {key: "".join(words_of(key)) for key in parameters}
    paths = [parameters[key] for key, plain in keys.items() if plain in forms.FILE_KEYS]
    words, command = frozenset(words_of(tool_name)), parameters.get("command", "")
    is_edit = not words.isdisjoint(forms.FILES) and isinstance(command, str)
    if not is_edit or len(paths) != 1 or not set(keys.values()) <= forms.FILE_KEYS | forms.TEXT_KEYS:
        return None
    named = (words | frozenset(words_of(command))) - forms.FILE_TOOLS
    if not named or not named <= forms.FILE_VERBS.keys():
        return None
    path = _normalize(paths[0], "") if isinstance(paths[0], str) else "?"
    kinds = {forms.FILE_VERBS[word] for word in named}
    if path == "?" or forms.GLOB.search(path):
        return UNKNOWN
    if kinds == {"reads"}:
        return _judge(not _is_private(path))
    return Effect("deletes" if "deletes" in kinds else "writes", path)


def _judge(understood: bool) -> Effect:
    return READS if understood else UNKNOWN


def _find_values(walk: Walk, words: frozenset[str]) -> list[str]:
    return list(dict.fromkeys(leaf.text for leaf in walk.leaves if not words.isdisjoint(words_of(leaf.key))))


def _normalize(name: str, folder: str) -> str:
    """The path in normal form; "?" where it holds what is not a plain name of a POSIX system."""
    if not name or folder == "?" or forms.NO_PATH.search(name):
        return "?"
    joined = name if name.startswith(("/", "~")) or not folder else posixpath.join(folder, name)
    return posixpath.normpath(joined)


def _is_private(path: str) -> bool:
    """Whether what the path names may be a secret: a hidden part, a name that says so, a closed folder."""
    if path in ("", "."):
        return False
    if path == "?" or forms.SECRET.search(path) or (path[0] == "~" and path[1:2] not in ("", "/")):
        return True
    parts = path.split("/")
    if any(part.startswith(".") and part not in forms.OPEN_HIDDEN and part != ".." for part in parts):
        return True
    rooted = "/" + "/".join(part for part in parts if part not in ("", ".."))
    if path.startswith(("/", "..")) and forms.CLOSED_FOLDERS.match(rooted):
        return forms.OPEN_FILES.fullmatch(rooted) is None
    return rooted.startswith("/etc") and forms.GLOB.search(path) is not None


def _is_plain_outside_quotes(text: str) -> bool:
    """Whether all that makes a text not plain stands in single quotes."""
    at, outside = 0, list[str]()
    for part in forms.QUOTED.finditer(text):
        if part.start() != at:
            return False
        at = part.end()
        outside.append(part[1] or "_")
    return at == len(text) and forms.NOT_PLAIN.search("".join(outside)) is None


def _may_evaluate(command: Command) -> bool:
    """Whether a command may expand what it is given in single quotes."""
    return bool(command.via or command.assigned) or command.program not in forms.TAKES_TEXT


def _is_cd(first: Sequence[Command], name: str) -> bool:
    return len(first) == 1 and first[0].program == "cd" and first[0].args == (name,) and not first[0].via


def _is_within(after: Command | None, command: Command) -> bool:
    return after is not None and after.via == (*command.via, command.program)


def _only_wraps(command: Command, after: Command | None) -> bool:
    """Whether a wrapper is given nothing but options that only say how the command after it runs."""
    form, names = forms.WRAPPERS[command.program]
    left = list(command.args)
    while left and left[0].startswith("-"):
        with_value = left[0] in form.values
        if parse_words(left[: 1 + with_value], form) is None:
            return command.program == "command" and left[0] in ("-v", "-V")
        del left[: 1 + with_value]
    inner = left[names : names + 1]
    return bool(inner) and _is_within(after, command) and after is not None and inner == [after.path]


def _is_plain_script(program: str, words: Words) -> bool:
    """Whether sed is given nothing but which lines to print, and jq nothing that is not in its input."""
    if program == "jq":
        return bool(words.names) and forms.JQ_REACHES.search(words.names[0]) is None
    if program != "sed":
        return True
    prints = bool(words.names) and forms.SED_PRINTS.fullmatch(words.names[0]) is not None
    return prints and words.value("-n") is not None


def _only_says(program: str, args: Sequence[str]) -> bool:
    if program == "ps" and len(args) == 1 and forms.PS_OF_BSD.fullmatch(args[0]):
        return True
    if program == "printf":
        return not args[0].startswith("-") if args else False
    words = parse_words(args, forms.SAYS[program])
    if words is None or (program == "ps" and words.names) or not _has_demanded(program, words):
        return False
    if program in forms.NAMED_PLAINLY and not all(map(forms.CLI_NAME.fullmatch, words.names)):
        return False
    if program in forms.NAMING and not words.names:
        return False
    return program != "date" or all(map(forms.DATE_NAME.fullmatch, words.names))


def _only_finds(args: Sequence[str]) -> bool:
    at = next((at for at, word in enumerate(args) if word[:1] in "-(!"), len(args))
    left = iter(args[at:])
    for word in left:
        if word in forms.FIND_TESTS:
            next(left, None)
        elif word not in forms.FIND_WORDS:
            return False
    return True


def _has_demanded(program: str, words: Words) -> bool:
    demanded = forms.DEMANDED.get(program)
    return demanded is None or words.value(*demanded) is not None


def _is_question(program: str, args: Sequence[str]) -> bool:
    """Whether a program with verbs is asked for something, or for its version."""
    is_known = program in forms.ANSWERS or program in forms.VERBS or program in forms.CLIS
    if len(args) == 1 and args[0] in forms.ASKS_VERSION:
        return is_known or program == "aws"
    if args == ("version",):
        return program in forms.VERSION_VERBS
    if any(map(forms.SECRET.search, args)):
        return False
    return _is_question_of(program, args) or _only_tries(program, args)


def _only_tries(program: str, args: Sequence[str]) -> bool:
    """Whether a command that changes something is told to say only what it would do."""
    for length in () if "--" in args else (1, 2):
        tried = forms.TRIES.get((program, *args[:length]))
        words = None if tried is None else parse_words(args[length:], tried[0])
        if tried is None or words is None:
            continue
        dry = next((value for option, value in words.options if option in tried[1]), None)
        certain = dry == "" or dry in forms.TRIES_WITH
        once = sum(option in tried[1] for option, _ in words.options) == 1
        return certain and once and all(map(forms.TRIED_NAME.fullmatch, words.names))
    return False


def _is_question_of(program: str, args: Sequence[str]) -> bool:
    if program == "aws":
        return _is_question_to_aws(args)
    if program == "rsync":
        words = parse_words(args, forms.RSYNC)
        return (
            words is not None
            and words.value("-n", "--dry-run") is not None
            and ":" not in "".join(words.names)
        )
    if program in forms.OF_KAFKA:
        words = parse_words(args, forms.KAFKA)
        return words is not None and words.value("--list", "--describe") is not None
    return _is_question_by_verb(program, args)


def _is_question_by_verb(program: str, args: Sequence[str]) -> bool:
    at = 0
    while at < len(args) and args[at].startswith("-"):
        step = 2 if args[at] in forms.BEFORE_VERBS.values else 1
        if parse_words(args[at : at + step], forms.BEFORE_VERBS) is None:
            return False
        at += step
    verb, rest = args[at : at + 1], args[at + 1 :]
    if verb and verb[0] in forms.VERBS.get(program, ()):
        words = parse_words(rest, forms.VERBS[program][verb[0]])
        return words is not None and all(map(forms.CLI_NAME.fullmatch, words.names))
    return program in forms.CLIS and _is_question_to_cli(program, args[at:])


def _is_question_to_cli(program: str, args: Sequence[str]) -> bool:
    """Whether a verb that only reads stands where the program has its verb, behind names of groups."""
    most = forms.CLIS[program]
    at = next((at for at, word in enumerate(args) if word in forms.READING_VERBS), None)
    if at is None or at > most or (args[at] == "get" and at == 0):
        return False
    groups, words = args[:at], parse_words(args[at + 1 :], forms.OF_CLOUD)
    if words is None or not all(map(forms.CLI_NAME.fullmatch, words.names)):
        return False
    if not all(forms.is_group(word) for word in groups) or not forms.CLOSED_GROUPS.isdisjoint(groups):
        return False
    return program != "az" or not words.names


def _is_question_to_aws(args: Sequence[str]) -> bool:
    """`aws SERVICE OPERATION --name value ...`, of an operation that describes, lists or gets."""
    names, option = list[str](), ""
    for word in args:
        if word.startswith("-"):
            option = word if word not in forms.AWS_ALONE else ""
            if option and not forms.AWS_VALUES.fullmatch(option):
                return False
        elif not option:
            names.append(word)
        elif "://" in word:
            return False
        elif len(names) < _AWS_NAMES:
            option = ""
    if names[:_AWS_NAMES] == ["s3", "ls"]:
        return all(name.startswith("s3://") for name in names[_AWS_NAMES:])
    asks = len(names) == _AWS_NAMES and forms.AWS_VERBS.fullmatch(names[1]) is not None
    return asks and forms.CLOSED_GROUPS.isdisjoint(names)


_AWS_NAMES, _OPTION_AND_TEXT = 2, 2


def _is_open_address(address: str) -> bool:
    """Whether an address is one of the web, which no output is part of and which gives nobody credentials."""
    try:
        parts = urlsplit(address if "://" in address else f"http://{address}")
        host = parts.hostname or ""
    except ValueError:
        return False
    plain = not forms.NO_ADDRESS.search(address) and "@" not in parts.netloc
    closed = (
        forms.CLOSED_HOSTS.fullmatch(host)
        or forms.SECRET.search(address)
        or forms.HIDDEN_ADDRESS.search(parts.path)
        or forms.CHANGING_ADDRESS.search(f"{parts.path}?{parts.query}")
    )
    return plain and bool(host) and not closed and parts.scheme in ("http", "https")


def _classify_git(verb: str, rest: Sequence[str]) -> Literal["reads", "adds"] | None:
    if verb == "stash" and rest[:1] in (["list"], ["show"]):
        return "reads" if len(rest) == 1 else None
    reading = forms.GIT.get(verb)
    words = None if reading is None else parse_words(rest, reading)
    if words is not None:
        private = any(
            _is_private(_normalize(part, "")) for name in words.names for part in name.split(":") if part
        )
        return None if private else "reads"
    adding = forms.GIT_ADDS.get(verb) or forms.GIT_NAMES.get(verb)
    words = None if adding is None else parse_words(rest, adding)
    return "adds" if words is not None and _only_adds(verb, words) else None


def _only_adds(verb: str, words: Words) -> bool:
    """Whether a subcommand of git, by its form, keeps all that there was."""
    names = words.names
    if any(_is_private(_normalize(name, "")) for name in names):
        return False
    demanded = forms.GIT_DEMANDS.get(verb)
    if demanded is not None and words.value(*demanded) is None:
        return False
    if verb == "stash":
        return names in ((), ("push",), ("save",))
    if verb == "mv":
        return len(names) > 1 and not any(map(_is_outside, names))
    return verb in ("add", "commit") or bool(names)


def _is_outside(name: str) -> bool:
    parts = _normalize(name, "").split("/")
    return parts[0] in ("", "~", "?") or any(part.startswith(".") and part != "." for part in parts)


def _only_asks(call: Call) -> bool:
    if call.protocol == "operation":
        safe = not call.method or call.method.upper() in forms.SAFE_METHODS
        return safe and call.verb in forms.ASKING_VERBS
    if call.protocol != "http":
        return False
    searches = call.method == "post" and call.path.endswith(forms.SEARCHES)
    return searches or (call.verb not in forms.CHANGING_VERBS and call.method.upper() in forms.SAFE_METHODS)


def _judge_statement(statement: SqlStatement, database: str) -> Effect:
    doubtful = forms.SQL_DOUBTFUL.search(statement.phrase) or forms.SECRET.search(statement.phrase)
    if doubtful or not statement.functions <= forms.PURE_FUNCTIONS:
        return UNKNOWN
    if statement.verb in forms.READING_STATEMENTS and statement.where == "unused":
        return UNKNOWN if forms.SQL_WRITES.search(statement.phrase) else READS
    bounded = statement.where in ("unused", "bounded") and forms.SQL_CHANGE.fullmatch(statement.phrase)
    return Effect("writes", database, "database") if database and bounded else UNKNOWN
