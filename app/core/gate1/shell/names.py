"""A program's name: from the word it was called by to the base name that the patterns speak of."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import lru_cache

from app.core.gate1.shell.interpreters import SHELLS

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
    return next((one for one in _LIKELY if fnmatchcase(one, name)), name)
