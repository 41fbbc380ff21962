"""`sluice bundle`: check a bundle of policy or of quality, sign it, publish it."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from sluice.cli.output import WRONG, clean, console, errors, print_json, stop, write_file
from sluice.cli.policy.bundle_file import (
    BundlePath,
    cases_command,
    require_bundle,
    require_document,
    require_extended,
)
from sluice.cli.policy.bundle_history import diff, find_relaxed, find_relaxed_in_force, log
from sluice.cli.policy.bundle_rollback import rollback
from sluice.cli.policy.control_topics import AsJson, print_relaxed, publish_values
from sluice.cli.policy.key_files import (
    Keys,
    Signed,
    cosign,
    require_envelopes,
    require_private_keys,
    write_or_stop,
)
from sluice.cli.quality_read import (
    From,
    read_or_stop,
)
from sluice.core.cases.case_failure import count_cases
from sluice.core.cases.cases import count_own_cases, is_quality, run_own_cases
from sluice.core.quality_bundle.quality_bundle import QualityBundle
from sluice.core.reports.ledger_values import DECISION
from sluice.core.trust.signing import sign_bundle, sign_quality_bundle
from sluice.offline.bundle_source import SHIPPED_MARK, read_whole_bundle
from sluice.shipped import SHIPPED_FILES
from sluice.text.plurals import count_noun
from sluice_topics.catalog import BUNDLES, BY_NAME, QUALITY_DECISIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.core.policy.bundles import Bundle


SHIPPED_QUALITY = SHIPPED_FILES / "quality" / "default.json"
_CASE = {
    "name": "a read of an unknown tool passes: say here what your agents must be able to do",
    "action": {"toolName": "read", "parameters": {}},
    "expect": {"outcome": "ALLOW"},
}


def new(
    bundle_id: Annotated[str, typer.Argument(metavar="ID", help="The bundle's id.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A file that does not exist yet.")],
    *,
    quality: Annotated[
        bool, typer.Option("--quality", help="Write a quality bundle, for retrieved items.")
    ] = False,
) -> None:
    """Write a bundle to start from; `sluice bundle check` passes it as it is.

    A policy bundle extends the one that ships: what you write is added, or
    replaces what has the same id; `remove` names what is to go. A quality
    bundle is a whole copy of the one that ships, with every table, and with
    a rationale for you to write.

    Exit codes: 0 written, 2 could not (a file that is there stays).
    """
    document = _make_quality(bundle_id) if quality else _make_policy(bundle_id)
    write_file(out, orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n", anew=True)
    message = f"[green]written[/] {clean(out)}; next: sluice bundle check {clean(out)}"
    console.print(message, soft_wrap=True, highlight=False)


def _make_policy(bundle_id: str) -> dict[str, Any]:
    return {
        "extends": f"{SHIPPED_MARK}default.json",
        "id": bundle_id,
        "revision": 1,
        "description": f"{bundle_id}: say what it is for.",
        "cases": [_CASE],
    }


def _make_quality(bundle_id: str) -> dict[str, Any]:
    own = {
        "id": bundle_id,
        "revision": 1,
        "description": f"{bundle_id}: say what it is for.",
        "rationale": f"The first revision of {bundle_id}: say here why these limits, and in each later one "
        "what changed and why.",
    }
    return {**orjson.loads(read_whole_bundle(SHIPPED_QUALITY)), **own}


Ledger = Annotated[
    bool,
    typer.Option(
        "--ledger",
        help="Warn of content classes that decisions in the ledger have seen and the quality bundle "
        "does not name.",
    ),
]
NO_CLASS = "(none, or no name of a class)"


def require_unnamed(bundle: Bundle | QualityBundle, *, ledger: bool, exported: Path | None) -> dict[str, int]:
    """The decisions by class, those of the most decisions first; empty where no ledger is asked for."""
    if not ledger and exported is None:
        return {}
    if not isinstance(bundle, QualityBundle):
        stop("a policy bundle names no content classes of items: --ledger is for quality bundles")
    classes, counts = bundle.lookup.classes, Counter[str]()

    def count_class(event: Mapping[str, Any]) -> None:
        name = event.get("content_class")
        if name not in classes:
            counts[NO_CLASS if name is None else str(name)] += 1

    read_or_stop((QUALITY_DECISIONS,), {DECISION: count_class}, exported)
    return dict(counts.most_common())


cli = typer.Typer(
    name="bundle",
    no_args_is_help=True,
    help="Write, check, compare, sign, publish and roll back bundles of policy and of quality. A "
    "published bundle is in force in every worker within a moment, if an approver signed it and its revision "
    "is newer; a bundle that relaxes the one in force needs a second approver, and so does a policy "
    "bundle under a new id.",
)
cli.command(name="test")(cases_command)
cli.command(name="new")(new)
cli.command(name="diff")(diff)
cli.command(name="log")(log)
cli.command(name="cosign")(cosign)
cli.command(name="rollback")(rollback)


@cli.command()
def check(file: BundlePath, ledger: Ledger = False, from_: From = None, as_json: AsJson = False) -> None:
    """Check a bundle as loading does: each field, the fields together, and the bundle's own cases.

    It says what is relaxed of the bundle that this one extends, such as
    a rule or a case that is gone.

    With --ledger (or --from, for an export) the command warns of content
    classes in the ledger that a quality bundle does not name. A warning
    does not change the exit code.

    Exit codes: 0 it is valid, 1 it is not, 2 the file cannot be read.
    """
    document = require_document(file, as_json=as_json)
    bundle = require_bundle(document, as_json=as_json)
    relaxed = _find_relaxed(file, document)
    differing = run_own_cases(bundle)
    failures = [str(failure) for failure in differing]
    name, cases = f"{bundle.id}@{bundle.revision}", count_own_cases(bundle)
    unnamed = require_unnamed(bundle, ledger=ledger, exported=from_)
    if as_json:
        fields = {
            "bundle": name,
            "hash": bundle.hash,
            "cases": cases,
            "failures": failures,
            "relaxations": relaxed,
        }
        print_json(fields | ({"unnamed_classes": unnamed} if ledger or from_ else {}))
    else:
        print_relaxed(relaxed)
        for observed, count in unnamed.items():
            decisions = count_noun(count, "decision")
            message = f"content class {clean(observed)}: seen in {decisions}, not named by the bundle"
            errors.print(f"[yellow]warning[/] {message}", soft_wrap=True, highlight=False)
        for failure in failures:
            errors.print(clean(failure), soft_wrap=True)
        message = f"[red]{count_cases(differing)} fail[/]" if failures else "[green]all pass[/]"
        console.print(f"{clean(name)} {bundle.hash}, {count_noun(cases, 'case')}: {message}", soft_wrap=True)
    if failures:
        raise typer.Exit(WRONG)


@cli.command()
def sign(
    file: BundlePath,
    key: Keys,
    out: Annotated[Path, typer.Option(dir_okay=False, help="File for the signed bundle.")],
) -> None:
    """Sign the whole bundle, with everything that it includes, and write the envelope.

    With several keys each signs; `cosign` adds a signature later. It says
    what is relaxed of the bundle that this one extends.

    Exit codes: 0 signed, 1 the bundle is not valid, 2 could not do it.
    """
    keys = require_private_keys(key)
    document = require_document(file)
    bundle = require_bundle(document)
    print_relaxed(_find_relaxed(file, document))
    signed = sign_quality_bundle if is_quality(document) else sign_bundle
    value = signed(document, keys, is_loaded=True)
    if len(value) > BY_NAME[BUNDLES].max_message_bytes:
        size = count_noun(len(value), "byte")
        stop(f"signed it has {size}, at most {BY_NAME[BUNDLES].max_message_bytes} count", WRONG)
    write_or_stop(out, [value])
    message = f"[green]signed[/] {clean(bundle.id)}@{bundle.revision} {bundle.hash}: {clean(out)}"
    console.print(message, soft_wrap=True, highlight=False)


@cli.command()
def publish(file: Signed, as_json: AsJson = False) -> None:
    """Publish a signed bundle if every worker will accept it; otherwise say why and write nothing.

    The command checks the bundle against the topics as they are now:
    signatures and signers, revision, fields, rules, cases, and a second
    approver if the revision in force is relaxed, or a policy bundle has a
    new id. It says what is relaxed of the revision in force.

    Exit codes: 0 it is in force, 1 it is refused, 2 could not do it.
    """
    values = require_envelopes(file)
    relaxed = partial(find_relaxed_in_force, values=values)
    publish_values(values, BUNDLES, compare=relaxed, as_json=as_json)


def _find_relaxed(file: Path, document: bytes) -> list[str]:
    """Find where a bundle relaxes the one that it extends, in sentences."""
    base = require_extended(file)
    return (
        []
        if base is None
        else [f"of what it extends: {relaxation}" for relaxation in find_relaxed(base, document)]
    )
