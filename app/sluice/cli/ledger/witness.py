"""`sluice witness`: somebody else's signature under tree heads that continue what it saw before."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from sluice.adapters.head_copies import open_alone, write_line
from sluice.cli.ledger.tree_heads import list_head_signers
from sluice.cli.output import WRONG, clean, errors, require_bytes, require_settings, stop
from sluice.cli.policy.key_files import require_private_keys
from sluice.core.foundation.errors import EnvelopeError
from sluice.core.trust.signing import cosign
from sluice.verifier.head_check import HeadsUnreadable, read_cosigned, read_time
from sluice.verifier.head_proof_check import find_growth
from sluice.verifier.proof_check import UnusableKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluice.verifier.head_check import StatedHead
    from sluice.verifier.head_proof_check import Growth

_NO_KEY = "whose heads? Give the head signer's public key: --head-key KEY, or heads.public_keys"


def register(cli: typer.Typer) -> None:
    """Add the verb to the command."""
    cli.command(name="witness")(witness_command)


def witness_command(
    proof: Annotated[Path, typer.Argument(metavar="PROOF", help="What `sluice ledger consistency` wrote.")],
    *,
    key: Annotated[Path, typer.Option(metavar="PEM", help="The witness's own private key.")],
    seen: Annotated[
        Path, typer.Option(metavar="FILE", help="The heads that it co-signed so far; it adds the next one.")
    ],
    head_key: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="The head signer's public key, base64; beside the settings'."),
    ] = None,
) -> None:
    """Co-sign a tree head, if its ledger continues that of the last head
    that this witness co-signed.

    A witness belongs to somebody else than the head signer, and needs no
    broker: it takes a proof of consistency from the head that it saw last
    to a new one. If the ledger was written again, there is no such proof,
    whoever has the head key. The first head is taken as it is. FILE is the
    witness's memory; give copies of it to those who verify (sluice ledger
    verify --cosigned FILE --witness-key KEY).

    Exit codes: 0 co-signed, 1 refused, 2 something cannot be read.

    Example: sluice witness growth.json --key witness.pem --seen seen.jsonl --head-key KEY
    """
    signers = list_head_signers(require_settings(), head_key or ()) or stop(_NO_KEY)
    (signing,) = require_private_keys([key])
    try:
        growth = find_growth(require_bytes(proof), signers)
    except UnusableKey as error:
        stop(str(error))
    with _open_alone(seen) as memory:
        try:
            last = [None, *read_cosigned(seen, signers)][-1]
        except HeadsUnreadable as error:
            stop(str(error))
        objection = _find_objection(growth, last)
        if objection is not None or growth.second is None:
            stop(f"not co-signed: {clean(objection or growth.why)}", WRONG)
        try:
            envelope = cosign(growth.envelope, [signing])
        except EnvelopeError as error:
            stop(f"not co-signed: {error}", WRONG)
        write_line(memory, envelope.encode())
    errors.print(f"head {growth.second.number} co-signed by {signing.public.text}", soft_wrap=True)


@contextmanager
def _open_alone(cosigned: Path) -> Iterator[BinaryIO]:
    """The file of a witness, held until it is closed: of two commands at one time that were shown two
    histories, the later one reads what the earlier one co-signed."""
    try:
        with open_alone(cosigned) as memory:
            yield memory
    except OSError as error:
        stop(f"cannot write {cosigned}: {error.strerror or error}")


def _find_objection(growth: Growth, last: StatedHead | None) -> str | None:
    """Why the second head of a proof is not to be signed."""
    if growth.first is None or growth.second is None:
        return growth.why
    if growth.second.digest != growth.first.digest and not _is_later(growth.second, growth.first):
        return f"head {growth.second.number} does not come after head {growth.first.number}"
    if last is None or growth.first.digest == last.digest:
        return None
    if growth.first.number == last.number:
        return f"head {last.number} is another than the one that was co-signed: the signer has two histories"
    return (
        f"the proof begins at head {growth.first.number}: it must at head {last.number}, the last co-signed"
    )


def _is_later(head: StatedHead, before: StatedHead) -> bool:
    """Whether its number and its time are those of a later head: a signer has one head of each number."""
    return head.number > before.number and read_time(head.signed_at) >= read_time(before.signed_at)
