"""Which code decides: what every record of the ledger carries as `decider_version`."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from app import core

if TYPE_CHECKING:
    from collections.abc import Iterable

DIGITS = 16
"""Of the digest, in hex: it tells trees apart and proves nothing, since a forger may write any version."""
_ROOT = Path(core.__path__[0]).parents[1]
_DECIDING = (Path("app", "core"), Path("topics"))


@cache
def decider_version() -> str:
    """The package's version, "+", and the beginning of a SHA-256 over the sources of the core and the
    records.

    Of one tree it is the same wherever the tree lies and however it was installed. Not covered: the libraries
    (the lock file pins them), settings, and stages that an installation adds.
    """
    return f"{version('sluice')}+{digest_of(_ROOT, _DECIDING)[:DIGITS]}"


def digest_of(root: Path, folders: Iterable[Path]) -> str:
    """Hex SHA-256 over the names and contents of all Python sources in the folders under `root`."""
    digest = sha256()
    files = {path.relative_to(root) for folder in folders for path in (root / folder).rglob("*.py")}
    for file in sorted(files, key=Path.as_posix):
        source = (root / file).read_bytes()
        digest.update(b"%b\0%d\0%b" % (file.as_posix().encode(), len(source), source))
    return digest.hexdigest()
