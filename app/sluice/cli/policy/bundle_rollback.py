"""`sluice bundle rollback`: what an earlier revision of a bundle says, signed as the next one.

A revision is never taken back, because decisions depend on it, and an older one is refused: the way back is
forward.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from sluice.cli.output import WRONG, clean, console, print_json, stop
from sluice.cli.policy.bundle_file import require_bundle
from sluice.cli.policy.bundle_history import find_relaxed_in_force
from sluice.cli.policy.control_topics import AsJson, print_relaxed, publish_values, require_policy
from sluice.cli.policy.key_files import Keys, require_private_keys, write_or_stop
from sluice.core.foundation.canonical import canonical
from sluice.core.trust.change_log import build_change_log, list_entries_in_force
from sluice.core.trust.signed_entries import QUALITY_BUNDLE
from sluice.core.trust.signing import sign_bundle, sign_quality_bundle
from sluice_topics.catalog import BUNDLES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.core.trust.reduction import ReducedPolicy
    from sluice.core.trust.revisions import Accepted

_OWN = ("revision", "rationale")
"""Fields that each revision has for itself."""
_COSIGN = (
    "The second approver: give both keys here; or write the signed bundle with --out FILE, then "
    "`sluice bundle cosign FILE --key SECOND.pem` and `sluice bundle publish FILE`."
)
Why = Annotated[
    str | None, typer.Option(help="Why, for the rationale of a quality bundle; a policy bundle has none.")
]
Out = Annotated[
    Path | None, typer.Option(dir_okay=False, help="Write the signed bundle to this file; publish nothing.")
]


def rollback(
    named: Annotated[str, typer.Argument(metavar="ID@N", help="The revision to go back to.")],
    key: Keys,
    *,
    reason: Why = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Publish a new revision of a bundle that says what its revision N said.

    The content is read from the topic, with everything that it included
    when it was signed. The command says what is relaxed of the revision in
    force, and publishes as `publish` does: what is relaxed there needs a
    second approver here too. Give --key twice, or --out, for `cosign` and
    `publish`.

    Exit codes: 0 it is in force (with --out: signed), 1 it is refused, or
    there is nothing to go back to, 2 could not do it.

    Example: sluice bundle rollback mine.policy@3 --key owner.pem
    """
    keys = require_private_keys(key)
    reduced = require_policy()
    wanted = _require_counted(reduced, named)
    document = _make_next_document(wanted, _require_in_force(reduced, wanted), reason)
    raw = canonical(document)
    bundle = require_bundle(raw, as_json=as_json)
    sign = sign_quality_bundle if wanted.kind == QUALITY_BUNDLE else sign_bundle
    value = sign(raw, keys, is_loaded=True)
    if out is None:
        relaxed = partial(find_relaxed_in_force, values=[value])
        hints = {"second_approver_missing": _COSIGN}
        publish_values([value], BUNDLES, compare=relaxed, hints=hints, as_json=as_json)
    write_or_stop(out, [value])
    name, sentences = f"{bundle.id}@{bundle.revision}", find_relaxed_in_force(reduced, [value])
    if as_json:
        print_json({"bundle": name, "hash": bundle.hash, "relaxations": sentences})
        return
    print_relaxed(sentences)
    message = f"[green]signed[/] {clean(name)} {bundle.hash}, as {clean(wanted.key)}: {clean(out)}"
    console.print(message, soft_wrap=True, highlight=False)


def _require_counted(reduced: ReducedPolicy, named: str) -> Accepted:
    """The revision of this name, "id@revision", that counts or counted."""
    bundles = [entry for entry in reduced.entries.values() if entry.input_record.topic == BUNDLES]
    matches = [bundle for bundle in bundles if bundle.key == named]
    if len(matches) > 1:
        stop(f"{named} is a policy bundle and a quality bundle: publish the file of the one that is meant")
    return matches[0] if matches else _stop_for_none(reduced, bundles, named)


def _stop_for_none(reduced: ReducedPolicy, bundles: list[Accepted], named: str) -> NoReturn:
    refused = [line for line in build_change_log(reduced) if line.name == named]
    if refused:
        stop(f"{named} does not count: {refused[-1].code}: {refused[-1].message}", WRONG)
    bundle_id = named.rpartition("@")[0] or named
    there = sorted(bundle.statement.revision for bundle in bundles if bundle.statement.id == bundle_id)
    revisions = f"it has {', '.join(map(str, there))}" if there else "none of this bundle ever counted"
    stop(f"{named} is no revision on the broker; {revisions}. See `sluice bundle log`", WRONG)


def _require_in_force(reduced: ReducedPolicy, wanted: Accepted) -> Accepted:
    """The revision that is to be replaced; one that says the same already ends the command."""
    meant = (wanted.kind, wanted.statement.id)
    newest = next(
        entry
        for entry in list_entries_in_force(reduced, BUNDLES)
        if (entry.kind, entry.statement.id) == meant
    )
    if newest.key == wanted.key:
        stop(f"{wanted.key} is the revision in force", WRONG)
    if _read_content(newest) == _read_content(wanted):
        stop(f"{newest.key} is in force, and says what {wanted.key} said", WRONG)
    return newest


def _read_content(entry: Accepted) -> dict[str, Any]:
    return {name: value for name, value in entry.document.items() if name not in _OWN}


def _make_next_document(wanted: Accepted, newest: Accepted, reason: str | None) -> Mapping[str, Any]:
    document = {**wanted.document, "revision": newest.statement.revision + 1}
    if wanted.kind == QUALITY_BUNDLE:
        why = f": {reason}" if reason else ""
        document["rationale"] = (
            f"back from revision {newest.statement.revision} to {wanted.statement.revision}{why}"
        )
    elif reason is not None:
        stop("a policy bundle has no rationale: leave --reason out")
    return document
