"""Where an archive lies: a folder, or a bucket of an S3-compatible store. Every write is atomic.

Names are relative, with `/` between folders, and are made by this package alone: no name is ever taken from
what lies in the store. In a folder a file is written under a temporary name, flushed to the disk and renamed;
one that must be new is linked, which fails where it exists. In a bucket a put is atomic by itself, and one
that must be new carries `If-None-Match: *`.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

BUCKET_SCHEME = "s3://"
_PROBE = "probe"
_PARTIAL = ".partial-"


class StoreError(Exception):
    """The store did not answer, or refused; the message names it and why. Nothing half was written."""


class ObjectMissing(Exception):
    """Nothing lies under that name."""


class ObjectTooLarge(Exception):
    """What lies there is larger than the reader takes; nothing of it was kept."""


class ArchiveStore(Protocol):
    """Every method raises StoreError. They block: call them from a thread."""

    url: str

    def put(self, name: str, data: bytes) -> None:
        """Write an object, whole or not at all; one that is there is replaced."""

    def create(self, name: str, data: bytes) -> bool:
        """Write a new object, whole or not at all. False: something lies there, and stays."""

    def read(self, name: str, most_bytes: int) -> bytes:
        """A whole object. Raises ObjectMissing, and ObjectTooLarge before more than `most_bytes` are held."""

    def list_names(self, folder: str) -> Iterator[str]:
        """The names, without the folder's, of the objects right in a folder; none if there is no folder."""


def open_store(location: str, endpoint_url: str | None = None) -> ArchiveStore:
    """The store at a folder's path or `s3://BUCKET/PATH`. `endpoint_url`: of a store that is not Amazon's;
    keys come from where Amazon's own tools take them (environment, profile, role).

    Raises StoreError for another scheme, and where the extra `archive` is needed and not installed.
    """
    if location.startswith(BUCKET_SCHEME):
        return BucketStore(location, endpoint_url)
    if "://" in location:
        raise StoreError(f"{location}: an archive lies in a folder or in {BUCKET_SCHEME}BUCKET/PATH")
    return FolderStore(Path(location).expanduser())


def require_exclusive_writes(store: ArchiveStore) -> None:
    """Raise StoreError where the store lets a second writer replace what must be new: two archivers would
    then destroy each other's manifest."""
    if store.create(_PROBE, b"") and store.create(_PROBE, b""):
        raise StoreError(f"{store.url}: the store ignores `If-None-Match: *`, so it can keep no archive")


class FolderStore:
    """A folder on a local or mounted file system that has hard links."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.url = str(folder)

    def put(self, name: str, data: bytes) -> None:
        """See ArchiveStore."""
        self._write(name, data, replace=True)

    def create(self, name: str, data: bytes) -> bool:
        """See ArchiveStore."""
        return self._write(name, data, replace=False)

    def read(self, name: str, most_bytes: int) -> bytes:
        """See ArchiveStore. What is no regular file is refused, and a link on the way to it: it could lead
        anywhere, or block."""
        try:
            with self._open_parent(name) as parent:
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
                descriptor = os.open(name.rsplit("/", 1)[-1], flags, dir_fd=parent)
            with open(descriptor, "rb") as opened:  # noqa: PTH123 - of a descriptor
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode):
                    raise StoreError(f"{self._folder / name}: not a regular file")
                data = opened.read(most_bytes + 1) if status.st_size <= most_bytes else None
        except FileNotFoundError:
            raise ObjectMissing(name) from None
        except OSError as error:
            raise StoreError(f"{self._folder / name}: {error.strerror}") from None
        if data is None or len(data) > most_bytes:
            raise ObjectTooLarge(name)
        return data

    def list_names(self, folder: str) -> Iterator[str]:
        """See ArchiveStore."""
        try:
            with self._open_parent(f"{folder}/") as opened:
                names = os.listdir(opened)  # noqa: PTH208 - of a descriptor
        except FileNotFoundError:
            return iter(())
        except OSError as error:
            raise StoreError(f"{self._folder / folder}: {error.strerror}") from None
        return (name for name in names if not name.startswith(_PARTIAL))

    def _write(self, name: str, data: bytes, *, replace: bool) -> bool:
        last, partial = name.rsplit("/", 1)[-1], f"{_PARTIAL}{secrets.token_hex(8)}"
        try:
            with self._open_parent(name, make=True) as parent:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
                descriptor = os.open(partial, flags, 0o600, dir_fd=parent)
                try:
                    with open(descriptor, "wb") as out:  # noqa: PTH123 - of a descriptor
                        out.write(data)
                        out.flush()
                        os.fsync(out.fileno())
                    if replace:
                        os.replace(partial, last, src_dir_fd=parent, dst_dir_fd=parent)
                    else:
                        os.link(partial, last, src_dir_fd=parent, dst_dir_fd=parent)
                finally:
                    with suppress(FileNotFoundError):
                        os.unlink(partial, dir_fd=parent)
                os.fsync(parent)  # so that the new name outlives a power cut
        except FileExistsError:
            return False
        except OSError as error:
            raise StoreError(f"{self._folder / name}: {error.strerror}") from None
        return True

    @contextmanager
    def _open_parent(self, name: str, *, make: bool = False) -> Iterator[int]:
        """The folder of a name, opened from the archive's own one step at a time: a link below that one is
        not followed. Raises OSError."""
        if make:
            self._folder.mkdir(parents=True, exist_ok=True)
        opened = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for part in name.split("/")[:-1]:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=opened)
                below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=opened)
                os.close(opened)
                opened = below
            yield opened
        finally:
            os.close(opened)


class BucketStore:
    """A path in a bucket of an S3-compatible store that honours `If-None-Match: *`."""

    def __init__(self, location: str, endpoint_url: str | None) -> None:
        try:
            from s3fs import S3FileSystem  # noqa: PLC0415 - of the extra `archive`
        except ImportError:
            raise StoreError("install the extra `archive` for a bucket: s3fs") from None
        self.url = location
        self._root = location.removeprefix(BUCKET_SCHEME).rstrip("/")
        self._files: Any = S3FileSystem(endpoint_url=endpoint_url, use_listings_cache=False)

    def put(self, name: str, data: bytes) -> None:
        """See ArchiveStore."""
        with _Refusals(self._name(name)):
            self._files.pipe_file(self._name(name), data)

    def create(self, name: str, data: bytes) -> bool:
        """See ArchiveStore."""
        with _Refusals(self._name(name)):
            try:
                self._files.pipe_file(self._name(name), data, mode="create")
            except FileExistsError:
                return False
        return True

    def read(self, name: str, most_bytes: int) -> bytes:
        """See ArchiveStore."""
        path = self._name(name)
        with _Refusals(path):
            try:
                data = self._read_range(path, most_bytes + 1)
            except FileNotFoundError:
                raise ObjectMissing(name) from None
        if len(data) > most_bytes:
            raise ObjectTooLarge(name)
        return data

    def list_names(self, folder: str) -> Iterator[str]:
        """See ArchiveStore."""
        path = self._name(folder)
        with _Refusals(path):
            try:
                paths = self._files.ls(path, detail=False)
            except FileNotFoundError:
                return iter(())
        return (entry.rsplit("/", 1)[-1] for entry in paths)

    def _read_range(self, path: str, most_bytes: int) -> bytes:
        """The beginning of an object, in one request. Of an empty one there is no range: it is refused."""
        try:
            data: bytes = self._files.cat_file(path, start=0, end=most_bytes)
        except FileNotFoundError:
            raise
        except Exception:
            if self._files.info(path)["size"]:
                raise
            return b""
        return data

    def _name(self, name: str) -> str:
        return f"{self._root}/{name}"


class _Refusals:
    """Turns whatever the S3 client raises into StoreError. It has no common base: OSError of s3fs, errors of
    botocore and of aiohttp."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, ObjectMissing | ObjectTooLarge):
            raise StoreError(f"{BUCKET_SCHEME}{self._path}: {error or type(error).__name__}") from error
