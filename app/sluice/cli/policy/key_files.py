"""Private keys and envelopes as files, and `sluice keys`, which makes the keys that bundles and entries are
signed with, and the API keys of the HTTP gateway (api_key_verbs.py).

A key file is made for its owner's eyes alone and refused where others can read it.

`sluice bundle cosign`, `sluice registry cosign`: another approver's signature on signed files.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from sluice.cli.output import WRONG, clean, console, print_json, require_bytes, stop, write_file
from sluice.cli.policy.api_key_verbs import cli as api_keys_cli
from sluice.cli.policy.people_verbs import cli as people_cli
from sluice.core.foundation.errors import EnvelopeError
from sluice.core.registry.keys import SigningKey, UnusableKeyError
from sluice.core.trust.dsse import read_envelope
from sluice.core.trust.refused import Reason
from sluice.core.trust.signed_entries import CARRIED, read_statement
from sluice.secrets.redis_seal import MOST_KEYS, SealKeysError, make_seal_key, read_seal_keys, write_seal_keys
from sluice.secrets.secret_files import create_secret
from sluice.secrets.value_keys import ValueKeyError, make_value_key, read_value_key, write_value_key
from sluice.text.plurals import count_noun
from sluice_topics.json_text import Unreadable
from sluice_topics.values import derive_tenant_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sluice.core.trust.dsse import Envelope
    from sluice.core.trust.signed_entries import Statement


Signed = Annotated[Path, typer.Argument(metavar="FILE", help="The file that `sign` wrote.")]


def require_envelopes(file: Path) -> list[bytes]:
    """The lines of a file of envelopes; a file that was never signed, or is empty, ends the command."""
    values = [line for line in require_bytes(file).split(b"\n") if line.strip()]
    for number, value in enumerate(values, 1):
        if isinstance(read_envelope(value), Unreadable):
            noun = "registry" if b'"entries"' in b"".join(values[:2]) else "bundle"
            what = f"{file} is not signed" if number == 1 else f"{file}: line {number} is no signed envelope"
            signing = f"sluice {noun} sign {shlex.quote(str(file))} --key PEM --out SIGNED"
            stop(f"{what}. Sign it, and give the file that this writes: {signing}", WRONG)
    return values or stop(f"{file} is empty")


def write_or_stop(out: Path, values: Sequence[bytes]) -> None:
    """Envelopes to a file, one a line."""
    write_file(out, b"".join(value + b"\n" for value in values))


def cosign(
    file: Signed,
    key: Keys,
    out: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Write to this file instead of the one that was read.")
    ] = None,
) -> None:
    """Add a signature to each envelope of a file, and say what was signed.

    A second approver uses it where one approver is not enough. Read the
    change first (`sluice bundle diff`): your signature says that you agree.
    The content does not change, and earlier signatures stay.

    Exit codes: 0 signed, 1 a line is not a signed envelope, 2 could not
    do it.
    """
    keys = require_private_keys(key)
    signed = [_cosign_envelope(value, keys) for value in require_envelopes(file)]
    write_or_stop(out or file, [envelope.encode() for envelope, _ in signed])
    for envelope, statement in signed:
        console.print(f"[green]signed[/] {_describe(envelope, statement)}", soft_wrap=True, highlight=False)


def _cosign_envelope(value: bytes, keys: Sequence[SigningKey]) -> tuple[Envelope, Statement]:
    from sluice.core.trust.signing import cosign  # noqa: PLC0415 - and with it the whole core

    try:
        envelope = cosign(value, keys)
    except EnvelopeError as error:
        stop(str(error), WRONG)
    topics = [topic for topic, types in CARRIED.items() if envelope.payload_type in types]
    statement = (
        read_statement(topics[0], envelope) if topics else stop("not an envelope of a control topic", WRONG)
    )
    if isinstance(statement, Reason):
        stop(f"{statement.path}: {statement.message}", WRONG)
    return envelope, statement


def _describe(envelope: Envelope, statement: Statement) -> str:
    signatures = count_noun(len(envelope.signatures), "signature")
    rationale = statement.document.get("rationale")
    why = f"\n  rationale: {clean(rationale)}" if rationale else ""
    return f"{clean(statement.key)} {statement.hash}: {signatures}{why}"


FOLDER_OF_OWNER = 0o700

Keys = Annotated[
    list[Path],
    typer.Option("--key", metavar="PEM", help="Private key to sign with; may be given several times."),
]


class ReadableByOthersError(Exception):
    """A private key lies where others can read it."""


def make_private_key(path: Path) -> SigningKey:
    """Make a key and write it to a file that did not exist. Raises OSError."""
    private = Ed25519PrivateKey.generate()
    path.parent.mkdir(parents=True, exist_ok=True, mode=FOLDER_OF_OWNER)
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    create_secret(path, pem)
    return SigningKey(private)


def require_new_key(folder: Path, name: str) -> SigningKey:
    """A new key as NAME.pem, its public half as NAME.pub; where one of them is there the command ends."""
    private, public = folder / f"{name}.pem", folder / f"{name}.pub"
    try:
        if public.exists():
            stop(f"{public} exists already; nothing is overwritten")
        key = make_private_key(private)
        public.write_text(key.public.text + "\n", encoding="ascii")
    except OSError as error:
        stop(f"cannot write to {error.filename or folder}: {error.strerror}")
    return key


def read_private_key(path: Path) -> SigningKey:
    """The key in a file. Raises OSError, UnusableKeyError and ReadableByOthersError."""
    with path.open("rb") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        if mode & ~FOLDER_OF_OWNER:
            raise ReadableByOthersError(f"mode {mode:04o}, others can use it: chmod 600 {path}")
        return SigningKey.from_pem(file.read())


def require_private_keys(paths: Iterable[Path]) -> list[SigningKey]:
    """The keys to sign with; the first one that cannot be used ends the command."""
    keys = []
    for path in paths:
        try:
            keys.append(read_private_key(path))
        except OSError as error:
            stop(f"cannot read {path}: {error.strerror}")
        except (UnusableKeyError, ReadableByOthersError) as error:
            stop(f"{path}: {error}")
    return keys


def find_work_tree(folder: Path) -> Path | None:
    """The git work tree that a folder lies in, existing or not."""
    above = folder.resolve()
    return next((path for path in (above, *above.parents) if (path / ".git").exists()), None)


NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

cli = typer.Typer(
    name="keys",
    no_args_is_help=True,
    help="Make Ed25519 keys. Use it when somebody new signs: an operator, an approver, an agent. "
    "A root key's public half goes into the setting policy.root_keys; root keys sign "
    "approvers' entries, approvers' keys sign bundles and all other entries; an agent's key "
    "signs its inputs (docs/clients.md).",
)
cli.add_typer(api_keys_cli)
cli.add_typer(people_cli)
AsJson = Annotated[bool, typer.Option("--json", help="One JSON value on standard output.")]


@cli.command()
def new(
    name: Annotated[str, typer.Argument(help="The files are called NAME.pem and NAME.pub.")],
    out: Annotated[Path, typer.Option(file_okay=False, help="Folder for them, outside any work tree.")],
    *,
    force: Annotated[bool, typer.Option("--force", help="Allow a folder inside a git work tree.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a private key, readable by you alone, and its public half.

    It overwrites nothing, and it refuses a folder inside a git work tree,
    because one `git add` there could publish the key.

    Exit codes: 0 made, 2 could not do it.

    Example: sluice keys new root --out ~/.sluice/keys
    """
    if not NAME.fullmatch(name):
        stop(f"{name!r} is no name for a key: letters, digits, dot, dash and underscore")
    tree = find_work_tree(out)
    if tree is not None and not force:
        stop(f"{out} lies in the git work tree {tree}: choose another folder, or give --force")
    key = require_new_key(out, name)
    _say(key.public.text, key.keyid, as_json=as_json)
    if not as_json:
        console.print(f"private key: {clean(out / f'{name}.pem')}", soft_wrap=True, highlight=False)


@cli.command()
def public(
    pem: Annotated[Path, typer.Argument(metavar="PEM", help="A private key.")], as_json: AsJson = False
) -> None:
    """Show the public half of a private key, and its id."""
    (key,) = require_private_keys([pem])
    _say(key.public.text, key.keyid, as_json=as_json)


@cli.command()
def seal(
    file: Annotated[
        Path, typer.Argument(dir_okay=False, help="As redis.key_file or sealing.master_key_file names it.")
    ],
    *,
    use: Annotated[bool, typer.Option("--use", help="Put the newest key first: it seals.")] = False,
    retire: Annotated[bool, typer.Option("--retire", help="Remove all keys but the first.")] = False,
) -> None:
    """Make keys that seal: entries in a Redis, or the keys of persons.

    A file that is there gets a further key. The first key of a file seals,
    each opens. To change the key: run this and copy the file to all of
    them; then --use, and copy it; after a day (and grader.kept_s) --retire,
    and copy it. They read the file again when it changes.

    Never --retire a file of sealing.master_key_file: what the retired key
    had wrapped could be opened by nobody. `sluice rewrap` does it.

    Exit codes: 0 done, 1 there is no second key, 2 could not do it.

    Example: sluice keys seal ~/.sluice/redis.keys
    """
    try:
        keys = read_seal_keys(file) if file.exists() else ()
        if (use or retire) and len(keys) <= 1:
            stop(f"{file} has no second key: run `sluice keys seal {file}` without an option first", WRONG)
        if use:
            keys = (keys[-1], *keys[:-1])
        keys = keys[:1] if retire else keys if use else (*keys, make_seal_key())
        if len(keys) > MOST_KEYS:
            stop(f"{file} has {MOST_KEYS} keys, as many as may be: --retire some", WRONG)
        file.parent.mkdir(parents=True, exist_ok=True, mode=FOLDER_OF_OWNER)
        write_seal_keys(file, keys)
    except SealKeysError as error:
        stop(str(error))
    except OSError as error:
        stop(f"cannot write {error.filename or file}: {error.strerror}")
    console.print(f"{clean(file)}: {count_noun(len(keys), 'key')}", soft_wrap=True, highlight=False)


@cli.command()
def values(
    master: Annotated[
        Path, typer.Argument(dir_okay=False, help="As the setting values.master_key_file names it.")
    ],
    *,
    tenant: Annotated[
        str | None, typer.Option(metavar="ID", help="Derive this tenant's key; with --out.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(dir_okay=False, help="The new file with the tenant's key.")
    ] = None,
) -> None:
    """Make the master key of values' fingerprints, or derive a tenant's key.

    Workers hold the master key. A tenant's key goes to its clients and MCP
    proxies, which report by it where values stood, and never the values.
    Who holds it can guess what a fingerprint is of. Nothing is overwritten.

    Exit codes: 0 made, 2 could not do it.

    Example: sluice keys values ~/.sluice/values.key --tenant acme --out acme.key
    """
    if (tenant is None) != (out is None):
        stop("give --tenant and --out together")
    made = master if out is None else out
    try:
        key = make_value_key() if tenant is None else derive_tenant_key(read_value_key(master), tenant)
        made.parent.mkdir(parents=True, exist_ok=True, mode=FOLDER_OF_OWNER)
        write_value_key(made, key)
    except ValueKeyError as error:
        stop(str(error))
    except FileExistsError:
        stop(f"{made} exists already; nothing is overwritten")
    except OSError as error:
        stop(f"cannot write {error.filename or made}: {error.strerror}")
    whose = "master key" if tenant is None else f"key of {tenant}"
    console.print(f"{clean(made)}: {clean(whose)}", soft_wrap=True, highlight=False)


def _say(text: str, keyid: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"public_key": text, "keyid": keyid})
        return
    console.print(f"public key:  {text}", soft_wrap=True, highlight=False)
    console.print(f"key id:      {keyid}", soft_wrap=True, highlight=False)
