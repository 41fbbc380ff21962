"""A bundle as a person names it: a source file, a signed file, or a revision on the broker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import orjson

from app.cli.bundle_file import document_or_stop, loaded_or_stop
from app.cli.control_read import folded_or_stop
from app.cli.output import errors, shown, stop
from app.core.ledger.canonical import canonical
from app.core.trust.dsse import Envelope, read_envelope
from app.core.trust.signed_entries import BUNDLE, QUALITY_BUNDLE

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from app.core.bundles import Bundle
    from app.core.retrieval.quality_bundle import QualityBundle
    from app.core.trust.fold import Folded


class NamedBundle(NamedTuple):
    """`document`: what is signed, or would be."""

    bundle: Bundle | QualityBundle
    document: dict[str, Any]

    @property
    def name(self) -> str:
        """ "id@revision"."""
        return f"{self.bundle.id}@{self.bundle.revision}"


def bundle_or_stop(named: str) -> NamedBundle:
    """The bundle in a file; where there is none, of the revision "id@revision" that counts on the broker, or
    of the one in force under this id."""
    path = Path(named)
    document = _of_file(path) if path.exists() else _published(folded_or_stop(), named)
    return NamedBundle(loaded_or_stop(document), orjson.loads(document))


def tell_absent(names: Iterable[str]) -> None:
    """Which of them are no files, so that a slip of the pen does not look like trouble with the broker."""
    for named in names:
        if not Path(named).exists():
            told = f"{shown(named)} is no file: looked for on the broker"
            errors.print(told, soft_wrap=True, highlight=False)


def _of_file(path: Path) -> bytes:
    try:
        envelope = read_envelope(path.read_bytes())
    except OSError as error:
        stop(f"cannot read {path}: {error.strerror}")
    return envelope.payload if isinstance(envelope, Envelope) else document_or_stop(path)


def _published(folded: Folded, named: str) -> bytes:
    in_force = {one.hash for one in folded.bundles.values()} | {one.hash for one in folded.quality.values()}
    bundles = [one for one in folded.entries.values() if one.kind in (BUNDLE, QUALITY_BUNDLE)]
    meant = [one for one in bundles if named == one.key or (named == one.said.id and one.hash in in_force)]
    if not meant:
        stop(
            f"{named} is no file, and no revision of this name counts on the broker: see `sluice bundle log`"
        )
    if len(meant) > 1:
        stop(f"{named} is a policy bundle and a quality bundle: name a file")
    return canonical(meant[0].document)
