"""A program's name: from the word it was called by to the base name that the patterns speak of."""

from __future__ import annotations

from fnmatch import fnmatchcase

_GLOB = frozenset("*?[")
_LIKELY = (
    "rm sh bash cat dd nc id curl wget chmod chown mkfs python3 python perl ruby zsh dash mv cp kill shred "
    "tar find sudo su ssh scp base64 xargs env ncat socat"
).split()
"""Programs that a globbed name (`/bin/r?`) is taken for, the most harmful of equal ones first."""


def base_name(path: str) -> str:
    """`/usr/bin/RM` and `RM.exe` are `rm`; `/bin/r?` is the first likely program that the glob matches."""
    name = path.rsplit("/", 1)[-1].rsplit("\\", 1)[-1].lower()
    if name.endswith(".exe"):
        name = name[:-4]
    if _GLOB.isdisjoint(name) or name in ("[", "[["):
        return name
    return next((one for one in _LIKELY if fnmatchcase(one, name)), name)
