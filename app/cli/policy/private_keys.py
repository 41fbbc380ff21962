"""Private keys as files: made for their owner's eyes alone, refused where others can read them."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from app.cli.output import stop
from app.core.registry.keys import SigningKey, UnusableKeyError

if TYPE_CHECKING:
    from collections.abc import Iterable

OWNER_ONLY = 0o600
FOLDER_OF_OWNER = 0o700

Keys = Annotated[
    list[Path],
    typer.Option("--key", metavar="PEM", help="Private key to sign with; may be given several times."),
]


class ReadableByOthersError(Exception):
    """A private key lies where others can read it."""


def new_private_key(path: Path) -> SigningKey:
    """Make a key and write it to a file that did not exist. Raises OSError."""
    private = Ed25519PrivateKey.generate()
    path.parent.mkdir(parents=True, exist_ok=True, mode=FOLDER_OF_OWNER)
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY), "wb") as file:
        file.write(pem)
    return SigningKey(private)


def new_key_or_stop(folder: Path, name: str) -> SigningKey:
    """A new key as NAME.pem, its public half as NAME.pub; where one of them is there the command ends."""
    private, public = folder / f"{name}.pem", folder / f"{name}.pub"
    try:
        if public.exists():
            stop(f"{public} exists already; nothing is overwritten")
        key = new_private_key(private)
        public.write_text(key.public.text + "\n", encoding="ascii")
    except OSError as error:
        stop(f"cannot write to {error.filename or folder}: {error.strerror}")
    return key


def private_key(path: Path) -> SigningKey:
    """The key in a file. Raises OSError, UnusableKeyError and ReadableByOthersError."""
    with path.open("rb") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        if mode & ~FOLDER_OF_OWNER:
            raise ReadableByOthersError(f"mode {mode:04o}, others can use it: chmod 600 {path}")
        return SigningKey.from_pem(file.read())


def private_keys_or_stop(paths: Iterable[Path]) -> list[SigningKey]:
    """The keys to sign with; the first one that cannot be used ends the command."""
    keys = []
    for path in paths:
        try:
            keys.append(private_key(path))
        except OSError as error:
            stop(f"cannot read {path}: {error.strerror}")
        except (UnusableKeyError, ReadableByOthersError) as error:
            stop(f"{path}: {error}")
    return keys


def work_tree_of(folder: Path) -> Path | None:
    """The git work tree that a folder lies in, existing or not."""
    above = folder.resolve()
    return next((one for one in (above, *above.parents) if (one / ".git").exists()), None)
