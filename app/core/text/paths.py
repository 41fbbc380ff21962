"""The plain spelling of a path: one file, one text, however a caller wrote it."""

from __future__ import annotations

import posixpath
import re
from urllib.parse import unquote

LONGEST_PATH = 1024
_FILE_URL = re.compile(r"^file:/{0,2}(?:localhost)?(?=/)")
_OTHER_ROOT = re.compile(
    r"^/(?:proc/[^/]+/root|host|hostfs|rootfs|mnt/host|mnt/root|mnt|sysroot|private)"
    r"(?=/(?:etc|var|usr|root|home|lib)/)"
)
"""The machine's own files under another name: mounted into a container, or macOS's `/private`."""
_HOME = re.compile(
    r"^(?:\$\{?home\}?|~[a-z0-9._-]*|/home/[^/]+|/users/[^/]+|/root|%userprofile%|\$env:userprofile"
    r"|c:/users/[^/]+)(?=/)"
)


def plain_path(text: str) -> str | None:
    """The path in lower case, with slashes, without `.` and `..`, homes as `~`; None for what is no path.

    A path of one word is one too: `.bashrc`.
    """
    if not 1 < len(text) <= LONGEST_PATH or "\n" in text:
        return None
    path = text.strip().strip("\"'").lower().replace("\\", "/")
    path = _FILE_URL.sub("", path)
    if "%" in path and "%user" not in path:
        path = unquote(path)
    trailing = path.endswith("/")
    path = re.sub(r"^//+", "/", posixpath.normpath(path))
    while path.startswith("../"):
        path = path[3:]
    path = _HOME.sub("~", _OTHER_ROOT.sub("", path))
    return path + "/" if trailing and path != "/" else path
