"""Programs that run a text: which flag or place it stands in, and its language (their manual pages)."""

from __future__ import annotations

import base64
import binascii
import re
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

SHELLS = frozenset(
    {
        "sh",
        "bash",
        "zsh",
        "dash",
        "ksh",
        "mksh",
        "ash",
        "fish",
        "rbash",
        "csh",
        "tcsh",
        "hush",
    }
)
POWERSHELLS = frozenset({"powershell", "pwsh", "powershell.exe", "pwsh.exe"})


class Interpreter(NamedTuple):
    """Where the code is: after one of `flags`, at the positional `position`, or on standard input."""

    language: str
    flags: tuple[str, ...] = ()
    position: int | None = None
    values: frozenset[str] = frozenset()
    """Flags whose value is the next word, for counting positionals."""
    stdin: bool = True


_SQL = {
    "psql": ("-c", "--command"),
    "mysql": ("-e", "--execute"),
    "mariadb": ("-e", "--execute"),
    "sqlcmd": ("-Q", "-q", "/Q", "/q"),
    "osql": ("-Q", "-q"),
    "clickhouse-client": ("-q", "--query"),
    "clickhouse": ("-q", "--query"),
    "duckdb": ("-c", "-s"),
    "snowsql": ("-q", "--query"),
    "cockroach": ("-e", "--execute"),
    "trino": ("--execute",),
    "presto": ("--execute",),
    "hive": ("-e",),
    "beeline": ("-e",),
    "impala-shell": ("-q", "--query"),
    "spark-sql": ("-e",),
    "cqlsh": ("-e", "--execute"),
    "usql": ("-c", "--command"),
    "pgcli": ("-c",),
    "mycli": ("-e", "--execute"),
    "athenacli": ("-e",),
    "vsql": ("-c", "--command"),
    "ysqlsh": ("-c",),
    "sqlplus": (),
    "isql": (),
    "db2": (),
}
_CODE = {
    "python": ("python", ("-c",)),
    "pypy": ("python", ("-c",)),
    "perl": ("perl", ("-e", "-E")),
    "ruby": ("ruby", ("-e",)),
    "node": ("javascript", ("-e", "--eval", "-p", "--print")),
    "nodejs": ("javascript", ("-e", "--eval", "-p", "--print")),
    "bun": ("javascript", ("-e", "--eval")),
    "deno": ("javascript", ()),
    "php": ("php", ("-r",)),
    "lua": ("lua", ("-e",)),
    "tclsh": ("tcl", ()),
    "expect": ("tcl", ("-c",)),
    "osascript": ("applescript", ("-e",)),
    "groovy": ("groovy", ("-e",)),
    "julia": ("julia", ("-e", "-E")),
    "r": ("r", ("-e",)),
    "rscript": ("r", ("-e",)),
    "mongo": ("javascript", ("--eval",)),
    "mongosh": ("javascript", ("--eval",)),
    "rails": ("ruby", ()),
    "gitlab-rails": ("ruby", ()),
}
_AWK = Interpreter("awk", ("-e", "--source"), 0, frozenset({"-F", "-v", "-f"}), stdin=False)
INTERPRETERS: dict[str, Interpreter] = {
    **{name: Interpreter("sql", flags) for name, flags in _SQL.items()},
    **{name: Interpreter(language, flags) for name, (language, flags) in _CODE.items()},
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _AWK),
    "sqlite3": Interpreter("sql", ("-cmd",), 1, frozenset({"-separator", "-nullvalue", "-init"})),
    "sqlite": Interpreter("sql", (), 1),
    "rails": Interpreter("ruby", (), 1, stdin=False),
    "gitlab-rails": Interpreter("ruby", (), 1, stdin=False),
    "bq": Interpreter("sql", (), 1, stdin=False),
}
_VERSION = re.compile(r"[\d.]+(?:\.exe)?$|\.exe$")


def interpreter_of(program: str) -> Interpreter | None:
    """What a program's name runs; `python3.11` counts as `python`."""
    return INTERPRETERS.get(program) or INTERPRETERS.get(_VERSION.sub("", program))


def codes(interpreter: Interpreter, args: tuple[str, ...]) -> list[str]:
    """The texts among the words that the interpreter runs."""
    code, positionals, index = [], [], 0
    while index < len(args):
        arg = args[index]
        index += 1
        value = _flag_value(interpreter.flags, arg, args[index : index + 1])
        if value is not None:
            code.append(value)
            index += value == "".join(args[index : index + 1])
        elif arg[:1] != "-":
            positionals.append(arg)
        elif arg in interpreter.values:
            index += 1
    if not code and interpreter.position is not None:
        code = positionals[interpreter.position : interpreter.position + 1]
    return code


def shell_code(args: tuple[str, ...]) -> str | None:
    """The text of `sh -c TEXT`, with -c alone or in a bundle (`-lc`); None without one."""
    for index, arg in enumerate(args):
        if arg[:1] not in ("-", "+") or arg == "--":
            return None
        if arg[:2] != "--" and "c" in arg[1:]:
            return next((following for following in args[index + 1 :] if following[:1] != "-"), None)
    return None


def reads_program_from_stdin(args: tuple[str, ...]) -> bool:
    """Whether a shell or interpreter with these words runs its standard input: no script is named."""
    return all(arg[:1] == "-" or arg == "/dev/stdin" for arg in args) or "-s" in args


def _flag_value(flags: tuple[str, ...], arg: str, following: tuple[str, ...]) -> str | None:
    for flag in flags:
        if arg == flag:
            return "".join(following)
        if flag[:2] == "--":
            if arg.startswith(flag + "="):
                return arg[len(flag) + 1 :]
        elif arg[:1] == "-" and arg[1:2] != "-" and arg[:2] == flag and len(arg) > len(flag):
            return arg[len(flag) :]
        elif arg[:1] == "-" and arg[1:2] != "-" and arg.endswith(flag[1:]) and arg[1:].isalpha():
            return "".join(following)
    return None


PAGER_ESCAPE = "(escape)"
"""The name given to `!sh`: how a shell is asked of a pager, an editor or ftp."""
LONGEST_GLOB = 24
"""Characters of a globbed name that are still taken for a program's."""

REMEMBERED_NAMES = 4096

_GLOB = frozenset("*?[")
_LIKELY = str.split(
    "rm sh bash cat dd nc id curl wget chmod chown mkfs python3 python perl ruby zsh dash mv cp kill shred "
    "tar find sudo su ssh scp base64 xargs env ncat socat"
)
"""Programs that a globbed name (`/bin/r?`) is taken for, the most harmful of equal ones first."""


@lru_cache(maxsize=REMEMBERED_NAMES)
def base_name(path: str) -> str:
    """`/usr/bin/RM` and `RM.exe` are `rm`; `/bin/r?` is the first likely program that the glob matches."""
    name = path.rsplit("/", 1)[-1].rsplit("\\", 1)[-1].lower()
    if path[:1] in "!:" and "/" in path:
        name = "!" + name
    name = name.removesuffix(".exe")
    if name[:1] in ("!", ":") and name.lstrip(":!") in SHELLS:
        return PAGER_ESCAPE
    if _GLOB.isdisjoint(name) or len(name) > LONGEST_GLOB:
        return name
    likely = next((program for program in _LIKELY if fnmatchcase(program, name)), None)
    if likely is None and name[-1:] == "?":
        likely = next((program for program in _LIKELY if _begins(program, name)), None)
    return likely or name


def _begins(program: str, name: str) -> bool:
    """`r??`, which a shell with other programs in its way may take for `rm`: a `?` too many at the end."""
    stem = name.rstrip("?")
    return bool(stem) and len(program) <= len(name) and fnmatchcase(program, f"{stem}*")


_LEAST_ENCODED = 8
"""Shortest base64 text that is taken for an encoded command."""


def windows_code(program: str, args: tuple[str, ...]) -> str | None:
    """The text that the program's words ask it to run; None where they ask for nothing.

    Source: the programs' own help texts, `cmd /?` and about_PowerShell_exe.
    """
    if program == "cmd":
        return _find_after(args, ("/c", "/k", "/r"))
    if program in POWERSHELLS:
        return (
            _decode_command(args)
            or _find_after(args, ("-c", "-command", "-com", "/c", "/command"))
            or _bare(args)
        )
    return None


def _find_after(args: tuple[str, ...], flags: tuple[str, ...]) -> str | None:
    for index, arg in enumerate(args):
        if arg.lower() in flags:
            return " ".join(args[index + 1 :])
    return None


def _decode_command(args: tuple[str, ...]) -> str | None:
    for flag, value in pairwise(args):
        name = flag.lower()
        if (
            name[:2] in ("-e", "/e")
            and "encodedcommand".startswith(name[1:])
            and len(value) >= _LEAST_ENCODED
        ):
            try:
                return base64.b64decode(value + "=" * (-len(value) % 4)).decode("utf-16-le", "replace")
            except binascii.Error:
                return None
    return None


def _bare(args: tuple[str, ...]) -> str | None:
    words = [arg for arg in args if arg[:1] not in "-/"]
    return " ".join(words) if len(words) > 1 else None
