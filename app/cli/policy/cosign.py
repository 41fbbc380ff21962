"""`sluice bundle cosign`, `sluice registry cosign`: another approver's signature on signed files."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.output import WRONG, console, shown, stop
from app.cli.policy.control_topics import Signed, envelopes_or_stop, write_or_stop
from app.cli.policy.key_files import Keys, private_keys_or_stop
from app.core.foundation.errors import EnvelopeError
from app.core.trust.refused import Reason
from app.core.trust.signed_entries import CARRIED, statement
from app.core.trust.signing import cosigned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.core.registry.keys import SigningKey
    from app.core.trust.dsse import Envelope
    from app.core.trust.signed_entries import Statement


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
    keys = private_keys_or_stop(key)
    signed = [_cosigned(value, keys) for value in envelopes_or_stop(file)]
    write_or_stop(out or file, [envelope.written() for envelope, _ in signed])
    for envelope, said in signed:
        console.print(f"[green]signed[/] {_describe(envelope, said)}", soft_wrap=True, highlight=False)


def _cosigned(value: bytes, keys: Sequence[SigningKey]) -> tuple[Envelope, Statement]:
    try:
        envelope = cosigned(value, keys)
    except EnvelopeError as error:
        stop(str(error), WRONG)
    topics = [topic for topic, types in CARRIED.items() if envelope.payload_type in types]
    said = statement(topics[0], envelope) if topics else stop("not an envelope of a control topic", WRONG)
    if isinstance(said, Reason):
        stop(f"{said.path}: {said.message}", WRONG)
    return envelope, said


def _describe(envelope: Envelope, said: Statement) -> str:
    count = len(envelope.signatures)
    rationale = said.document.get("rationale")
    why = f"\n  rationale: {shown(rationale)}" if rationale else ""
    return f"{shown(said.key)} {said.hash}: {count} signatures{why}"
