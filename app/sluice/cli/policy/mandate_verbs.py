"""`sluice mandate`: say what an agent is asked to do in a session, see what counts there, and end it."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from sluice.cli.output import (
    WRONG,
    clean,
    console,
    parse_span,
    print_json,
    print_line,
    read_clock_ms,
    require_audience,
    require_broker,
    require_bytes,
    require_settings,
    stop,
    write_file,
)
from sluice.cli.policy.control_topics import AsJson, publish_values, require_policy
from sluice.cli.policy.key_files import require_private_keys
from sluice.cli.quality_read import read_broker
from sluice.client.answers import ClientError
from sluice.client.async_client import AsyncGateClient
from sluice.client.mandates import MandateIssuer, MandateTerms, compute_mandate_digest, issue_mandate
from sluice.client.sender import ClientOptions, InputSigner
from sluice.core.foundation.clock import rfc3339
from sluice.core.foundation.errors import RegistryError
from sluice.core.trust.signing import check_entries, sign_entries
from sluice_topics.catalog import REGISTRY, SESSION_EVENTS
from sluice_topics.json_text import parse

if TYPE_CHECKING:
    from sluice.core.registry.registry import Registry
    from sluice.settings.reader import Settings

KIND = "mandate_revocation"
SCHEMA = b"sluice/mandate_recorded/v1"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
Issuing = Annotated[str, typer.Option("--as", metavar="ISSUER", help="The issuer's id in the registry.")]
IssuerKey = Annotated[Path, typer.Option(metavar="PEM", help="The issuer's private key.")]
Tools = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A JSON list of objects with tool, condition and count; without it every tool.",
    ),
]
Destinations = Annotated[
    list[str] | None, typer.Option("--destination", metavar="TEXT", help="What the task names; repeat it.")
]
Values = Annotated[
    list[str] | None, typer.Option("--value", metavar="SLOT=TEXT", help="Of the template; repeat it.")
]
Within = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The mandate within which it lies, as --out wrote it.")
]
Named = Annotated[str, typer.Argument(metavar="MANDATE", help="Its digest, or the file that --out wrote.")]

cli = typer.Typer(
    no_args_is_help=True, help="What agents are asked to do: issue, show and revoke signed mandates."
)


@cli.command("issue")
def issue(  # noqa: PLR0913 - an option each
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="Whom it is for.")],
    session: Annotated[str, typer.Argument(metavar="SESSION", help="In which session.")],
    *,
    issuer: Issuing,
    key: IssuerKey,
    task: Annotated[str | None, typer.Option(metavar="TEXT", help="What the agent is asked to do.")] = None,
    span: Annotated[str, typer.Option("--for", metavar="SPAN", help="How long: 30m, 8h, 2d.")] = "1h",
    tools: Tools = None,
    destination: Destinations = None,
    template: Annotated[
        str | None, typer.Option(metavar="ID", help="A `task` of the registry, in place of --tools.")
    ] = None,
    value: Values = None,
    within: Within = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the mandate here too.")] = None,
    wait: Annotated[float, typer.Option(min=0.1, metavar="S", help="Wait so long for the gate.")] = 30,
    as_json: AsJson = False,
) -> None:
    """Sign a mandate, publish it, and wait until the gate has recorded it.

    It prints the digest that the agent's actions must name
    (`mandate_digest`; the Python client: `in_session(SESSION, mandate=...)`).
    A mandate only narrows: what registry and bundle forbid stays forbidden.

    Exit codes: 0 it counts, 1 the gate refuses it, 2 could not do it.

    Example: sluice mandate issue accountant ticket-4711 --as console --key
    console.pem --task "Pay the invoice of ACME" --tools tools.json
    """
    require_private_keys([key])
    span_ms = parse_span(span) or stop(f"no span: {span}. Give a number and a unit: 30s, 10m, 1h, 2d")
    until = datetime.fromtimestamp(read_clock_ms() / 1000, UTC) + timedelta(milliseconds=span_ms)
    terms = MandateTerms(
        task=task,
        tools=None if tools is None else _read_json(tools),
        destinations=destination or (),
        template=None if template is None else {"id": template, "values": _read_values(value or [])},
        parent=None if within is None else _read_json(within),
    )
    try:
        signer = MandateIssuer(issuer, InputSigner(key.read_bytes(), require_audience()))
        mandate = issue_mandate(signer, agent, session, until, terms)
    except (ClientError, AttributeError, KeyError, TypeError) as error:
        stop(f"no mandate can be made of this: {error}")
    try:
        digest = require_broker(_publish(require_settings(), mandate, wait))
    except ClientError as error:
        stop(str(error), WRONG)
    if out is not None:
        write_file(out, f"{json.dumps(mandate, ensure_ascii=False)}\n".encode())
    if as_json:
        print_json({"digest": digest, "mandate": mandate})
    else:
        where = f"until {clean(mandate['until'])} in session {clean(session)}"
        description = f"[green]it counts[/] {where}: {clean(digest)}"
        console.print(description, soft_wrap=True, highlight=False)


@cli.command("show")
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A digest, a session, an agent, or a file.")],
    as_json: AsJson = False,
) -> None:
    """Show the mandates of a session or an agent, or one by its digest, and what became of each.

    It reads them in the ledger, and in the registry what ended them before
    their time. What an action used of a count is in its verdict.

    Exit codes: 0 shown, 1 there is none, 2 could not do it.
    """
    wanted = _read_name(name)
    mandates = [
        mandate
        for mandate in _read_recorded()
        if wanted in (mandate["mandate"]["digest"], mandate["session_id"], mandate["agent_id"])
    ]
    if not mandates:
        stop(f"no mandate of {name} is in the ledger", WRONG)
    registry = require_policy(REGISTRY).registry
    now_ms = read_clock_ms()
    states = [_describe_state(registry, mandate, now_ms) for mandate in mandates]
    if as_json:
        print_json([{**mandate, "state": state} for mandate, state in zip(mandates, states, strict=True)])
        return
    for recorded, state in zip(mandates, states, strict=True):
        _print_mandate(recorded, state)


@cli.command("revoke")
def revoke(
    mandate: Named,
    *,
    key: Annotated[
        Path, typer.Option(metavar="PEM", help=f"Your private key: of an approver who may sign a {KIND}.")
    ],
    reason: Annotated[str, typer.Option(help="Why; every action that is held for it says so.")],
    tenant: Annotated[
        str | None, typer.Option(help="Its tenant; without it, as the ledger has the mandate.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """End a mandate, and every one within it, in every worker within a second.

    It is an entry of the registry, signed by you. Nothing brings the
    mandate back: issue another.

    Exit codes: 0 it is in force, 1 it is refused or the mandate is not
    known, 2 could not do it.

    Example: sluice mandate revoke sha256:0a... --key ann.pem --reason "the
    order was cancelled"
    """
    (signer,) = require_private_keys([key])
    digest = _read_name(mandate)
    if _DIGEST.fullmatch(digest) is None:
        stop(f"{mandate} is no digest (sha256:...) and no file")
    tenant = tenant or _find_tenant(digest)
    spec = {"tenant_id": tenant, "reason": reason}
    entry = {"kind": KIND, "id": digest, "revision": 1, "spec": spec}
    try:
        entries = check_entries(orjson.dumps({"entries": [entry]}))
    except RegistryError as error:
        stop(str(error), WRONG)
    publish_values(sign_entries(entries, [signer], separately=True), REGISTRY, as_json=as_json)


def _find_tenant(digest: str) -> str:
    tenants = (
        str(recorded["tenant_id"])
        for recorded in _read_recorded()
        if digest in [scope["digest"] for scope in recorded["mandate"]["scopes"]]
    )
    unknown = f"the ledger has no mandate {digest}; --tenant revokes it all the same"
    return next(tenants, None) or stop(unknown, WRONG)


async def _publish(settings: Settings, mandate: dict[str, Any], wait_s: float) -> str:
    options = ClientOptions(
        topic_prefix=settings.kafka.topic_prefix,
        installation=settings.policy.installation,
        deadline_s=wait_s,
        verdict_keys=settings.verdicts.public_keys,
    )
    async with AsyncGateClient(settings.kafka.connection, mandate["agent_id"], options) as gate:
        return await gate.mandate(mandate)


def _read_json(path: Path) -> Any:
    try:
        return json.loads(require_bytes(path))
    except ValueError as error:
        stop(f"{path} is no JSON: {error}")


def _read_values(texts: list[str]) -> dict[str, str]:
    values = dict(pair.partition("=")[::2] for pair in texts)
    if not all("=" in pair for pair in texts):
        stop("give each value as SLOT=TEXT")
    return values


def _read_name(text: str) -> str:
    """A digest for the file of a mandate; anything else as it is."""
    path = Path(text)
    if _DIGEST.fullmatch(text) is None and path.is_file():
        mandate = _read_json(path)
        return compute_mandate_digest(mandate) if isinstance(mandate, dict) else text
    return text


def _read_recorded() -> list[dict[str, Any]]:
    """Every mandate in the ledger, the oldest first."""
    recorded: list[dict[str, Any]] = []

    def take(value: bytes | None) -> None:
        record = parse(value) if value is not None and SCHEMA in value else None
        if isinstance(record, dict) and record["schema"] == SCHEMA.decode():
            recorded.append(record)

    read_broker([SESSION_EVENTS], take)
    return sorted(recorded, key=lambda mandate: str(mandate["decided_at"]))


def _describe_state(registry: Registry, recorded: dict[str, Any], now_ms: int) -> str:
    for scope in recorded["mandate"]["scopes"]:
        revoked = registry.mandate_revocations.get(scope["digest"])
        if revoked is not None and revoked.tenant == recorded["tenant_id"]:
            return f"revoked: {revoked.reason}"
        if scope["issuer_id"] not in registry.issuers:
            return f"{scope['issuer_id']} is no issuer any more"
    return "over" if recorded["mandate"]["until_ms"] <= now_ms else "counts"


def _print_mandate(recorded: dict[str, Any], state: str) -> None:
    mandate = recorded["mandate"]
    own, *above = mandate["scopes"]
    print_line(f"{clean(mandate['digest'])}: {clean(state)}")
    until = rfc3339(mandate["until_ms"])
    print_line(f"  for {clean(recorded['agent_id'])} in {clean(recorded['session_id'])} until {until}")
    print_line(f"  issued by {clean(own['issuer_id'])} at {clean(recorded['decided_at'])}")
    print_line(f"  task: {clean(mandate.get('task') or mandate['task_hash'])}")
    for tool in own["tools"] if own["tools"] is not None else [{"tool": "every tool"}]:
        count = f", {tool['count']} times at most" if "count" in tool else ""
        condition = f" if {clean(tool['condition'])}" if "condition" in tool else ""
        print_line(f"  tool: {clean(tool['tool'])}{condition}{count}")
    for destination in own["destinations"]:
        print_line(f"  destination: {clean(destination)}")
    for scope in above:
        print_line(f"  within {clean(scope['digest'])} of {clean(scope['agent_id'])}")
