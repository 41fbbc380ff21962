"""`sluice escalations`: actions and retrievals that wait for a person. List, show, approve or deny them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer
from aiokafka.errors import KafkaError

from sluice.bootstrap.followed_sealing import follow_sealing, look_for_unsealed
from sluice.cli.ledger.grant_verbs import GrantWhen, Subject, grant_command, require_span, revoke
from sluice.cli.ledger.pending_lines import SHOWN, describe_state, print_escalation, print_escalations
from sluice.cli.ledger.pending_subjects import connect, require_escalation, require_waiting, write_model
from sluice.cli.ledger.reviews import (
    Approver,
    Key,
    Sending,
    Wait,
    Why,
    Yes,
    print_to_sign,
    require_signed,
    send_review,
)
from sluice.cli.output import WRONG, console, errors, print_json, read_clock_ms, require_settings, stop
from sluice.cli.policy.key_files import require_private_keys
from sluice.client.answers import ClientError
from sluice.client.sealing import seal_narrowed
from sluice.core.foundation.clock import read_milliseconds, rfc3339
from sluice.core.foundation.errors import CoreError
from sluice.core.foundation.strict import json_object
from sluice.core.trust.in_force import PolicyError
from sluice_topics.catalog import ESCALATIONS
from sluice_topics.json_text import write_json_path
from sluice_topics.record_reading import replace_parameters
from sluice_topics.sealing import find_foreign

if TYPE_CHECKING:
    from sluice.cli.ledger.pending_subjects import WholeEscalation
    from sluice.core.reports.pending_subject import PendingSubject

BEGINNING = 1200
"""Characters of an action before signing."""
NO_MASTER_KEY = (
    "it is marked as personal, and sealing.master_key_file names no file with which it is sealed: answer on "
    "the review pages"
)
FOREIGN = "a sealed value that the action does not have: write it plain, and it is sealed"
AS_COUNTED = object()
"""In place of parameters: those of the approvals so far."""
AsJson = Annotated[bool, typer.Option("--json", help="One JSON value on standard output.")]


cli = typer.Typer(
    name="escalations",
    no_args_is_help=True,
    help="Actions and retrievals that wait for a person: list and show them, approve or deny one. Without an "
    "answer an escalation expires, which counts as denied.",
)


@cli.command("list")
def list_command(
    *,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None,
    agent: Annotated[str | None, typer.Option(help="Only this agent's.")] = None,
    session: Annotated[str | None, typer.Option(help="Only this session's.")] = None,
    role: Annotated[str | None, typer.Option(help="Only what needs this role: approver or vp.")] = None,
    group: Annotated[str | None, typer.Option(help="Only what has gone to this group.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what waits for an answer now, the oldest first.

    The command reads only gate.escalations and shows what has not ended.
    "over since" marks an escalation whose time is over but whose end is not
    written yet; an answer to it no longer counts.

    Exit codes: 0 shown, also when nothing waits; 2 could not read.
    """
    criteria = {"tenant_id": tenant, "agent_id": agent, "session_id": session, "required_role": role}
    waiting = [
        subject
        for subject in require_waiting(ESCALATIONS, criteria)
        if group is None or group in subject.groups
    ]
    now = read_clock_ms()
    if as_json:
        print_json([_build_row(subject, now) for subject in waiting])
    else:
        print_escalations(waiting, now)


@cli.command()
def show(escalation: Subject, as_json: AsJson = False) -> None:
    """Show one escalation whole: reasons, gates, answers, the action itself.

    The command fetches the action from the input topic and checks it
    against the digest in the ledger. It shows invisible characters as code
    points, like <U+202E>.

    Exit codes: 0 shown, 1 the id is unknown, 2 could not read.
    """
    whole = require_escalation(connect(), escalation)
    if as_json:
        print_json(
            {
                "escalation_id": whole.subject.subject_id,
                "state": describe_state(whole.subject),
                "events": [write_model(ESCALATIONS, event) for event in whole.subject.records],
                "approved": whole.approved,
                "verdict": whole.verdict,
                "resolved": whole.resolved,
                "action": None if whole.action is None else orjson.loads(whole.action),
                "no_action": whole.no_action or None,
            }
        )
    else:
        print_escalation(whole, console, SHOWN)


Narrowed = Annotated[
    Path | None,
    typer.Option(metavar="JSON", help="Parameters to do it with instead: every gate judges them again."),
]


AsCounted = Annotated[
    bool, typer.Option("--as-counted", help="Approve the parameters that the approvals so far are for.")
]


GrantUses = Annotated[
    int | None,
    typer.Option(min=1, max=1000, metavar="N", help="Grant N more uses of the tool in this session."),
]
GrantFor = Annotated[str, typer.Option(metavar="SPAN", help="How long the grant stands: 30s, 10m, 1h, 2d.")]


RememberDays = Annotated[
    int | None,
    typer.Option(
        min=1, max=30, metavar="N", help="Where it goes is known for N days: this agent, this tool."
    ),
]


@cli.command()
def approve(  # noqa: PLR0913 - the command's options
    escalation: Subject,
    *,
    approver: Approver,
    key: Key,
    justification: Why,
    parameters: Narrowed = None,
    as_counted: AsCounted = False,
    grant_uses: GrantUses = None,
    grant_for: GrantFor = "1h",
    grant_when: GrantWhen = None,
    remember_days: RememberDays = None,
    yes: Yes = False,
    wait: Wait = 30,
    as_json: AsJson = False,
) -> None:
    """Approve an escalated action, signed by a registered approver.

    The command shows what you will sign, asks you, signs, publishes to
    gate.reviews and waits for the ledger's answer. The signature is bound
    to the action's digest and counts once. Every gate judges the approved
    action again: what one of them blocks now stays blocked. An approved
    retrieval is served when the agent sends exactly it once more.

    Several approvals count together only for the same parameters: one for
    others starts the count again.

    With --grant-uses the agent may use the tool so many times more in this
    session without asking again; `revoke` ends that. With --remember-days
    the destinations of this action are known to the gate `destinations`
    for so long, once the action was carried out. Neither for T4.

    Exit codes: 0 it counted; 1 it was refused (not open, expired, no
    approver, wrong role, own action) or you did not sign; 2 could not do
    it, or no answer came in time: `show` has the result later.

    Example: sluice escalations approve 3:17 --as ann --key ann.pem
    --justification "the customer confirmed"
    """
    more: dict[str, Any] = {"parameters": None if parameters is None else _require_parameters(parameters)}
    if grant_uses is not None:
        until = rfc3339(read_clock_ms() + require_span(grant_for))
        more["grant"] = {"uses": grant_uses, "until": until}
        more["grant"] |= {} if grant_when is None else {"when": grant_when}
    if as_counted:
        if parameters is not None:
            stop("--as-counted and --parameters exclude each other")
        more["parameters"] = AS_COUNTED
    fields = {"decision": "approve", "approver_id": approver, "justification": justification, **more}
    fields["remember_days"] = remember_days
    _answer(escalation, fields, key, yes=yes, wait=wait, as_json=as_json)


@cli.command()
def deny(  # noqa: PLR0913 - the command's options
    escalation: Subject,
    *,
    approver: Approver,
    key: Key,
    justification: Why,
    yes: Yes = False,
    wait: Wait = 30,
    as_json: AsJson = False,
) -> None:
    """Deny an escalated action; one denial ends the escalation.

    As `approve`; the exit codes are the same.
    """
    fields = {"decision": "deny", "approver_id": approver, "justification": justification}
    _answer(escalation, fields, key, yes=yes, wait=wait, as_json=as_json)


cli.command()(revoke)
cli.command("grant")(grant_command)


def _require_parameters(file: Path) -> dict[str, Any]:
    try:
        return dict(json_object(file.read_bytes()))
    except (OSError, ValueError) as error:
        stop(f"{file}: {error}")


def _answer(
    escalation: str, review_fields: dict[str, Any], key: Path, *, yes: bool, wait: float, as_json: bool
) -> None:
    (signer,) = require_private_keys([key])
    kafka = connect()
    whole = require_escalation(kafka, escalation)
    subject = whole.subject
    if subject.status != "waiting":
        stop(f"{subject.subject_id} does not wait: {describe_state(subject)}", WRONG)
    if whole.action is None and review_fields["decision"] == "approve":
        stop(f"nobody can approve what nobody can read: {whole.no_action}")
    if review_fields.get("parameters") is AS_COUNTED:
        if subject.is_narrowed and whole.approved is None:
            stop("the answer that has the parameters approved so far is no longer there")
        review_fields = {**review_fields, "parameters": whole.approved}
    elif "parameters" in review_fields:
        review_fields = {**review_fields, "parameters": _seal(whole, review_fields["parameters"])}
    signed = require_signed(subject.write_answer(**review_fields), signer)
    print_escalation(whole, errors, BEGINNING)
    print_to_sign(signed)
    how = Sending(kafka, "escalations", "escalation_id", wait, yes=yes, as_json=as_json)
    send_review(signed, how, review_fields["decision"])


def _seal(whole: WholeEscalation, parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters in the place of the action's, sealed where the bundle marks them as personal."""
    action, settings = orjson.loads(whole.action or b"null"), require_settings()
    if not isinstance(action, dict):  # of a retrieval, which takes no parameters
        return parameters
    for steps, _ in find_foreign(parameters, action, whole.approved):
        stop(f"{write_json_path(steps)}: {FOREIGN}")
    try:
        make = follow_sealing(settings)
    except PolicyError as error:
        stop(str(error))

    async def seal() -> dict[str, Any]:
        if make is None:
            narrowed, agent_id = replace_parameters(action, parameters), str(whole.subject.opened["agent_id"])
            steps = await look_for_unsealed(settings, "action", agent_id, narrowed)
            if steps is not None:
                stop(f"{write_json_path(steps)}: {NO_MASTER_KEY}")
            return parameters
        sealing = make()
        try:
            await sealing.start()
            return await seal_narrowed(sealing, whole.subject.opened, action, parameters)
        finally:
            await sealing.close()

    try:
        return asyncio.run(seal())
    except (ClientError, CoreError, KafkaError) as error:
        stop(f"the parameters cannot be sealed: {error}")


def _build_row(subject: PendingSubject, now: int) -> dict[str, Any]:
    return {
        **write_model(ESCALATIONS, subject.opened),
        **subject.turn,
        "approvals": subject.fields.get("approvals", 0),
        "is_narrowed": subject.is_narrowed,
        "expires_in_ms": read_milliseconds(subject.opened["expires_at"]) - now,
    }
