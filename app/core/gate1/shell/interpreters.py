"""Programs that run a text: which flag or place it stands in, and its language (their manual pages)."""

from __future__ import annotations

import re
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
    """Where the code is: after one of `flags`, at the positional `place`, or on standard input."""

    language: str
    flags: tuple[str, ...] = ()
    place: int | None = None
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
    found, positionals, place = [], [], 0
    while place < len(args):
        arg = args[place]
        place += 1
        value = _flag_value(interpreter.flags, arg, args[place : place + 1])
        if value is not None:
            found.append(value)
            place += value == "".join(args[place : place + 1])
        elif arg[:1] != "-":
            positionals.append(arg)
        elif arg in interpreter.values:
            place += 1
    if not found and interpreter.place is not None:
        found = positionals[interpreter.place : interpreter.place + 1]
    return found


def shell_code(args: tuple[str, ...]) -> str | None:
    """The text of `sh -c TEXT`, with -c alone or in a bundle (`-lc`); None without one."""
    for place, arg in enumerate(args):
        if arg[:1] not in ("-", "+") or arg == "--":
            return None
        if arg[:2] != "--" and "c" in arg[1:]:
            return next((one for one in args[place + 1 :] if one[:1] != "-"), None)
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
