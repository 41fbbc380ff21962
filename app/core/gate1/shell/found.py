"""The commands that `find` and `fd` run on what they find (find(1), -exec and -delete)."""

from __future__ import annotations

_ACTIONS = frozenset({"-exec", "-execdir", "-ok", "-okdir", "-x", "--exec", "-X", "--exec-batch"})
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
    """Each command as words, `{}` replaced by the place that is searched (a file in it if tests narrow)."""
    roots = _roots(args)
    found = [root.rstrip("/") + "/{}" for root in roots] if _NARROWING.intersection(args) else roots
    commands = []
    place = 0
    while place < len(args):
        place += 1
        if args[place - 1] in _ACTIONS:
            end = next((at for at in range(place, len(args)) if args[at] in _ENDS), len(args))
            commands.append(_filled(args[place:end], found))
            place = end
    return [words for words in commands if words]


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
