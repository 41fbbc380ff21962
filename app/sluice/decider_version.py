"""Which code decides: what every record of the ledger carries as `decider_version`."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import sluice_topics
from sluice import core, detection, text

if TYPE_CHECKING:
    from collections.abc import Mapping

DIGITS = 16
"""Of the digest, in hex: it tells trees apart and proves nothing, since a forger may write any version."""
_DECIDING = {
    package.__name__: Path(package.__path__[0]) for package in (core, detection, text, sluice_topics)
}


@cache
def compute_decider_version() -> str:
    """The package's version, "+", and the beginning of a SHA-256 over the sources of the core, the
    detectors, the handling of text and the records.

    Of one tree it is the same wherever the tree lies and however it was installed. Not covered: the libraries
    (the lock file pins them), settings, and stages that an installation adds.
    """
    return f"{version('sluice')}+{digest_sources(_DECIDING)[:DIGITS]}"


def digest_sources(packages: Mapping[str, Path]) -> str:
    """Hex SHA-256 over the names and contents of all Python sources; `packages`: folders by package name."""
    digest = sha256()
    files = {
        f"{package}/{path.relative_to(folder).as_posix()}": path
        for package, folder in packages.items()
        for path in folder.rglob("*.py")
    }
    for name in sorted(files):
        source = files[name].read_bytes()
        digest.update(b"%b\0%d\0%b" % (name.encode(), len(source), source))
    return digest.hexdigest()
