"""`sluice escalations grant` and `revoke`: what an agent may do without asking again, and its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

import orjson
import typer

from sluice.cli.ledger.pending_subjects import connect, find_grant, require_escalation, run_question
from sluice.cli.ledger.reviews import Approver, Key, Sending, Wait, Why, Yes, require_signed, send_review
from sluice.cli.output import WRONG, clean, errors, parse_span, print_line, read_clock_ms, stop
from sluice.cli.policy.control_topics import publish_values, require_policy
from sluice.cli.policy.key_files import require_private_keys
from sluice.core.actions.standing_grants import OF_REGISTRY, condition_of
from sluice.core.foundation.clock import rfc3339
from sluice.core.foundation.errors import BundleError, RegistryError
from sluice.core.registry.agent_grants import LONGEST_GRANT_MS, MOST_USES
from sluice.core.trust.signing import check_entries, sign_entries
from sluice_topics.catalog import REGISTRY

if TYPE_CHECKING:
    from sluice.adapters.kafka.kafka_quarantine import KafkaQuarantine
    from sluice.cli.ledger.pending_subjects import WholeEscalation
    from sluice.core.registry.keys import SigningKey
    from sluice.core.registry.registry_entries import EntryFile

KIND = "agent_grant"
Subject = Annotated[
    str,
    typer.Argument(metavar="ESCALATION", help="As `list` shows it, or partition:offset of its action: 3:17."),
]
GrantWhen = Annotated[
    str | None,
    typer.Option(metavar="CEL", help="The grant holds for actions of which this is true (docs/rules.md)."),
]


def _require_entry(escalation: WholeEscalation, bounds: dict[str, Any], span_ms: int) -> EntryFile:
    """The registry entry of a grant to the agent of an escalated action; `bounds`: uses, when, approver_id
    and justification."""
    if escalation.action is None:
        stop(f"its tool cannot be read: {escalation.no_action}")
    if not 0 < span_ms <= LONGEST_GRANT_MS:
        stop("a grant is for at most 30 days", WRONG)
    try:
        condition_of(bounds["when"] or "true")
    except BundleError as error:
        stop(f"--when: {error}", WRONG)
    spec = {
        "tenant_id": escalation.subject.tenant,
        "agent_id": escalation.subject.agent,
        "tool": orjson.loads(escalation.action)["toolName"],
        "expires_at": rfc3339(read_clock_ms() + span_ms),
        **bounds,
    }
    return _check_entry({"kind": KIND, "id": f"grant-{uuid4()}", "revision": 1, "spec": spec})


def _publish_entry(entry: EntryFile, key: SigningKey, *, yes: bool) -> None:
    """Show an entry, ask, sign it, publish it, and tell whether it is in force."""
    print_line(f"to be signed: {clean(entry.kind)} {clean(entry.id)}@{entry.revision}", errors)
    for name, value in entry.spec.items():
        if value is not None:
            print_line(f"  {name}: {clean(value)}", errors)
    if not yes:
        typer.confirm("Sign and publish this?", abort=True, err=True)
    publish_values(sign_entries([entry], [key], separately=True), REGISTRY, as_json=False)


def _revoke_entry(grant_id: str, key: SigningKey, justification: str, *, yes: bool) -> None:
    """Publish the next revision of an agent's grant, which ends it."""
    name = grant_id.removeprefix(OF_REGISTRY).rpartition("@")[0]
    revisions = [
        accepted_entry
        for accepted_entry in require_policy(REGISTRY).entries.values()
        if accepted_entry.key.startswith(f"{KIND}/{name}@")
    ]
    if not revisions:
        stop(f"no grant was given under {grant_id}", WRONG)
    newest = max(revisions, key=lambda accepted_entry: accepted_entry.statement.revision)
    spec = {**newest.document["spec"], "active": False, "justification": justification}
    entry = {"kind": KIND, "id": name, "revision": newest.statement.revision + 1, "spec": spec}
    _publish_entry(_check_entry(entry), key, yes=yes)


def _revoke_of_session(
    kafka: KafkaQuarantine,
    grant_id: str,
    review_fields: dict[str, Any],
    key: SigningKey,
    wait: float,
    *,
    yes: bool,
) -> None:
    """Sign and publish the review that ends a grant for one session. `review_fields`: approver_id,
    justification."""
    grant = run_question(find_grant(kafka, grant_id))
    if grant is None:
        stop(f"no grant was given under {grant_id}", WRONG)
    fields = {
        "subject_id": grant["grant_id"],
        "session_id": grant["session_id"],
        "digest": grant["grant_digest"],
        "decision": "deny",
        **review_fields,
    }
    signed = require_signed(fields, key)
    print_line(
        f"grant {clean(grant['grant_id'])}: {clean(grant['tool'])} for {clean(grant['agent_id'])}", errors
    )
    send_review(signed, Sending(kafka, "escalations", "grant_id", wait, yes=yes), "revoke it")


def revoke(
    grant: Annotated[str, typer.Argument(metavar="GRANT", help="The grant's id, as the ledger has it.")],
    *,
    approver: Approver,
    key: Key,
    justification: Why,
    yes: Yes = False,
    wait: Wait = 30,
) -> None:
    """Revoke a standing grant: from the next action on, a person is asked.

    A grant for all sessions ends in every worker within a second.

    Exit codes: 0 revoked; 1 it was refused, or the grant is unknown; 2
    could not do it, or no answer came in time.
    """
    (signer,) = require_private_keys([key])
    if grant.startswith(OF_REGISTRY):
        _revoke_entry(grant, signer, justification, yes=yes)
        return
    fields = {"approver_id": approver, "justification": justification}
    _revoke_of_session(connect(), grant, fields, signer, wait, yes=yes)


def grant_command(  # noqa: PLR0913 - the command's options
    escalation: Subject,
    *,
    approver: Approver,
    key: Key,
    justification: Why,
    uses: Annotated[int, typer.Option(min=1, max=MOST_USES, help="How often, over all sessions.")],
    span: Annotated[str, typer.Option("--for", metavar="SPAN", help="How long: 30m, 8h, 2d.")] = "1h",
    when: GrantWhen = None,
    yes: Yes = False,
) -> None:
    """Let the agent of an escalated action use its tool in all its sessions.

    The command publishes a registry entry, signed by you; it does not
    answer the escalation itself. Every gate still judges each action, and
    each use is in the ledger. The uses are shared out evenly over the
    partitions: one that has used its share asks a person again. There is no
    grant for T4. `revoke` ends it.

    Exit codes: 0 it is in force, 1 it is refused or not valid, 2 could
    not do it.

    Example: sluice escalations grant 3:17 --as ann --key ann.pem --uses 80
    --for 8h --justification "the refunds of the recall"
    """
    (signer,) = require_private_keys([key])
    escalated = require_escalation(connect(), escalation)
    bounds = {"uses": uses, "when": when, "approver_id": approver, "justification": justification}
    _publish_entry(_require_entry(escalated, bounds, require_span(span)), signer, yes=yes)


def require_span(span: str) -> int:
    """The ms of a span as it was typed; another text ends the command."""
    span_ms = parse_span(span)
    if span_ms is None:
        stop(f"no span: {span}. Give a number and a unit: 30s, 10m, 1h, 2d")
    return span_ms


def _check_entry(entry: dict[str, Any]) -> EntryFile:
    try:
        (checked,) = check_entries(orjson.dumps({"entries": [entry]}))
    except RegistryError as error:
        stop(str(error), WRONG)
    return checked
