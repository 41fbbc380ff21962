"""Where a command finds the archive that it writes or reads: a place that is named, or the settings'."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sluice.adapters.archive.archive_store import StoreError, open_store
from sluice.adapters.archive.archived_records import Archive
from sluice.adapters.archive.manifest import ArchiveRefused
from sluice.cli.output import stop

if TYPE_CHECKING:
    from sluice.adapters.archive.archive_store import ArchiveStore
    from sluice.settings.reader import Settings


Noted = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBER:SHA256", help="An entry of the archive's manifest as you noted it elsewhere."
    ),
]


def require_store(settings: Settings, location: str | None) -> ArchiveStore:
    """The store at a place, or at the settings'; without one the command ends."""
    where = location or settings.archive.location
    if not where:
        stop("where is the archive? Name a folder or s3://BUCKET/PATH, or set archive.location")
    try:
        return open_store(where, settings.archive.endpoint_url)
    except StoreError as error:
        stop(str(error))


def require_archive(settings: Settings, location: str | None, noted: str | None = None) -> Archive:
    """The archive at a place, or at the settings'; what is none, or cannot be read, ends the command."""
    number, _, digest = (noted or "").partition(":")
    if noted and not (number.isdigit() and digest):
        stop("--noted takes NUMBER:SHA256, as `sluice archive check` prints it")
    try:
        return Archive(require_store(settings, location), (int(number), digest) if noted else None)
    except (StoreError, ArchiveRefused) as error:
        stop(str(error))


def get_installation_of(settings: Settings) -> tuple[str, str, str]:
    """What the entries of this installation's archive say that they are of."""
    return settings.policy.installation, settings.kafka.topic_prefix, settings.worker.app_id
