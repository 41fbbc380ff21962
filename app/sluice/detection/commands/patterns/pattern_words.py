"""A command's words the way patterns look at them: subcommands, flags with values, targets."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluice.detection.commands.shell.shell_reading import Command

MOST_WORDS = 64
"""Words among which a pattern looks for subcommands: bounds the search in a line of thousands."""
_OFF = frozenset({"false", "none", "no", "0", "off"})
_GIT_BEFORE_COMMAND = ("-C", "-c", "--git-dir", "--work-tree", "--namespace")
_GIT_VALUED = {
    "am": "CpS", "apply": "Cp", "archive": "o", "blame": "LCM", "branch": "u", "checkout": "bB",
    "cherry-pick": "mSX", "clean": "e", "clone": "bcjou", "commit": "CcFmtSu", "config": "f",
    "diff": "GSULOlBCMX", "fetch": "jo", "format-patch": "onv", "grep": "ABCefmO", "init": "b",
    "log": "GSULOlBCMn", "merge": "FmsSX", "notes": "CcFm", "pull": "josSX", "push": "o", "rebase": "CsSxX",
    "remote": "mt", "restore": "s", "revert": "mSX", "stash": "m", "submodule": "bj", "switch": "cC",
    "symbolic-ref": "m", "tag": "Fmnu", "update-ref": "m", "worktree": "bB",
}  # fmt: skip
_VALUED = {
    "autossh": "BbcDEeFIiJLlMmOopQRSWw",
    "curl": "AbcCdDeEFhHKmoPQrtTuUwxXyYz",
    "killall": "osuyZ",
    "kubectl": "n",
    "mysqlimport": "chpPuS",
    "oc": "n",
    "pg_restore": "dfFhIjLnNpPStTU",
    "pkill": "dFgGPstuU",
    "shred": "ns",
    "ssh": "BbcDEeFIiJLlmOopQRSWw",
    "ssh-keygen": "abCDEFfIKmMNnOPrRstVwYZz",
    "touch": "drt",
    "truncate": "rs",
    "useradd": "bcdefgGkKpPRsuZ",
    "usermod": "cdefgGlpPRsuvVwWZ",
}
"""By program, and of git by command, the one-letter options that take a value. What stands after such a
letter in its word is no option: `git switch -cfix` makes a branch "fix". Source: the manual pages."""


class Flag:
    """One flag of a command: `-rf`, `--force`, `--region=eu`; the word after it may be its value.

    `letters`: of `-rf` the options r and f; of `-cfix`, where c takes a value, c alone.
    """

    __slots__ = ("following", "letters", "name", "value")

    def __init__(self, token: str, following: str | None, valued: str = "") -> None:
        name, equals, value = token.partition("=")
        self.name = name
        self.value = value if equals else None
        self.following = following
        self.letters = "" if name[1:2] == "-" else _letters(name, valued)

    @property
    def off(self) -> bool:
        """Whether it is there only to say no: `--dry-run=none`."""
        return self.value is not None and self.value.lower() in _OFF


class Flags:
    """Some flags of a command; `letters` of the short ones, `names` of all in lower case."""

    __slots__ = ("each", "letters", "names")

    def __init__(self, each: list[Flag]) -> None:
        self.each = each
        self.letters = set().union(*[flag.letters for flag in each])
        self.names = {flag.name.lower() for flag in each}


_NONE = Flags([])


class CommandWords:
    """Lazily taken apart: most commands are looked at by few patterns."""

    __slots__ = ("_flags", "_flags_on", "_operands", "_plain", "_targets", "command")

    def __init__(self, command: Command) -> None:
        self.command = command
        self._flags: Flags | None = None
        self._flags_on: Flags | None = None
        self._operands: list[str] | None = None
        self._plain: list[tuple[str, bool]] | None = None
        self._targets: list[str] | None = None

    @property
    def flags(self) -> Flags:
        """All flags before `--`."""
        if self._flags is None:
            self._flags = _flags(self.command)
        return self._flags

    @property
    def flags_on(self) -> Flags:
        """All flags but those that only say no."""
        if self._flags_on is None:
            on = [flag for flag in self.flags.each if not flag.off]
            self._flags_on = self.flags if len(on) == len(self.flags.each) else Flags(on)
        return self._flags_on

    @property
    def words(self) -> list[tuple[str, bool]]:
        """The words that are no flags, in lower case; whether a flag is before each."""
        if self._plain is None:
            self._plain = _plain(self.command.args)
        return self._plain

    @property
    def targets(self) -> list[str]:
        """Every word, and what stands after `=` or `@` in it, in lower case and as normal paths."""
        if self._targets is None:
            self._targets = _targets(self.command.args)
        return self._targets

    @property
    def operands(self) -> list[str]:
        """The words that are no flags, in lower case and as normal paths."""
        if self._operands is None:
            self._operands = list(dict.fromkeys(_normal(word) for word, _ in self.words))
        return self._operands

    @property
    def last(self) -> str:
        """The last word that is no flag: where a copy goes."""
        return _normal(self.words[-1][0]) if self.words else ""

    @property
    def written(self) -> list[str]:
        """The files that its redirections write."""
        return [
            _normal(redirect.target.lower())
            for redirect in self.command.redirects
            if ">" in redirect.operator
        ]


def _letters(name: str, valued: str) -> str:
    """The name up to the first letter that takes a value."""
    if not valued:
        return name
    end = min((index for index, character in enumerate(name) if character in valued), default=len(name))
    return name[: end + 1]


def _find_valued(command: Command) -> str:
    if command.program != "git":
        return _VALUED.get(command.program, "")
    return _GIT_VALUED.get(next(_skip_values(command.args), ""), "")


def _skip_values(args: tuple[str, ...]) -> Iterator[str]:
    """The words of git's line that are neither options before its command nor their values."""
    words = iter(args)
    for word in words:
        if word in _GIT_BEFORE_COMMAND:
            next(words, None)
        elif word[:1] != "-":
            yield word


def _flags(command: Command) -> Flags:
    args, valued = command.args, _find_valued(command)
    end = args.index("--") if "--" in args else len(args)
    each = [
        Flag(arg, args[index + 1] if index + 1 < len(args) else None, valued)
        for index, arg in enumerate(args[:end])
        if arg[:1] == "-" and len(arg) > 1
    ]
    return Flags(each) if each else _NONE


def _plain(args: tuple[str, ...]) -> list[tuple[str, bool]]:
    words: list[tuple[str, bool]] = []
    after_flag = only_words = False
    for arg in args:
        if arg == "--" and not only_words:
            only_words, after_flag = True, False
        elif arg[:1] == "-" and len(arg) > 1 and not only_words:
            after_flag = "=" not in arg
        else:
            words.append((arg.lower(), after_flag))
            after_flag = False
    return words


def _targets(args: tuple[str, ...]) -> list[str]:
    targets = []
    for arg in args:
        folded = arg.lower()
        targets.append(_normal(folded))
        _, equals, value = folded.partition("=")
        if equals and value:
            targets.append(_normal(value.lstrip("@<")))
        elif folded[:1] == "@" and len(folded) > 1:
            targets.append(_normal(folded[1:]))
    return list(dict.fromkeys(targets)) if len(targets) > 1 else targets


def _normal(path: str) -> str:
    if "//" in path or "/." in path:
        scheme, separator, rest = path.partition("://")
        return path if separator and rest else posixpath.normpath(scheme)
    return path
