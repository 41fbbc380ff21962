"""`sluice freeze` and `sluice thaw`: stop an agent, a session, a tenant or everything, at once, and let it go
on again by stages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.bootstrap.publishing import FreezeOrder, is_session, make_entries, publish_freeze
from sluice.cli.output import (
    CANNOT_PUBLISH,
    WRONG,
    clean,
    console,
    errors,
    print_json,
    require_broker,
    require_settings,
    stop,
)
from sluice.cli.policy.control_topics import AsJson, require_policy, require_roots
from sluice.cli.policy.key_files import require_private_keys, write_or_stop
from sluice.core.registry.freezes import ALL, ASK, Stage
from sluice.core.trust.dsse import Envelope, read_envelope
from sluice.core.trust.freezing import (
    SUBJECTS,
    FreezeSubject,
    describe_unknown,
    list_frozen_subjects,
    read_subject,
)
from sluice.core.trust.signed_entries import Statement, read_statement
from sluice.core.trust.signing import sign_entries
from sluice_topics.catalog import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice.core.registry.keys import SigningKey
    from sluice.core.trust.reduction import ReducedPolicy

Kind = Annotated[str, typer.Argument(metavar="SUBJECT", help=f"One of {', '.join(SUBJECTS)}.")]
Name = Annotated[str | None, typer.Argument(metavar="ID", help="Its id; nothing for `all`.")]
Reason = Annotated[str, typer.Option(help="Why; every denial names it.")]
Keys = Annotated[
    list[Path],
    typer.Option(
        "--key",
        metavar="PEM",
        help="Private key of an approver who may sign a freeze; twice where two people must.",
    ),
]
AtStage = Annotated[Stage, typer.Option(help="stop: deny it all. ask: a person agrees to each action.")]
Out = Annotated[
    Path | None,
    typer.Option(dir_okay=False, help="Write what is signed to this file, for `registry cosign`."),
]
SECOND = "second_approver_missing"
_COSIGN = (
    "Give --key twice, or --out FILE and then `sluice registry cosign FILE --key SECOND.pem` and "
    "`sluice registry publish FILE`"
)
Unknown = Annotated[bool, typer.Option("--yes", help="Freeze it even if nobody knows it.")]


def freeze(  # noqa: PLR0913 - the command's options
    kind: Kind,
    name: Name = None,
    *,
    reason: Reason,
    key: Keys,
    stage: AtStage = "stop",
    out: Out = None,
    yes: Unknown = False,
    as_json: AsJson = False,
) -> None:
    """Freeze an agent, a session, a tenant, or everything: sign and publish it in one step.

    Every worker denies what the subject proposes within a second, until a
    thaw. `all` freezes the whole installation. A subject that nobody knows
    is refused, because a misspelt id would freeze nothing: an agent or a
    tenant without an entry, a session that has no state.

    --stage ask is the first step of a recovery: a person agrees to each
    action, and memory writes wait for a reviewer. Where a tenant or all is
    stopped, two approvers must sign it.

    Exit codes: 0 it is in force, 1 it is refused, 2 could not do it.

    Example: sluice freeze agent my-agent --reason "sent money twice"
    --key ~/.sluice/keys/owner.pem
    """
    order = FreezeOrder(_require_subject(kind, name), reason, active=True, unknown_too=yes, stage=stage)
    _publish(order, key, out, as_json=as_json)


def thaw(
    kind: Kind, name: Name = None, *, reason: Reason, key: Keys, out: Out = None, as_json: AsJson = False
) -> None:
    """End every freeze of an agent, a session, a tenant, or of everything.

    The next revision of each entry that freezes exactly this subject is
    signed and published. An agent whose tenant is frozen stays frozen.

    Two approvers must sign the thaw of a tenant, and of all: give --key
    twice, or --out, then `sluice registry cosign` and `publish`.

    Exit codes: 0 it is thawed, 1 it is not frozen or it is refused, 2 could
    not do it.

    Example: sluice thaw agent my-agent --reason "it was nothing"
    --key owner.pem
    """
    order = FreezeOrder(_require_subject(kind, name), reason, active=False)
    _publish(order, key, out, as_json=as_json)


def register_freeze(cli: typer.Typer) -> None:
    """Add the verb."""
    cli.command("freeze")(freeze)


def register_thaw(cli: typer.Typer) -> None:
    """Add the verb."""
    cli.command("thaw")(thaw)


def stop_for_unknown_subjects(values: Sequence[bytes]) -> None:
    """End the command if signed entries freeze what nobody knows, and what they do not bring either."""
    read = [read_envelope(value) for value in values]
    statements = [read_statement(REGISTRY, envelope) for envelope in read if isinstance(envelope, Envelope)]
    entries = [statement.document for statement in statements if isinstance(statement, Statement)]
    brought = {("tenant" if entry["kind"] == "org" else entry["kind"], entry["id"]) for entry in entries}
    asked = [
        subject for subject in list_frozen_subjects(entries) if (subject.kind, subject.id) not in brought
    ]
    if not asked:
        return
    settings, registry = require_settings(), require_policy(REGISTRY).registry
    sessions = {
        subject.id
        for subject in asked
        if subject.kind == "session" and require_broker(is_session(settings, subject.id), CANNOT_PUBLISH)
    }
    unknown = [
        message for subject in asked if (message := describe_unknown(registry, subject, sessions)) is not None
    ]
    if unknown:
        stop("\n".join([*unknown, "nothing was written; --yes publishes it all the same"]), WRONG)


def _require_subject(kind: str, name: str | None) -> FreezeSubject:
    subject = read_subject(kind if name is None else f"{kind}/{name}")
    if subject is None or (kind == ALL and name is not None):
        stop(f"say what: {', '.join(word if word == ALL else f'{word} ID' for word in SUBJECTS)}")
    return subject


def _publish(order: FreezeOrder, keys: Sequence[Path], out: Path | None, *, as_json: bool) -> None:
    signers = require_private_keys(keys)
    settings = require_settings()
    require_roots(settings)
    if out is not None:
        _write(order, require_policy(REGISTRY), signers, out)
        return
    written, refused = require_broker(publish_freeze(settings, order, signers), CANNOT_PUBLISH)
    if not written and not refused:
        refused.append(f"{order.subject} is not frozen")
    _print(order, written, refused, as_json=as_json)
    if refused:
        raise typer.Exit(WRONG)


def _write(order: FreezeOrder, reduced: ReducedPolicy, signers: Sequence[SigningKey], out: Path) -> None:
    """Write what the signers signed to a file, for another one's signature."""
    values = sign_entries(make_entries(order, reduced), signers, separately=True)
    if not values:
        stop(f"{order.subject} is not frozen", WRONG)
    write_or_stop(out, values)
    done = f"[green]signed[/] {clean(str(order.subject))}: {clean(out)}. {_COSIGN}"
    console.print(done, soft_wrap=True, highlight=False)


def _print(order: FreezeOrder, written: list[str], refused: list[str], *, as_json: bool) -> None:
    if as_json:
        print_json({"written": written, "refused": refused})
    for refusal in refused:
        hint = _find_hint(order, refusal)
        errors.print(f"[red]refused[/] {clean(refusal)}{hint}", soft_wrap=True, highlight=False)
    done = "thawed" if not order.active else "asks first" if order.stage == ASK else "frozen"
    for entry in () if as_json or refused else written:
        message = f"[green]{done}[/] {clean(str(order.subject))}: {clean(entry)} is in force"
        console.print(message, soft_wrap=True, highlight=False)


def _find_hint(order: FreezeOrder, refusal: str) -> str:
    if SECOND in refusal:
        return f". {_COSIGN}"
    return "" if order.unknown_too or not order.active else " (--yes: nobody need know it)"
