"""A tool that is named after a program: its parameters as the command line that they stand for.

`kubectl {"args": ["delete", "ns", "prod"]}`, `mcp__kubectl__run {"command": "delete ns prod"}`,
`terraform_destroy {"auto_approve": true}`, `redis {"command": "FLUSHALL"}`.
"""

from __future__ import annotations

import shlex
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from sluice.detection.commands.languages import REMEMBERED_KEYS
from sluice.detection.commands.shell.interpreters import SHELLS
from sluice.text.name_words import vocabulary, words_of

LONGEST_VALUE = 256
"""Characters of a named parameter's value that are read as a word of the line: a manifest's beginning."""
MOST_WORDS = 256
"""The most words that a line is made of."""
_DEPTH = 4
_CALLED = vocabulary(
    "exec run execute command commands cmd cli call tool tools invoke mcp server do use raw api",
    "runner executor action operation client wrapper helper plugin skill agent line my the local",
    "remote",
)
"""Words around a program's name in a tool's that say nothing of what it is to do."""
_OF_AN_API = frozenset(["api", "sdk", "rest", "http", "graphql", "boto3"])
"""Words of the names of tools that make requests instead."""
_OTHER_NAMES = {
    "redis": "redis-cli", "valkey": "valkey-cli", "k8s": "kubectl", "kubernetes": "kubectl",
    "kube": "kubectl", "postgres": "psql", "postgresql": "psql", "mongo": "mongosh", "mongodb": "mongosh",
    "gcp": "gcloud",
    "azure": "az", "tf": "terraform", "opentofu": "tofu", "systemd": "systemctl", "mariadb": "mysql",
    "sqlite": "sqlite3", "compose": "docker-compose",
}  # fmt: skip
_COMMAND_LINES = vocabulary(
    "kubectl oc git terraform tofu terragrunt pulumi helm helmfile gcloud gsutil bq docker podman nerdctl",
    "redis valkey aws az psql mysql mysqladmin mongosh mongo sqlite sqlite3 systemctl systemd journalctl",
    "npm yarn pnpm pip apt brew cargo k8s kubernetes kube postgres postgresql mongodb gcp azure tf",
    "opentofu mariadb ansible vault consul nomad eksctl doctl heroku flyctl vercel netlify rsync rclone",
    "ssh scp iptables nft ufw crontab chmod chown rm dd mkfs gh glab argocd flux velero etcdctl istioctl",
    "kafka rabbitmqctl supabase firebase wrangler curl wget",
)
"""Programs that a word of a tool's name is enough for; of all others it must be the whole name."""
_RUN_TEXTS = vocabulary(
    "psql mysql mongosh mongo mongodb sqlite sqlite3 postgres postgresql mariadb ssh kafka",
)
"""Of those, the ones whose tools are mostly given a text in a language of its own."""
_HAVE_COMMANDS = vocabulary(
    "kubectl oc git terraform tofu terragrunt pulumi helm helmfile gcloud gsutil docker podman nerdctl",
    "redis-cli aws az systemctl npm yarn pnpm pip apt brew cargo argocd flux velero eksctl doctl heroku",
    "flyctl docker-compose gh glab",
)
"""Programs whose commands may be a part of the tool's name: `git_push`."""
_GROUPED = frozenset(["aws", "gcloud", "az", "oci", "doctl"])
_GROUPS = frozenset(["service", "servicename", "group", "commandgroup"])
"""Of those programs a command is named by its group first: `aws s3 rb`."""
_SINGLE_DASH = frozenset(["find", "terraform", "tofu", "terragrunt", "packer"])
Role = Literal["line", "words", "word", "mode", "program", "inner", "flag"]
_ROLES: dict[str, Role] = {
    **dict.fromkeys(
        vocabulary(
            "command cmd commandline cmdline clicommand fullcommand subcommand subcommands subcmd verb",
            "action operation",
        ),
        "line",
    ),
    **dict.fromkeys(
        vocabulary(
            "args arguments argument argv arglist flags flag options opts opt extraargs extraflags",
            "argstring cmdargs",
        ),
        "words",
    ),
    **dict.fromkeys(
        vocabulary(
            "resource resourcetype type kind name names target targets path paths file files key keys",
            "branch remote ref refs release chart image images container containers service unit units",
            "package packages database table url bucket instance instances source destination src dest",
            "dst query resourcename pod deployment commit tag refspec repository repo objectname",
            "statement sql script value values host id ids group",
        ),
        "word",
    ),
    "mode": "mode",
    **dict.fromkeys(vocabulary("program tool binary executable"), "program"),
    **dict.fromkeys(vocabulary("input params parameters kwargs request payload toolinput"), "inner"),
}
_ALSO_REQUESTS = frozenset(["verb", "action", "operation"])
"""Keys that a client of an API has as well as a command line."""


class Program(NamedTuple):
    """The program that a tool is named after, and the commands that its name says; `certain`: any parameters
    make a line of it, not only those that speak of a command or of arguments."""

    name: str
    commands: tuple[str, ...] = ()
    certain: bool = True


def lines_of(program: Program, parameters: dict[str, Any]) -> tuple[str, ...]:
    """The program's line as shell text; none where the parameters speak of no line.

    Where a parameter holds the arguments, a second line is of them alone: a tool may look at nothing else,
    so that `{"args": ["delete", "ns", "prod"], "dry_run": true}` only tries for those that read both.
    """
    arguments = _unwrap(parameters)
    if program.name in SHELLS:
        arguments = {key: value for key, value in arguments.items() if isinstance(value, list)}
    if not (program.certain or any(speaks_of_line(key) for key in arguments)):
        return ()
    alone = {key: value for key, value in arguments.items() if _role(key) == "words"}
    read = [_line(program, some) for some in (arguments, alone) if some or some is arguments]
    return tuple(dict.fromkeys(read))


def _line(program: Program, arguments: dict[str, Any]) -> str:
    written = _write_words(arguments, program.name)
    if written[:1] == [program.name]:
        del written[0]
    words = [program.name, *program.commands, *written]
    return " ".join(words[:MOST_WORDS])


@lru_cache(maxsize=REMEMBERED_KEYS)
def find_program(tool_name: str, programs: frozenset[str]) -> Program | None:
    """The program that a tool is named after; None for a tool that is none. `programs`: the names that
    patterns know."""
    named = words_of(tool_name)
    words = [word for word in named if word not in _CALLED]
    if not words or not _OF_AN_API.isdisjoint(named):
        return None
    whole = "-".join(words)
    for name in (tool_name.lower(), _OTHER_NAMES.get(whole, whole), "".join(words)):
        if name in programs or name in _COMMAND_LINES:
            return Program(_OTHER_NAMES.get(name, name), certain=name in _COMMAND_LINES - _RUN_TEXTS)
    index = next((at for at, word in enumerate(words) if word in _COMMAND_LINES), None)
    if index is None:
        return None
    name = _OTHER_NAMES.get(words[index], words[index])
    commands = tuple(words[index + 1 :]) if name in _HAVE_COMMANDS else ()
    return Program(name, commands, certain=bool(commands))


def speaks_of_line(key: str) -> bool:
    """Whether a parameter of that key holds a command, or the arguments of one."""
    return _role(key) in ("line", "words") and key.lower() not in _ALSO_REQUESTS


def holds_arguments(key: str) -> bool:
    """Whether a parameter of that key holds the arguments of a command, without the command."""
    return _role(key) == "words"


def _unwrap(parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters themselves, where they are wrapped in one field: `{"input": {...}}`."""
    for _ in range(_DEPTH):
        inner = next(iter(parameters.values())) if len(parameters) == 1 else None
        if not isinstance(inner, dict) or _role(next(iter(parameters))) not in ("inner", "words"):
            break
        parameters = inner
    return parameters


def _write_words(arguments: dict[str, Any], program: str) -> list[str]:
    """Shell text word by word: commands first, then what they are given, in the order of the document."""
    groups: list[str] = []
    commands: list[str] = []
    words: list[str] = []
    for key, value in arguments.items():
        role = _role(key)
        if program in _GROUPED and "".join(words_of(key)) in _GROUPS and isinstance(value, str):
            groups += [_quote(value)]
        elif role == "line":
            commands += _line_words(value, program)
        elif role == "words":
            words += _line_words(value, program)
        elif role == "inner" and isinstance(value, dict):
            words += _write_words(value, program) if len(arguments) <= MOST_WORDS else []
        elif role == "program" and value == program:
            continue
        else:
            words += map(_quote, _flag(key, value, program))
    return groups + commands + words


def _line_words(value: Any, program: str) -> list[str]:
    """A text is shell text as it stands; a list's members are words; an object's fields are flags."""
    if isinstance(value, str):
        return [word for word in [value.strip().removeprefix(f"{program} ")] if word]
    if isinstance(value, list):
        return [_quote(str(item)) for item in value[:MOST_WORDS] if isinstance(item, (str, int, float))]
    if isinstance(value, dict):
        return [_quote(word) for word in flags_of(value, program)]
    return []


def flags_of(fields: dict[str, Any], program: str = "") -> list[str]:
    """An object's fields as words of a line: `--key value`, the value alone where the key names a thing."""
    words: list[str] = []
    for key, value in list(fields.items())[:MOST_WORDS]:
        words += _flag(key, value, program)
    return words


def _flag(key: str, value: Any, program: str) -> list[str]:
    role = _role(key)
    if value is None or value is False:
        return []
    if role == "word" and isinstance(value, (str, int)) and value is not True and program:
        return [str(value)[:LONGEST_VALUE]]
    flag = _flag_name(key, program)
    if value is True:
        return [flag]
    if isinstance(value, list):
        each = [
            str(item)[:LONGEST_VALUE] for item in value[:MOST_WORDS] if isinstance(item, (str, int, float))
        ]
        return each if role == "word" and program else [flag, *each]
    if isinstance(value, dict):
        return [
            word
            for name, member in value.items()
            if not isinstance(member, (dict, list))
            for word in _flag(name, member, "")
        ]
    text = str(value)[:LONGEST_VALUE]
    return [flag, text, f"--{text}"] if role == "mode" else [flag, text]


def _flag_name(key: str, program: str) -> str:
    if key[:1] == "-":
        return key
    if len(key) == 1:
        return "-" + key
    name = "-".join(words_of(key)) or key
    return ("-" if program in _SINGLE_DASH else "--") + name


def _quote(word: str) -> str:
    return shlex.quote(word)


@lru_cache(maxsize=REMEMBERED_KEYS)
def _role(key: str) -> Role:
    return _ROLES.get("".join(words_of(key)), "flag")
