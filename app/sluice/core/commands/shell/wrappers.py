"""Commands that run another command given among their words (their manual pages' synopses)."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")


class Wrapper(NamedTuple):
    """How to find the inner command: which flags take a value, and what stands before it."""

    values: frozenset[str] = frozenset()
    """Flags whose value is the next word."""
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


class Inner(NamedTuple):
    """The inner command: as words, or as shell text; and the variables set for it."""

    words: tuple[str, ...] = ()
    text: str | None = None
    assigned: tuple[tuple[str, str], ...] = ()


def _wrapper(
    values: str = "", positionals: int = 0, *, text: bool = False, code: str = "", stops: str = ""
) -> Wrapper:
    return Wrapper(
        frozenset(values.split()), positionals, text, frozenset(code.split()), (), frozenset(stops.split())
    )


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
    "env": _wrapper("-u --unset -C --chdir", code="-S --split-string"),
    "nohup": _wrapper(),
    "setsid": _wrapper(),
    "disown": _wrapper(),
    "time": _wrapper("-f -o --format --output"),
    "command": _wrapper(stops="-v -V"),
    "builtin": _wrapper(),
    "exec": _wrapper("-a"),
    "nice": _wrapper("-n --adjustment"),
    "ionice": _wrapper("-c -n --class --classdata"),
    "chrt": _wrapper("-T -P -D", 1),
    "taskset": _wrapper("", 1),
    "timeout": _wrapper("-s --signal -k --kill-after", 1),
    "gtimeout": _wrapper("-s --signal -k --kill-after", 1),
    "stdbuf": _wrapper("-i -o -e --input --output --error"),
    "unbuffer": _wrapper(),
    "setarch": _wrapper("", 1),
    "linux64": _wrapper(),
    "watch": _wrapper("-n --interval", text=True),
    "xargs": _wrapper("-I -n -P -L -s -d -a -E --max-args --max-procs --delimiter --replace --arg-file"),
    "parallel": _wrapper("-j --jobs -a --arg-file -S --colsep --delay --timeout -N -n", text=True),
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
    "sem": _wrapper("-j --id", text=True),
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


def unwrapped(program: str, args: tuple[str, ...]) -> Inner | None:
    """The inner command of a wrapper's words; None where there is none."""
    spec = WRAPPERS.get(program)
    if spec is None or (spec.stops and any(arg in spec.stops for arg in args[:2])):
        return None
    start = _after_verbs(spec, args)
    return None if start is None else _inner(spec, args, start)


def _after_verbs(spec: Wrapper, args: tuple[str, ...]) -> int | None:
    place = 0
    for verb in spec.verbs:
        while place < len(args) and args[place].startswith("-"):
            place += 2 if args[place] in spec.values else 1
        if place >= len(args) or args[place] not in verb:
            return None
        place += 1
        if args[place - 1] in ("compose", "container") and place < len(args):
            place += 1
    return place


def _inner(spec: Wrapper, args: tuple[str, ...], place: int) -> Inner | None:
    assigned: list[tuple[str, str]] = []
    skip = spec.positionals
    while place < len(args):
        word = args[place]
        if word == "--":
            skip = 0 if spec.verbs else skip
        elif word[:1] == "-" and len(word) > 1:
            name, _, value = word.partition("=")
            if name in spec.code or (name[:2] != "--" and "-" + name[-1] in spec.code):
                return Inner(text=value or " ".join(args[place + 1 : place + 2]), assigned=tuple(assigned))
            place += name in spec.values and "=" not in word
        elif not spec.text and ASSIGNMENT.match(word):
            key, _, value = word.partition("=")
            assigned.append((key, value))
        elif skip:
            skip -= 1
        else:
            return _rest(spec, args[place:], tuple(assigned))
        place += 1
    return None


def _rest(spec: Wrapper, words: tuple[str, ...], assigned: tuple[tuple[str, str], ...]) -> Inner:
    return Inner(text=" ".join(words), assigned=assigned) if spec.text else Inner(words, assigned=assigned)


_ACTIONS = frozenset({"-exec", "-execdir", "-ok", "-okdir", "-x", "--exec", "-X", "--exec-batch"})
_OTHERWISE = frozenset({"!", "-not", "-o", "-or", ",", "(", ")", "-prune,"})
"""With one of these, what has another name may pass too."""
_ENDS = frozenset({";", "+"})
_NARROWING = frozenset(
    {
        "-name",
        "-iname",
        "-path",
        "-ipath",
        "-regex",
        "-iregex",
        "-type",
        "-user",
        "-group",
        "-size",
        "-mtime",
        "-atime",
        "-ctime",
        "-mmin",
        "-newer",
        "-perm",
        "-empty",
        "-maxdepth",
        "-nouser",
        "-links",
        "-inum",
        "-samefile",
        "-lname",
        "-wholename",
    }
)


def found_commands(args: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Each command as words, `{}` replaced by what is found: the place that is searched, or a file in it.

    Source: find(1), -exec and -delete.
    """
    commands = []
    place = 0
    while place < len(args):
        place += 1
        if args[place - 1] in _ACTIONS:
            end = next((at for at in range(place, len(args)) if args[at] in _ENDS), len(args))
            commands.append(_filled(args[place:end], found_by(args[: place - 1])))
            place = end
    return [words for words in commands if words]


def found_by(tests: tuple[str, ...]) -> list[str]:
    """What passes the tests: `./__pycache__` where one name is asked for and nothing else may pass."""
    roots = _roots(tests)
    if not _NARROWING.intersection(tests):
        return roots
    names = [value for flag, value in pairwise(tests) if flag in ("-name", "-iname")]
    sure = len(names) == 1 and _OTHERWISE.isdisjoint(tests)
    return [root.rstrip("/") + "/" + (names[0] if sure else "{}") for root in roots]


def _roots(args: tuple[str, ...]) -> list[str]:
    roots: list[str] = []
    for arg in args:
        if arg[:1] in ("-", "(", "!"):
            if roots or len(arg) > 2:  # noqa: PLR2004 - `find -L /etc`: one-letter options come before the places
                break
            continue
        roots.append(arg)
    return roots or ["."]


def _filled(words: tuple[str, ...], found: list[str]) -> tuple[str, ...]:
    filled: list[str] = []
    for word in words:
        if word == "{}":
            filled.extend(found)
        else:
            filled.append(word.replace("{}", found[0]))
    return tuple(filled)
