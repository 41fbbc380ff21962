"""A folder of what content libraries came to, so that a second start does not work it out again.

A file is named after the SHA-256 of the library and of the code that expands it, and begins with the SHA-256
of what it holds: another code, another library or a damaged file gives nothing. Only a folder and files of
this user that no other user may write to are read: what they say decides which texts are looked at.
"""

from __future__ import annotations

import os
import stat
import unicodedata
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from tempfile import NamedTemporaryFile

from sluice.decider_version import compute_decider_version

MOST_FILES = 8
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
_HASH = 64


class StoredCompilations:
    """Compilations in a folder; makes it, readable by this user alone. What cannot be kept is not kept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, source: bytes) -> bytes | None:
        """What was kept for this source by the same code, unaltered."""
        file = self._locate_file(source)
        try:
            if not (_is_ours(self._folder) and _is_ours(file)):
                return None
            written = file.read_bytes()
            os.utime(file)
        except OSError:
            return None
        content = written[_HASH:]
        return content if written[:_HASH] == sha256(content).hexdigest().encode() else None

    def put(self, source: bytes, result: bytes) -> None:
        """Keep a result, whole or not at all, and drop the oldest of too many."""
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with NamedTemporaryFile(dir=self._folder, prefix=".", delete=False) as new:
                new.write(sha256(result).hexdigest().encode() + result)
            Path(new.name).replace(self._locate_file(source))
            files = sorted(self._folder.glob("*.json"), key=lambda file: file.stat().st_mtime, reverse=True)
            for path in files[MOST_FILES:]:
                path.unlink(missing_ok=True)

    def _locate_file(self, source: bytes) -> Path:
        return self._folder / f"{sha256(_digest_code() + source).hexdigest()}.json"


def _is_ours(path: Path) -> bool:
    status = path.stat()
    return status.st_uid == os.getuid() and not status.st_mode & _OTHERS_MAY_WRITE


@cache
def _digest_code() -> bytes:
    """All that says how a library is expanded, besides the library."""
    return f"{compute_decider_version()} {version('google-re2')} {unicodedata.unidata_version}".encode()
