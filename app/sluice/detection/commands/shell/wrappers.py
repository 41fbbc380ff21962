"""Commands that run another command given among their words (their manual pages' synopses)."""

from __future__ import annotations

import re
import shlex
from typing import NamedTuple

ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")


class Wrapper(NamedTuple):
    """How to find the inner command: which flags take a value, and what stands before it."""

    values: frozenset[str] = frozenset()
    """Flags with a value: the rest of their word (`-n1`, `--max-args=1`) or, without one, the next word."""
    positionals: int = 0
    """Words before the command (a host, a container, a duration)."""
    text: bool = False
    """The rest is joined and read by a shell (ssh, watch)."""
    code: frozenset[str] = frozenset()
    """Flags whose value is shell text (su -c)."""
    verbs: tuple[frozenset[str], ...] = ()
    """Subcommands that must come first (docker exec)."""
    stops: frozenset[str] = frozenset()
    """Flags with which nothing is run (command -v)."""
    attached: str = ""
    """Letters whose value, if they have one, is the rest of their word (xargs -i)."""
    shortens: bool = False
    """A long flag with a value may be shortened (GNU getopt_long)."""


class Inner(NamedTuple):
    """The inner command: as words, or as shell text; and the variables set for it.

    `replaced`: the text in its words that stands for an input (xargs -I).
    """

    words: tuple[str, ...] = ()
    text: str | None = None
    assigned: tuple[tuple[str, str], ...] = ()
    replaced: str = ""


_REPLACING = frozenset({"-I", "-i", "-J", "--replace"})


def _wrapper(
    values: str = "", positionals: int = 0, *, text: bool = False, code: str = "", stops: str = ""
) -> Wrapper:
    return Wrapper(
        frozenset(values.split()), positionals, text, frozenset(code.split()), (), frozenset(stops.split())
    )


def _gnu(values: str = "", positionals: int = 0, *, attached: str = "", code: str = "") -> Wrapper:
    return _wrapper(values, positionals, code=code)._replace(attached=attached, shortens=True)


def _verbs(
    verbs: str, values: str = "", positionals: int = 0, *, text: bool = False, code: str = ""
) -> Wrapper:
    one_of = tuple(frozenset(word.split("|")) for word in verbs.split())
    return Wrapper(frozenset(values.split()), positionals, text, frozenset(code.split()), one_of)


_RUN_VALUES = (
    "-e --env -v --volume -w --workdir -u --user --name -p --publish --network --net --entrypoint "
    "-m --memory --mount -h --hostname --env-file -l --label --cpus --gpus --device --cap-add --cap-drop "
    "--security-opt --pid --ipc --userns --uts --platform --restart --add-host --dns --tmpfs --ulimit "
    "--link --log-driver -n --namespace "
    "-c --container --context --cluster -f --file --pull --runtime --shm-size"
)
_CONTAINER = Wrapper(
    frozenset(_RUN_VALUES.split()), 1, verbs=(frozenset({"exec", "run", "compose", "container", "shell"}),)
)
_SSH = "-i -p -l -o -F -J -L -R -D -b -c -e -m -O -Q -S -W -w -E -I -B"

WRAPPERS: dict[str, Wrapper] = {
    "sudo": _wrapper(
        "-u --user -g --group -h --host -p --prompt -C -T -R -D -r -t -U --chdir --role --type",
        stops="-l --list",
    ),
    "doas": _wrapper("-u -C -a"),
    "pkexec": _wrapper("--user"),
    "run0": _wrapper("-u --user"),
    "gosu": _wrapper(positionals=1),
    "su-exec": _wrapper(positionals=1),
    "env": _gnu("-u --unset -C --chdir -P -a --argv0 -L -U", code="-S --split-string"),
    "nohup": _wrapper(),
    "setsid": _wrapper(),
    "disown": _wrapper(),
    "time": _wrapper("-f -o --format --output"),
    "command": _wrapper(stops="-v -V"),
    "builtin": _wrapper(),
    "exec": _wrapper("-a"),
    "nice": _gnu("-n --adjustment"),
    "ionice": _gnu("-c -n --class --classdata"),
    "chrt": _wrapper("-T -P -D", 1),
    "taskset": _wrapper("", 1),
    "timeout": _gnu("-s --signal -k --kill-after", 1),
    "gtimeout": _gnu("-s --signal -k --kill-after", 1),
    "stdbuf": _gnu("-i -o -e --input --output --error"),
    "unbuffer": _wrapper(),
    "setarch": _wrapper("", 1),
    "linux64": _wrapper(),
    "watch": _wrapper("-n --interval", text=True),
    "xargs": _gnu(
        "-I -n -P -L -s -d -a -E -J -R -S --max-args --max-procs --max-chars --delimiter --arg-file "
        "--process-slot-var",
        attached="iel",
    ),
    "strace": _wrapper("-e -o -p -s -u -a -E -O -P -S -b"),
    "ltrace": _wrapper("-e -o -p -s -u -a -n"),
    "valgrind": _wrapper(),
    "chroot": _wrapper("", 1),
    "unshare": _wrapper(),
    "nsenter": _wrapper("-t --target -S -G"),
    "systemd-run": _wrapper("-p --property -u --unit --uid --gid -E --slice --on-calendar --on-active"),
    "systemd-inhibit": _wrapper(),
    "flock": _wrapper("-w --timeout -E", 1, code="-c --command"),
    "su": _wrapper("-s --shell -g -G", 9, code="-c --command --session-command"),
    "runuser": _wrapper("-u --user -s -g -G", code="-c --command"),
    "script": _wrapper("-O -I -B -T -m", 9, code="-c --command"),
    "busybox": _wrapper(),
    "toybox": _wrapper(),
    "caffeinate": _wrapper("-t -w"),
    "eatmydata": _wrapper(),
    "faketime": _wrapper("-f", 1),
    "proxychains": _wrapper("-f"),
    "proxychains4": _wrapper("-f"),
    "torsocks": _wrapper(),
    "firejail": _wrapper(),
    "fakeroot": _wrapper(),
    "dbus-run-session": _wrapper(),
    "xvfb-run": _wrapper("-n -s -e -f -w"),
    "ssh": _wrapper(_SSH, 1, text=True),
    "autossh": _wrapper(_SSH + " -M", 1, text=True),
    "sshpass": _wrapper("-p -f -e -d"),
    "mosh": _wrapper("-p", 1),
    "screen": _wrapper("-S -t -c -L -h -p -s"),
    "docker": _CONTAINER,
    "podman": _CONTAINER,
    "nerdctl": _CONTAINER,
    "docker-compose": _CONTAINER,
    "kubectl": _verbs("exec", "-n --namespace -c --container --context --kubeconfig", 1),
    "oc": _verbs("exec|rsh", "-n --namespace -c --container --context", 1),
    "lxc": _verbs("exec", "", 1),
    "incus": _verbs("exec", "", 1),
    "heroku": _verbs("run", "-a --app -s --size"),
    "vagrant": _verbs("ssh", "", 9, code="-c --command"),
    "fly": _verbs("ssh", "-a --app", 9, code="-C --command"),
    "gcloud": _verbs("compute ssh", "", 9, code="--command"),
    "npx": _wrapper("-p --package", code="-c --call"),
    "bunx": _wrapper("-p --package"),
    "pnpm": _verbs("dlx|exec|x"),
    "yarn": _verbs("dlx|exec"),
    "npm": _verbs("exec|x", "-p --package", code="-c --call"),
    "poetry": _verbs("run"),
    "pipenv": _verbs("run"),
    "uv": _verbs("run", "--with --python -p --project"),
    "bundle": _verbs("exec"),
    "conda": _verbs("run", "-n --name -p --prefix"),
    "doppler": _verbs("run", "-p --project -c --config", code="--command"),
    "op": _verbs("run", "--env-file"),
    "aws-vault": _verbs("exec", "", 1),
    "nix-shell": _wrapper("-p --packages", 9, code="--run --command"),
    "start-stop-daemon": _wrapper("--pidfile -p --name -n", 9, code="--exec -x"),
}


MOST_SPLITS = 6
"""Of `env -S` within its own text."""
REPLACED = "{}"
"""What xargs and parallel replace by an input, unless they are told another text."""


class Option(NamedTuple):
    """One word of options: the flag with a value that is in it, if there is one, the value, and the place
    after both."""

    flag: str
    value: str | None
    after: int


def option_at(spec: Wrapper, args: tuple[str, ...], index: int) -> Option:
    """The options in the word at a place, which begins with a dash (POSIX 12.2; GNU getopt_long)."""
    word = args[index]
    valued = spec.values | spec.code
    name, equals, value = word.partition("=")
    if name[:2] == "--" or name in valued:
        name = _whole_name(spec, name)
        if equals or name not in valued:
            return Option(name, value if equals else None, index + 1)
        return _take_next(name, args, index)
    for at, character in enumerate(word[1:], 2):
        rest = word[at:]
        if character in spec.attached:
            return Option("-" + character, rest or None, index + 1)
        if "-" + character in valued:
            return (
                Option("-" + character, rest, index + 1) if rest else _take_next("-" + character, args, index)
            )
    return Option("", None, index + 1)


def _take_next(name: str, args: tuple[str, ...], index: int) -> Option:
    return Option(name, args[index + 1] if index + 1 < len(args) else None, index + 2)


def _whole_name(spec: Wrapper, name: str) -> str:
    if not spec.shortens or name in spec.values or name in spec.code:
        return name
    begun = [
        option for option in (*spec.values, *spec.code) if option.startswith(name) and option[:2] == "--"
    ]
    return begun[0] if len(begun) == 1 else name


def unwrap_command(program: str, args: tuple[str, ...]) -> Inner | None:
    """The inner command of a wrapper's words; None where there is none."""
    spec = WRAPPERS.get(program)
    if spec is None or (spec.stops and any(arg in spec.stops for arg in args[:2])):
        return None
    start = _skip_verbs(spec, args)
    inner = None if start is None else _inner(spec, args, start)
    for _ in range(MOST_SPLITS):
        if program != "env" or inner is None or inner.text is None:
            break
        inner = _inner(spec, (*_split_string(inner.text), *inner.words), 0)
    return inner


def _split_string(text: str) -> list[str]:
    """The words of `env -S`, which it reads as its own: options, assignments, the command."""
    try:
        return shlex.split(text.replace("\\_", " "))
    except ValueError:
        return text.split()


def _skip_verbs(spec: Wrapper, args: tuple[str, ...]) -> int | None:
    after = 0
    for verb in spec.verbs:
        while after < len(args) and args[after].startswith("-"):
            after = option_at(spec, args, after).after
        if after >= len(args) or args[after] not in verb:
            return None
        after += 1
        if args[after - 1] in ("compose", "container") and after < len(args):
            after += 1
    return after


def _inner(spec: Wrapper, args: tuple[str, ...], after: int) -> Inner | None:
    assigned: list[tuple[str, str]] = []
    skip, replaced = spec.positionals, ""
    while after < len(args):
        word = args[after]
        if word == "--":
            skip = 0 if spec.verbs else skip
        elif word[:1] == "-":
            option = option_at(spec, args, after)
            after = option.after
            if option.flag in spec.code:
                return Inner(args[after:], option.value or "", tuple(assigned))
            if option.flag in _REPLACING:
                replaced = option.value or REPLACED
            continue
        elif not spec.text and ASSIGNMENT.match(word):
            key, _, value = word.partition("=")
            assigned.append((key, value))
        elif skip:
            skip -= 1
        else:
            return _rest(spec, args[after:], tuple(assigned))._replace(replaced=replaced)
        after += 1
    return None


def _rest(spec: Wrapper, words: tuple[str, ...], assigned: tuple[tuple[str, str], ...]) -> Inner:
    return Inner(text=" ".join(words), assigned=assigned) if spec.text else Inner(words, assigned=assigned)
