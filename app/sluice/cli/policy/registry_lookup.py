"""`sluice registry list | show | log`: what is in force, since when, and who signed it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from sluice.cli.output import WRONG, clean, console, print_json, stop
from sluice.cli.policy.bundle_history import describe_signers, print_log
from sluice.cli.policy.control_topics import (
    AsJson,
    require_policy,
)
from sluice.cli.quality_read import read_broker
from sluice.cli.tables import build_table, fix, fold
from sluice.core.actions.causal import EXTRACT, EXTRACTION_PORT
from sluice.core.foundation.clock import rfc3339
from sluice.core.trust.change_log import build_change_log, list_entries_in_force
from sluice_topics.catalog import REGISTRY, VERDICTS
from sluice_topics.json_text import parse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.table import Table

    from sluice.core.trust.reduction import ReducedPolicy
    from sluice.core.trust.revisions import Accepted

Named = Annotated[
    str | None,
    typer.Argument(metavar="[NAME]", help="KIND/ID, or an ID of any kind; KIND/ID@REVISION is one revision."),
]
_REVISION = re.compile(r"@[0-9]+")
LIFTED = "lifted"
_ASKED = f'"{EXTRACTION_PORT}"'.encode()
_CLOCKS_APART_MS = 60_000


def list_entries(
    kind: Annotated[str | None, typer.Argument(metavar="[KIND]", help="agent, tool, org, freeze, …")] = None,
    as_json: AsJson = False,
) -> None:
    """List the entries in force: the newest revision of each, since when, and who signed it.

    An entry whose newest revision says `"active": false` is lifted.

    Exit codes: 0 shown, 2 could not do it.
    """
    entries = list_entries_in_force(require_policy(REGISTRY), REGISTRY)
    entries = sorted(
        (entry for entry in entries if kind in (None, entry.kind)),
        key=lambda entry: (entry.kind, entry.statement.id),
    )
    if as_json:
        print_json([_build_fields(entry) for entry in entries])
    elif entries:
        console.print(_build_table(entries))
    else:
        console.print("nothing is in force" if kind is None else f"no {clean(kind)} is in force")


def show(name: Named = None, as_json: AsJson = False) -> None:
    """Show the entry in force under a name, whole, with the hash that decisions record.

    It also shows since when the entry is in force, who signed it, and its
    earlier revisions. For an agent with a system prompt, it shows the
    constraints that the gate `causal` judges by: those that were signed,
    or those that a model found in the prompt, as the newest verdict under
    this revision has them.

    Exit codes: 0 shown, 1 no entry of this name, 2 could not do it.

    Example: sluice registry show agent/example-operator
    """
    if name is None:
        stop("give a name: KIND/ID, or an ID; `sluice registry list` shows them")
    reduced = require_policy(REGISTRY)
    entries = _find_named(reduced, name)
    if not entries:
        stop(f"{name}: nothing of this name is in force; `sluice registry list` shows what is", WRONG)
    extracted = _read_extracted(entries)
    if as_json:
        specs = (
            {"spec": entry.document["spec"], **_build_constraints(entry, extracted)} for entry in entries
        )
        print_json([_build_fields(entry) | more for entry, more in zip(entries, specs, strict=True)])
        return
    for accepted_entry in entries:
        _show(accepted_entry, reduced)
        _print_constraints(_build_constraints(accepted_entry, extracted).get("constraints"))


def log(name: Named = None, as_json: AsJson = False) -> None:
    """Show the change log of entries: when, which revision, by whom, and what was refused and why.

    Exit codes: 0 shown, 2 could not do it.
    """
    lines = build_change_log(require_policy(REGISTRY), None, REGISTRY)
    if name is not None:
        lines = tuple(line for line in lines if name in _list_names(line.name))
    print_log(lines, as_json=as_json)


def _find_named(reduced: ReducedPolicy, name: str) -> list[Accepted]:
    """Find the entries in force under this name; with a revision that one, whether it is in force or not."""
    if _REVISION.search(name):
        return [entry for entry in reduced.entries.values() if name == entry.key]
    return [entry for entry in list_entries_in_force(reduced, REGISTRY) if name in _list_names(entry.key)]


def _list_names(key: str) -> tuple[str, str, str]:
    """ "kind/id@revision", "kind/id" and "id" of an entry."""
    whole = key.rpartition("@")[0] or key
    return key, whole, whole.partition("/")[2]


def _is_lifted(entry: Accepted) -> bool:
    return entry.document["spec"].get("active") is False


def _build_fields(entry: Accepted) -> dict[str, Any]:
    return {
        "name": entry.key,
        "state": LIFTED if _is_lifted(entry) else "in force",
        "since": rfc3339(entry.at_ms),
        "approvers": sorted(entry.approvers),
        "keys": sorted(entry.signers),
        "hash": entry.hash,
        "offset": entry.input_record.offset,
    }


class _Extracted:
    """The newest extraction of each entry, by the entry's key, in the verdicts that are taken."""

    def __init__(self, entries: Iterable[Accepted]) -> None:
        self._hashes = {entry.key: entry.hash for entry in entries}
        self.newest: dict[str, dict[str, Any]] = {}

    def take(self, value: bytes | None) -> None:
        """The next record of gate.verdicts."""
        verdict = parse(value) if value is not None and _ASKED in value else None
        if not isinstance(verdict, dict):
            return
        used = verdict.get("registry_hashes", {})
        for key in (key for key, its_hash in self._hashes.items() if used.get(key) == its_hash):
            for output in verdict["model_outputs"]:
                self._keep(key, verdict, output)

    def _keep(self, key: str, verdict: dict[str, Any], output: dict[str, Any]) -> None:
        extraction = EXTRACT.read(output["payload"]) if output["port"] == EXTRACTION_PORT else None
        newest = self.newest.get(key)
        if extraction is None or (newest is not None and verdict["decided_at"] < newest["decided_at"]):
            return
        self.newest[key] = {
            "source": "model",
            "texts": extraction.constraints,
            "model": extraction.model,
            "prompt_version": extraction.prompt_version,
            "verdict_id": verdict["verdict_id"],
            "decided_at": verdict["decided_at"],
        }


def _is_read_by_a_model(entry: Accepted) -> bool:
    spec = entry.document["spec"]
    return entry.kind == "agent" and spec.get("constraints") is None and spec.get("system_prompt") is not None


def _read_extracted(entries: list[Accepted]) -> dict[str, dict[str, Any]]:
    """Read what models extracted under these revisions, from the verdicts since the first of them."""
    sought = [entry for entry in entries if _is_read_by_a_model(entry)]
    if not sought:
        return {}
    extracted = _Extracted(sought)
    since_ms = min(entry.at_ms for entry in sought) - _CLOCKS_APART_MS
    read_broker([VERDICTS], extracted.take, max(0, since_ms))
    return extracted.newest


def _build_constraints(entry: Accepted, extracted: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The field `constraints` of an agent; null: it has none, or no model has read its prompt yet."""
    if entry.kind != "agent":
        return {}
    signed = entry.document["spec"].get("constraints")
    if signed is not None:
        return {"constraints": {"source": "signed", "texts": signed}}
    return {"constraints": extracted.get(entry.key, {"source": None} if _is_read_by_a_model(entry) else None)}


def _print_constraints(constraints: dict[str, Any] | None) -> None:
    if constraints is None:
        return
    if constraints["source"] is None:
        description = "no verdict since then has the constraints of its system prompt"
    elif constraints["source"] == "signed":
        description = "constraints, as they were signed:"
    else:
        description = (
            f"constraints, as {clean(constraints['model'])} found them in its system prompt (prompt version "
            f"{clean(constraints['prompt_version'])}; {clean(constraints['verdict_id'])}, "
            f"{clean(constraints['decided_at'])}):"
        )
    console.print(f"  {description}", highlight=False, soft_wrap=True)
    for number, text in enumerate(constraints.get("texts", ()), 1):
        console.print(f"  {number}. {clean(text)}", highlight=False, soft_wrap=True)


def _build_table(entries: list[Accepted]) -> Table:
    """Names fold, nothing else does."""
    rows = (
        (
            clean(entry.key) + (f" [yellow]{LIFTED}[/]" if _is_lifted(entry) else ""),
            rfc3339(entry.at_ms).partition(".")[0].replace("T", " "),
            clean(describe_signers(entry.kind, sorted(entry.approvers))),
        )
        for entry in entries
    )
    return build_table(*fold("entry"), *fix("since", "by"), rows=rows)


def _show(entry: Accepted, reduced: ReducedPolicy) -> None:
    in_force = entry.hash in {each.hash for each in list_entries_in_force(reduced, REGISTRY)}
    state = LIFTED if _is_lifted(entry) else "in force" if in_force else "replaced"
    by = clean(describe_signers(entry.kind, sorted(entry.approvers)))
    console.print(
        f"[bold]{clean(entry.key)}[/] {state} since {rfc3339(entry.at_ms)}, signed by {by}", soft_wrap=True
    )
    console.print(f"  {entry.hash}", highlight=False, soft_wrap=True)
    for line in orjson.dumps(entry.document["spec"], option=orjson.OPT_INDENT_2).decode().splitlines():
        console.print(f"  {clean(line)}", highlight=False, soft_wrap=True)
    others = [
        each for each in reduced.entries.values() if _list_names(each.key)[1] == _list_names(entry.key)[1]
    ]
    for each in sorted(others, key=lambda other: other.statement.revision):
        if each.hash != entry.hash:
            message = f"  revision {each.statement.revision} since {rfc3339(each.at_ms)}"
            console.print(message, highlight=False, soft_wrap=True)
