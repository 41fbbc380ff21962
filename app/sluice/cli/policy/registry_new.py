"""`sluice registry new`: write an entry to start from, which is valid as it stands."""

from __future__ import annotations

import time
from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any, get_args

import orjson
import typer

from sluice.cli.output import clean, console, stop, write_file
from sluice.core.foundation.canonical import digest
from sluice.core.foundation.clock import rfc3339
from sluice.core.foundation.errors import RegistryError
from sluice.core.registry.quality_entries import make_provenance_id
from sluice.core.registry.registry_entries import Kind, SignedKind
from sluice.core.trust.freezing import FORMS, read_subject
from sluice.core.trust.signing import check_entries

if TYPE_CHECKING:
    from collections.abc import Callable

_REASON = "Say here why, for those who read it later."
KINDS: tuple[str, ...] = get_args(Kind)


def new(
    kind: Annotated[str, typer.Argument(help=f"One of {', '.join(KINDS)}.")],
    name: Annotated[
        str,
        typer.Argument(
            metavar="ID", help=f"The entry's id: for provenance the URI, for a freeze its subject ({FORMS})."
        ),
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A file that does not exist yet.")],
    *,
    tenant: Annotated[str, typer.Option(help="The entry's tenant, if its kind has one.")] = "example",
    public_key: Annotated[
        Path | None,
        typer.Option(
            help="NAME.pub of `sluice keys new`: of an approver, delegate, enforcement point, issuer, source."
        ),
    ] = None,
) -> None:
    """Write a file with one entry to start from; `sluice registry check` passes it as it is.

    Every field has a valid value. Check each one; the pages in
    docs/reference say what it means. The next revision of an entry is the
    same file with a higher revision.

    Exit codes: 0 written, 2 could not (a file that is there stays).

    Example: sluice registry new agent my-agent my-agent.json
    """
    if kind == "quality_override":
        stop("an override is one person's word: `sluice quality override` writes, signs and publishes it")
    if kind == "agent_grant":
        stop("a grant is one person's word: `sluice escalations grant` writes, signs and publishes it")
    if kind == "model_proof":
        stop("a proof follows from a run of the golden set: `sluice grader prove` writes it")
    if kind == "policy_loss":
        stop("a loss follows from what the workers recorded: `sluice registry accept-loss` writes it")
    if kind == "mandate_revocation":
        stop("a revocation names a mandate's digest: `sluice mandate revoke` writes, signs and publishes it")
    if kind == "erasure":
        stop("an erasure names a person's keys: `sluice erase` finds, signs, publishes and destroys them")
    if kind not in _SPECS:
        stop(f"{kind} is no kind of entry; there are {', '.join(KINDS)}")
    options = _EntryOptions(name, tenant, None if public_key is None else _read_public_key(public_key))
    entry_id, spec = _SPECS[kind](options)
    write_entry_or_stop(out, {"kind": kind, "id": entry_id, "revision": 1, "spec": spec})
    key = "ROOT.pem" if kind == "approver" else "APPROVER.pem"
    message = (
        f"[green]written[/] {clean(out)}; next: sluice registry sign {clean(out)} --key {key} --out SIGNED"
    )
    console.print(message, soft_wrap=True, highlight=False)


class _EntryOptions:
    """The options of the command; `key` ends the command where the kind needs a key and none was given."""

    def __init__(self, name: str, tenant: str, public_key: str | None) -> None:
        self.name = name
        self.tenant = tenant
        self.public_key = public_key

    @property
    def key(self) -> str:
        message = "this kind needs --public-key NAME.pub; `sluice keys new NAME --out FOLDER` makes a pair"
        return self.public_key or stop(message)


_Spec = tuple[str, dict[str, Any]]
"""Id and spec."""


def _make_agent(options: _EntryOptions) -> _Spec:
    return options.name, {
        "tenant_id": options.tenant,
        "tier": "T2",
        "tools": ["search_records"],
        "policy_bundle_id": None,
        "delegates_to": [],
        "callers": [],
        "autonomy_tier": "bounded",
        "content_classes": None,
    }


def _make_tool(options: _EntryOptions) -> _Spec:
    return options.name, {"tier": "T3", "action_type": "DATABASE_WRITE", "reversible": False}


def _make_org(options: _EntryOptions) -> _Spec:
    spec = {"enforcement": "enforce", "forbidden_targets": ["/etc/shadow"], "irreversible_row_threshold": 500}
    return options.name, spec


def _make_freeze(options: _EntryOptions) -> _Spec:
    subject = read_subject(options.name) or stop(f"a freeze's id is its subject: {FORMS}")
    spec = {"subject": subject.kind, "subject_id": subject.id, "reason": _REASON, "active": True}
    return str(subject), spec


def _make_enforcement_point(options: _EntryOptions) -> _Spec:
    return options.name, {"tenant_id": options.tenant, "public_key": options.key}


def _make_delegate(options: _EntryOptions) -> _Spec:
    return options.name, {"tenants": [options.tenant], "keys": [{"public_key": options.key}]}


def _make_issuer(options: _EntryOptions) -> _Spec:
    spec = {"tenant_id": options.tenant, "keys": [{"public_key": options.key}], "agents": ["my-agent"]}
    return options.name, spec


def _make_task(options: _EntryOptions) -> _Spec:
    condition = "action.parameters.to == mandate.values.account"
    return options.name, {
        "tenant_id": options.tenant,
        "task": "Refund order {order} to {account}",
        "tools": [{"tool": "search_records"}, {"tool": "send_money", "condition": condition, "count": 1}],
        "destinations": [],
        "slots": [{"name": "order"}, {"name": "account", "destination": True}],
    }


def _make_fact(options: _EntryOptions) -> _Spec:
    now = rfc3339(time.time_ns() // 1_000_000)
    return options.name, {"value": {"limit": 100}, "valid_from": now, "tenant_id": options.tenant}


def _make_source(options: _EntryOptions) -> _Spec:
    key = {} if options.public_key is None else {"public_key": options.public_key}
    spec = {"tenant_id": options.tenant, "source_id": options.name, "type": "external", **key}
    return f"{options.tenant}/{options.name}", spec


def _make_provenance(options: _EntryOptions) -> _Spec:
    spec = {"tenant_id": options.tenant, "uri": options.name, "hash": digest("put the source's hash here")}
    return make_provenance_id(options.tenant, options.name), spec


def _make_known_bad(options: _EntryOptions) -> _Spec:
    return options.name, {
        "tenant_id": options.tenant,
        "subject": "item",
        "value": options.name,
        "reason": _REASON,
        "active": True,
    }


def _make_approver(options: _EntryOptions) -> _Spec:
    signs = [kind for kind in get_args(SignedKind) if kind != "quality_override"]
    return options.name, {
        "public_key": options.key,
        "signs": signs,
        "roles": [],
        "tenants": None,
        "valid_until": None,
        "active": True,
    }


def _make_limit(options: _EntryOptions) -> _Spec:
    spec = {"tenant_id": options.tenant, "per": "agent", "sum": "rows", "most": 1000, "window_ms": 86_400_000}
    return options.name, spec


_SPECS: dict[str, Callable[[_EntryOptions], _Spec]] = {
    "agent": _make_agent,
    "tool": _make_tool,
    "org": _make_org,
    "freeze": _make_freeze,
    "enforcement_point": _make_enforcement_point,
    "delegate": _make_delegate,
    "issuer": _make_issuer,
    "task": _make_task,
    "fact": _make_fact,
    "source": _make_source,
    "provenance": _make_provenance,
    "known_bad": _make_known_bad,
    "limit": _make_limit,
    "approver": _make_approver,
}


def _read_public_key(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        stop(f"cannot read {file}: {error}")


def write_entry_or_stop(out: Path, entry: dict[str, Any]) -> None:
    """Write an entry to a new file, to be signed; one that is not valid, or a file that is there, ends the
    command."""
    raw = orjson.dumps({"entries": [entry]}, option=orjson.OPT_INDENT_2) + b"\n"
    try:
        check_entries(raw)
    except RegistryError as error:
        stop(str(error))
    write_file(out, raw, anew=True)
