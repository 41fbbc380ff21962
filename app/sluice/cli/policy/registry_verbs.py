"""`sluice registry`: write entries of the registry, sign and publish them, see what is in force.

`new` writes an entry to start from, which is valid as it stands.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import orjson
import typer

from sluice.cli.output import IMPOSSIBLE, WRONG, console, print_json, shown, stop
from sluice.cli.policy.control_topics import AsJson, publish_file
from sluice.cli.policy.key_files import Keys, Signed, cosign, private_keys_or_stop, write_or_stop
from sluice.cli.policy.registry_propose import propose
from sluice.cli.policy.registry_seen import list_entries, log, show
from sluice.core.foundation.canonical import digest
from sluice.core.foundation.clock import rfc3339
from sluice.core.foundation.errors import RegistryError
from sluice.core.registry.quality_entries import provenance_id
from sluice.core.registry.registry_entries import Kind, SignedKind
from sluice.core.trust.signing import checked_entries, signed_entries
from sluice_topics.catalog import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluice.core.registry.registry_entries import EntryFile

_REASON = "Say here why, for those who read it later."
KINDS: tuple[str, ...] = get_args(Kind)


def new(
    kind: Annotated[str, typer.Argument(help=f"One of {', '.join(KINDS)}.")],
    name: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="The entry's id: for provenance the URI, for a freeze the id of its subject."
        ),
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A file that does not exist yet.")],
    *,
    tenant: Annotated[str, typer.Option(help="The entry's tenant, if its kind has one.")] = "example",
    public_key: Annotated[
        Path | None,
        typer.Option(help="NAME.pub of `sluice keys new`: for an approver, an enforcement point, a source."),
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
    if kind not in _SPECS:
        stop(f"{kind} is no kind of entry; there are {', '.join(KINDS)}")
    given = _Given(name, tenant, None if public_key is None else _public_key(public_key))
    entry_id, spec = _SPECS[kind](given)
    file = {"entries": [{"kind": kind, "id": entry_id, "revision": 1, "spec": spec}]}
    raw = orjson.dumps(file, option=orjson.OPT_INDENT_2) + b"\n"
    try:
        checked_entries(raw)
        with out.open("xb") as written:
            written.write(raw)
    except RegistryError as error:
        stop(str(error))
    except OSError as error:
        stop(f"cannot write {out}: {error.strerror}")
    key = "ROOT.pem" if kind == "approver" else "APPROVER.pem"
    message = (
        f"[green]written[/] {shown(out)}; next: sluice registry sign {shown(out)} --key {key} --out SIGNED"
    )
    console.print(message, soft_wrap=True, highlight=False)


class _Given:
    """What the person said; `key` ends the command where the kind needs one and none was given."""

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


def _agent(given: _Given) -> _Spec:
    return given.name, {
        "tenant_id": given.tenant,
        "tier": "T2",
        "tools": ["search_records"],
        "policy_bundle_id": None,
        "delegates_to": [],
        "callers": [],
        "autonomy_tier": "bounded",
        "content_classes": None,
    }


def _tool(given: _Given) -> _Spec:
    return given.name, {"tier": "T3", "action_type": "DATABASE_WRITE", "reversible": False}


def _org(given: _Given) -> _Spec:
    spec = {"enforcement": "enforce", "forbidden_targets": ["/etc/shadow"], "irreversible_row_threshold": 500}
    return given.name, spec


def _freeze(given: _Given) -> _Spec:
    return f"agent-{given.name}", {
        "subject": "agent",
        "subject_id": given.name,
        "reason": _REASON,
        "active": True,
    }


def _enforcement_point(given: _Given) -> _Spec:
    return given.name, {"tenant_id": given.tenant, "public_key": given.key}


def _delegate(given: _Given) -> _Spec:
    return given.name, {"tenants": [given.tenant], "keys": [{"public_key": given.key}]}


def _fact(given: _Given) -> _Spec:
    now = rfc3339(time.time_ns() // 1_000_000)
    return given.name, {"value": {"limit": 100}, "valid_from": now, "tenant_id": given.tenant}


def _source(given: _Given) -> _Spec:
    key = {} if given.public_key is None else {"public_key": given.public_key}
    spec = {"tenant_id": given.tenant, "source_id": given.name, "type": "external", **key}
    return f"{given.tenant}/{given.name}", spec


def _provenance(given: _Given) -> _Spec:
    spec = {"tenant_id": given.tenant, "uri": given.name, "hash": digest("put the source's hash here")}
    return provenance_id(given.tenant, given.name), spec


def _known_bad(given: _Given) -> _Spec:
    return given.name, {
        "tenant_id": given.tenant,
        "subject": "item",
        "value": given.name,
        "reason": _REASON,
        "active": True,
    }


def _approver(given: _Given) -> _Spec:
    signs = [kind for kind in get_args(SignedKind) if kind != "quality_override"]
    return given.name, {
        "public_key": given.key,
        "signs": signs,
        "roles": [],
        "tenants": None,
        "valid_until": None,
        "active": True,
    }


_SPECS: dict[str, Callable[[_Given], _Spec]] = {
    "agent": _agent,
    "tool": _tool,
    "org": _org,
    "freeze": _freeze,
    "enforcement_point": _enforcement_point,
    "delegate": _delegate,
    "fact": _fact,
    "source": _source,
    "provenance": _provenance,
    "known_bad": _known_bad,
    "approver": _approver,
}


def _public_key(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        stop(f"cannot read {file}: {error}")


cli = typer.Typer(
    name="registry",
    no_args_is_help=True,
    help="Write, check, sign and publish entries of the registry, and see what is in force: agents, tools, "
    "organisations, freezes, facts, enforcement points, sources, recorded provenance, what is known bad, "
    "overrides, approvers. A root key "
    "signs approvers, an approver's key all others; another quality bundle for a tenant needs two approvers.",
)
cli.command(name="new")(new)
cli.command(name="propose")(propose)
cli.command(name="list")(list_entries)
cli.command(name="show")(show)
cli.command(name="log")(log)
cli.command(name="cosign")(cosign)
Source = Annotated[
    Path, typer.Argument(metavar="FILE", help='{"entries": [{"kind", "id", "revision", "spec"}]}')
]


@cli.command()
def check(file: Source, as_json: AsJson = False) -> None:
    """Check every entry of a file as loading does.

    Exit codes: 0 all are valid, 1 one is not, 2 the file cannot be read.
    """
    entries = _entries(file, as_json=as_json)
    if as_json:
        print_json({"entries": [_name(entry) for entry in entries]})
    else:
        console.print(f"[green]{len(entries)} entries are well[/]")


@cli.command()
def sign(
    file: Source,
    key: Keys,
    out: Annotated[Path, typer.Option(dir_okay=False, help="File for the signed entries.")],
    *,
    separately: Annotated[
        bool,
        typer.Option("--separately", help="Let each entry take effect by itself instead of all together."),
    ] = False,
) -> None:
    """Sign the entries of a file and write one envelope per line.

    All entries take effect together, in one change; approvers' entries take
    effect one by one. Keep approvers in their own file, because only a root
    key signs them.

    Exit codes: 0 signed, 1 an entry is not valid, 2 could not do it.
    """
    keys = private_keys_or_stop(key)
    try:
        values = signed_entries(_entries(file, as_json=False), keys, separately=separately)
    except RegistryError as error:
        stop(f"{error}; --separately signs each alone", WRONG)
    write_or_stop(out, values)
    message = f"[green]signed {len(values)}[/] entries: {shown(out)}"
    console.print(message, soft_wrap=True, highlight=False)


@cli.command()
def publish(file: Signed, as_json: AsJson = False) -> None:
    """Publish signed entries if every worker will accept all of them; otherwise say why and write nothing.

    Exit codes: 0 they are in force, 1 some are refused, 2 could not do it.
    """
    publish_file(file, REGISTRY, as_json=as_json)


def _entries(file: Path, *, as_json: bool) -> list[EntryFile]:
    try:
        return checked_entries(file.read_bytes())
    except OSError as error:
        stop(f"cannot read {file}: {error.strerror}", IMPOSSIBLE)
    except RegistryError as error:
        if as_json:
            print_json({"error": str(error)})
        stop(str(error), WRONG)


def _name(entry: EntryFile) -> str:
    return f"{entry.kind}/{entry.id}@{entry.revision}"
