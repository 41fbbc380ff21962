"""`sluice ledger sign-heads`: the process that signs tree heads over the ledger; and proofs from heads."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluice.adapters.head_copies import HeadFile, HeadTimestamps, HeadWebhook
from sluice.adapters.kafka.kafka_head_copies import HeadCluster
from sluice.adapters.kafka.kafka_head_proofs import NotProvable, prove_growth, prove_record
from sluice.adapters.kafka.kafka_read import KafkaRefused, KafkaUnreachable, UnknownTopics
from sluice.adapters.kafka.kafka_tree_heads import HeadLimits, HeadSigner
from sluice.bootstrap.ledger_reading import build_head_series
from sluice.cli.output import (
    CANNOT_READ,
    EXIT_FAULT,
    IMPOSSIBLE,
    WELL,
    WRONG,
    clean,
    errors,
    listen,
    log_to_stderr,
    print_json,
    print_line,
    require_broker,
    require_settings,
    stop,
    write_file,
)
from sluice.core.registry.keys import SigningKey, UnusableKeyError
from sluice.core.trust.tree_heads import HeadRefused, HeadSeries, LedgerBroken
from sluice.settings.reader import SettingsError, load_settings
from sluice.text.plurals import count_noun
from sluice.verifier.head_check import HeadSigners
from sluice.verifier.head_proof_check import check_proof
from sluice.verifier.head_stamp_check import check_stamps
from sluice.verifier.proof_check import UnusableKey

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Iterator

    from sluice.adapters.kafka.kafka_tree_heads import HeadCopies, HeadObserver
    from sluice.client.kafka_connection import KafkaCluster
    from sluice.settings.reader import Settings
    from sluice_topics.records.tree_heads import TreeHead


def sign_heads_command(
    *,
    once: Annotated[
        bool, typer.Option("--once", help="Sign what is there now, if it is new, and end.")
    ] = False,
) -> None:
    """Follow the ledger and sign tree heads over it, until stopped.

    A head states how many records each partition's chain has, the root of
    the Merkle tree (RFC 6962) over them, the head before, and the policy
    in force; it is signed with heads.signing_key alone and published on
    gate.tree_heads. Run one for each installation, with a key and on a
    machine that no worker has: who can write to the ledger can then not
    write it again.

    It starts by reading the whole ledger. It refuses to sign over a chain
    that is broken, or where the last head is not the beginning of what it
    reads, and says which. Kill it at any moment.

    Exit codes: 0 stopped, or --once and done; 1 it refuses to sign; 2 a
    setting is wrong; 3 the broker went away: start it again.

    Example: sluice ledger sign-heads
    """
    from sluice.bootstrap.observing import observe_signer  # noqa: PLC0415 - only to run

    settings = require_settings()
    log_to_stderr(settings)
    observed = observe_signer(settings)
    signing = _require_signing_key(settings)
    try:
        signer = _build_signer(settings, signing, None if observed is None else observed.metrics)
        if observed is not None:
            listen(observed.listener, "heads")
        last = asyncio.run(_run(signer, once=once))
    except (LedgerBroken, HeadRefused) as error:
        stop(f"nothing is signed: {clean(error)}", WRONG)
    except (UnknownTopics, KafkaRefused) as error:
        stop(f"{error}. `sluice topics create` makes what is missing", IMPOSSIBLE)
    except OSError as error:
        stop(f"heads.copy_file or heads.timestamp_file: {error}", IMPOSSIBLE)
    except KafkaUnreachable as error:
        stop(str(error), EXIT_FAULT)
    errors.print(_describe(signer.signed, last), soft_wrap=True, highlight=False)
    raise typer.Exit(WELL)


def _build_signer(settings: Settings, signing: SigningKey, observer: HeadObserver | None) -> HeadSigner:
    """Raises OSError and HeadRefused."""
    series, heads = require_head_series(settings, (), [signing]), settings.heads
    limits, copies = HeadLimits(heads.interval_s, heads.max_events), list(_build_copies(settings, series))
    return HeadSigner(settings.kafka.connection, series, [signing], limits, copies, observer)


def require_second_cluster(settings: Settings) -> tuple[KafkaCluster, str] | None:
    """The second cluster that gets heads, and the prefix of its topic; None: there is none. What is wrong
    with its settings ends the command."""
    file = settings.heads.second_settings
    if file is None:
        return None
    try:
        kafka = load_settings(file.expanduser(), environment={}).kafka
    except SettingsError as error:
        stop(f"heads.second_settings: {error}")
    return kafka.connection, kafka.topic_prefix


def _build_copies(settings: Settings, series: HeadSeries) -> Iterator[HeadCopies]:
    """Raises OSError and HeadRefused."""
    heads, second = settings.heads, require_second_cluster(settings)
    if second is not None:
        yield HeadCluster(*second, (series.keys, series.audience), heads.second_timeout_s)
    if heads.copy_file is not None:
        yield HeadFile(heads.copy_file.expanduser())
    if heads.webhook_url is not None and heads.webhook_secret is not None:
        secret = heads.webhook_secret.get_secret_value().encode()
        yield HeadWebhook(heads.webhook_url, secret, heads.webhook_timeout_s)
    if heads.timestamp_url is not None and heads.timestamp_file is not None:
        stamped = heads.timestamp_file.expanduser()
        try:
            yield HeadTimestamps(heads.timestamp_url, stamped, heads.timestamp_timeout_s)
        except ImportError:
            stop("heads.timestamp_url needs the package rfc3161-client: pip install 'sluice[timestamps]'")


async def _run(signer: HeadSigner, *, once: bool) -> TreeHead | None:
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, signer.stop)
    return await signer.run(once=once)


def _describe(signed: int, last: TreeHead | None) -> str:
    if last is None:
        return "no head: the ledger holds no record"
    records = count_noun(last.size, "record")
    return f"{count_noun(signed, 'head')} signed; head {last.number} signs {records}, root {last.root}"


Keys = Annotated[
    list[str] | None,
    typer.Option(
        "--head-key", metavar="KEY", help="Public key, base64, whose heads count; beside the settings'."
    ),
]
Out = Annotated[
    Path | None, typer.Option(dir_okay=False, help="Write the proof to this file, not to standard output.")
]


def prove_command(
    decision: Annotated[
        str, typer.Argument(metavar="DECISION", help="The id of a verdict or of another ledger record.")
    ],
    *,
    head: Annotated[
        int | None, typer.Option(min=1, metavar="NUMBER", help="By this head; else by the last one.")
    ] = None,
    head_key: Keys = None,
    out: Out = None,
) -> None:
    """Prove that a decision is in the ledger that a tree head signs.

    It writes one JSON object with the record, the signed head and the
    hashes that lead from one to the other: whoever has the head's public
    key can check it without the ledger (sluice ledger check-proof).

    Exit codes: 0 proven, 1 there is no such record or no head that states
    it, 2 could not read.

    Example: sluice ledger prove verdict:gate.actions.proposed:3:42 --out proof.json
    """
    settings = require_settings()
    series = require_head_series(settings, head_key or ())
    _write_proof(prove_record(settings.kafka.connection, series, decision, head), out)


def consistency_command(
    first: Annotated[int, typer.Argument(min=1, metavar="HEAD1", help="The number of a head.")],
    second: Annotated[int, typer.Argument(min=1, metavar="HEAD2", help="The number of a later one.")],
    *,
    head_key: Keys = None,
    out: Out = None,
) -> None:
    """Prove that the ledger of one tree head begins that of a later one.

    It writes one JSON object: both heads, and for each partition the
    hashes that show it.

    Exit codes: 0 proven, 1 it does not, or there is no such head, 2 could
    not read.

    Example: sluice ledger consistency 12 480 --out growth.json
    """
    settings = require_settings()
    series = require_head_series(settings, head_key or ())
    _write_proof(prove_growth(settings.kafka.connection, series, first, second), out)


def check_proof_command(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="What prove or consistency wrote; with --authority, stamped heads."
        ),
    ],
    *,
    head_key: Keys = None,
    authority: Annotated[
        list[Path] | None,
        typer.Option(metavar="PEM", help="The root certificate of a time-stamping authority."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object instead of lines.")] = False,
) -> None:
    """Check a proof, without a broker and with code that did not make it.

    With --authority, FILE is what heads.timestamp_file names: heads, each
    with a time stamp (RFC 3161) by an authority whose root certificate is
    one of these. It says since when each is known to have been there.

    Exit codes: 0 it holds, 1 it does not, 2 the file cannot be read.

    Example: sluice ledger check-proof proof.json --head-key KEY
    """
    signers = list_head_signers(require_settings(), head_key or ())
    try:
        if authority:
            result = check_stamps(file.read_bytes(), signers, [path.read_bytes() for path in authority])
        else:
            result = check_proof(file.read_bytes(), signers)
    except ImportError:
        stop("--authority needs the package rfc3161-client: pip install 'sluice[timestamps]'")
    except UnusableKey as error:
        stop(str(error))
    except OSError as error:
        stop(f"cannot read {error.filename or file}: {error.strerror}")
    if json:
        print_json(asdict(result))
    else:
        word = "[green]It holds.[/]" if result.holds else "[bold red]It does not hold.[/]"
        print_line(" ".join([word, *map(clean, result.lines)]))
    raise typer.Exit(WELL if result.holds else WRONG)


def list_head_signers(settings: Settings, more: Iterable[str]) -> HeadSigners | None:
    """The keys whose heads count, as the verifier takes them; None: there are none."""
    retired = [f"{key}@{at.isoformat()}" for key, at in settings.heads.retired_keys.items()]
    keys = (*settings.heads.public_keys, *more)
    return HeadSigners((*keys, *retired), settings.policy.installation) if keys else None


def _write_proof(making: Coroutine[None, None, dict[str, Any]], out: Path | None) -> None:
    try:
        proof = require_broker(making, CANNOT_READ)
    except (NotProvable, HeadRefused, LedgerBroken) as error:
        stop(clean(error), WRONG)
    if out is None:
        print_json(proof)
        return
    write_file(out, f"{dumps(proof, indent=1)}\n".encode())


def require_head_series(
    settings: Settings, more: Iterable[str], signing: Iterable[SigningKey] = ()
) -> HeadSeries:
    """As `build_head_series`; what is no key ends the command."""
    try:
        return build_head_series(settings, more, signing)
    except UnusableKeyError as error:
        stop(f"a head key: {error}")


def _require_signing_key(settings: Settings) -> SigningKey:
    try:
        pem = settings.heads.read_pem()
        return stop(_NO_KEY) if pem is None else SigningKey.from_pem(pem)
    except (OSError, UnusableKeyError) as error:
        stop(f"heads.signing_key: {error}")


_NO_KEY = (
    "heads.signing_key is not set: `sluice keys new heads` makes a key, for this process alone. Not the "
    "workers' key: who has that could write the ledger again"
)
