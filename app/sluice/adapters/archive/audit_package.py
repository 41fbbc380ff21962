"""An audit package in the place of an archive: its segments are those of an archive, so reruns read both
alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
from pydantic import ValidationError

from sluice.adapters.archive.archive_store import ObjectMissing, ObjectTooLarge, StoreError
from sluice.adapters.archive.archived_records import Archive
from sluice.adapters.archive.manifest import ArchiveRefused, Manifest
from sluice.adapters.archive.segment import Segment
from sluice.verifier.package_file import PackageFile
from sluice.verifier.package_manifest import MANIFEST, NotAPackage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


class PackageStore:
    """The members of a package as an ArchiveStore that nothing is written to."""

    def __init__(self, package: PackageFile) -> None:
        self._package = package
        self.url = str(package.path)

    def put(self, name: str, data: bytes) -> None:
        """See ArchiveStore."""
        del data
        raise StoreError(f"{self.url}: a package is not written to ({name})")

    def create(self, name: str, data: bytes) -> bool:
        """See ArchiveStore."""
        self.put(name, data)
        return False

    def read(self, name: str, most_bytes: int) -> bytes:
        """See ArchiveStore. What a member must be says the manifest, and who reads it checks it."""
        try:
            data = self._package.read_stored(name)
        except KeyError:
            raise ObjectMissing(name) from None
        except OSError as error:
            raise StoreError(f"{self.url}: {error.strerror}") from None
        if len(data) > most_bytes:
            raise ObjectTooLarge(name)
        return data

    def list_names(self, folder: str) -> Iterator[str]:
        """See ArchiveStore."""
        raise StoreError(f"{self.url}: a package has no folder {folder}")


class AuditPackage(Archive):
    """A package. `settings`: what its installation's settings said, by name."""

    def __init__(self, path: Path) -> None:
        """Raises StoreError, and ArchiveRefused for what is no package."""
        try:
            package = PackageFile(path)
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror}") from None
        except NotAPackage as error:
            raise ArchiveRefused(f"{path}: {error}") from None
        fields = orjson.loads(package.read_stored(MANIFEST))
        self.settings: Mapping[str, Any] = fields["settings"]
        super().__init__(PackageStore(package), manifest=_read_manifest(package, fields))


def _read_manifest(package: PackageFile, fields: Mapping[str, Any]) -> Manifest:
    """The package's manifest in the form of an archive's. Raises ArchiveRefused."""
    prefix = package.manifest.prefix
    manifest = Manifest(number=1, digest=package.digest.removeprefix("sha256:"))
    manifest.installation_of = package.manifest.installation, prefix, str(fields["app_id"])
    manifest.decided = {
        (f"{prefix}{base}", number): at for (base, number), at in package.manifest.decided.items()
    }
    for message in package.findings:
        manifest.report("entry_altered", MANIFEST, message)
    try:
        for segment in map(Segment.model_validate, fields["segments"]):
            manifest.segments.setdefault((segment.topic, segment.partition), []).append(segment)
    except ValidationError as error:
        raise ArchiveRefused(f"{package.path}: {' '.join(str(error).split())}") from None
    return manifest
