"""Whom a command trusts that verifies records: the options for keys and heads, and what they come to."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from sluice.cli.output import stop
from sluice.verifier.head_check import HeadSources, HeadsUnreadable, find_witnesses
from sluice.verifier.proof_check import UnusableKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluice.verifier.head_check import HeadSigners

VerdictKeys = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY", help="Public key, base64, that may have signed; beside the settings'."),
]
HeadKeys = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY",
        help="Public key, base64, whose tree heads count (KEY@TIME: until then); beside the settings'.",
    ),
]
HeadFiles = Annotated[
    list[Path] | None, typer.Option(metavar="FILE", help="Tree heads that were kept elsewhere.")
]
WitnessKeys = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY", help="Public key, base64, of a witness that co-signs tree heads."),
]
WitnessCount = Annotated[
    int | None,
    typer.Option(min=1, metavar="K", help="So many of them must have co-signed a head; else all."),
]
Cosigned = Annotated[list[Path] | None, typer.Option(metavar="FILE", help="Heads that a witness co-signed.")]


class HeadOptions(NamedTuple):
    """What an auditor has of heads beside the ledger, as it was typed."""

    files: list[Path] | None
    witness_keys: list[str] | None
    witnesses: int | None
    cosigned: list[Path] | None

    def build_sources(self, signers: HeadSigners | None) -> HeadSources:
        """The heads that a ledger is held against. Raises UnusableKey."""
        witnesses = find_witnesses(self.witness_keys or (), self.witnesses)
        return HeadSources(signers, self.files or (), witnesses, self.cosigned or ())


@contextmanager
def require_trust() -> Iterator[None]:
    """Within the block, a key or a file of heads that cannot be used ends the command."""
    try:
        yield
    except UnusableKey as error:
        stop(str(error))
    except HeadsUnreadable as error:
        stop(f"--heads: {error}")
