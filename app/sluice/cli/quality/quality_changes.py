"""`sluice quality promote`: may a class be enforced, and the revision that does it.

`sluice quality override`: a person's signed word that an item may be read, until it expires.
"""

from __future__ import annotations

import time
from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

import orjson
import typer

from sluice.cli.output import (
    WRONG,
    clean,
    console,
    errors,
    parse_span,
    print_json,
    require_settings,
    stop,
    write_file,
)
from sluice.cli.policy.bundle_file import require_document
from sluice.cli.policy.control_topics import AsJson, publish_values, require_policy
from sluice.cli.policy.key_files import require_private_keys
from sluice.cli.quality_read import From, read_or_stop
from sluice.cli.tables import build_table, fold
from sluice.core.cases.quality_cases import run_quality_cases
from sluice.core.foundation.clock import rfc3339
from sluice.core.foundation.errors import BundleError, RegistryError
from sluice.core.metadata.moments import parse_instant
from sluice.core.quality_bundle.quality_bundle import load_quality_bundle
from sluice.core.registry.quality_entries import LONGEST_OVERRIDE_MS
from sluice.core.reports.ledger_values import DECISION
from sluice.core.reports.promotion import (
    ObservedDecisions,
    describe_criteria,
    find_alike,
    judge_criteria,
    make_promoted,
)
from sluice.core.trust.signing import check_entries, sign_entries
from sluice_topics.catalog import QUALITY_DECISIONS, REGISTRY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice.core.quality_bundle.quality_bundle import QualityBundle
    from sluice.core.registry.registry_entries import EntryFile
    from sluice.core.reports.promotion import Criterion


ExpiresIn = Annotated[
    str | None, typer.Option(metavar="SPAN", help="How long it holds: 90s, 30m, 12h or 7d.")
]
ExpiresAt = Annotated[
    str | None, typer.Option(metavar="TIME", help="When it ends (RFC 3339), instead of a span.")
]
OfContent = Annotated[
    str | None,
    typer.Option(
        metavar="sha256:HEX", help="Only for the body with this digest, which its decision records."
    ),
]
OverrideId = Annotated[
    str | None, typer.Option("--id", help="The override's id; Sluice makes one if it is left out.")
]


def override(  # noqa: PLR0913 - the command's options
    *,
    item: Annotated[str, typer.Option(help="The item's item_id.")],
    tenant: Annotated[str, typer.Option(help="The tenant whose agents may read it.")],
    justification: Annotated[str, typer.Option(help="At least 10 characters; it stays in the ledger.")],
    approver: Annotated[str, typer.Option("--approver", "--as", help="Your id in the registry.")],
    key: Annotated[Path, typer.Option(metavar="PEM", help="Your private key, to sign with.")],
    expires_in: ExpiresIn = None,
    expires_at: ExpiresAt = None,
    agent: Annotated[str | None, typer.Option(help="Only for this agent.")] = None,
    session: Annotated[str | None, typer.Option(help="Only in this session.")] = None,
    body_digest: OfContent = None,
    override_id: OverrideId = None,
    yes: Annotated[bool, typer.Option("--yes", help="Sign and publish without asking.")] = False,
    as_json: AsJson = False,
) -> None:
    """Let an item be read although it failed the quality gate.

    The override is published as an entry of the registry. Until it expires
    (after 30 days at the latest), the item is flagged where its quality
    would have it denied or downgraded. It never overrides access, known bad
    items, or findings in the content. It needs an approver with the role
    "approver" or "vp". A newer revision with "active" false revokes it:
    `sluice registry`.

    Exit codes: 0 it is in force, 1 it is refused or not valid, 2 could
    not do it.

    Example: sluice quality override --item doc-17 --tenant acme
    --expires-in 8h --approver ann --key ann.pem
    --justification "read it, the price list still holds"
    """
    keys = require_private_keys([key])
    spec = {
        "tenant_id": tenant,
        "item_id": item,
        "agent_id": agent,
        "session_id": session,
        "body_digest": body_digest,
        "approver_id": approver,
        "expires_at": rfc3339(_compute_end(expires_in, expires_at, time.time_ns() // 1_000_000)),
        "justification": justification,
    }
    entry = _check_entry(override_id or f"override-{uuid4()}", spec)
    _show(entry)
    if not yes:
        typer.confirm("Sign and publish this?", abort=True, err=True)
    publish_values(sign_entries([entry], keys, separately=True), REGISTRY, as_json=as_json)


def _compute_end(expires_in: str | None, expires_at: str | None, now_ms: int) -> int:
    if (expires_in is None) == (expires_at is None):
        stop("say when it expires: --expires-in or --expires-at")
    if expires_in is not None:
        span = parse_span(expires_in)
        if span is None:
            stop(f"--expires-in: not 90s, 30m, 12h or 7d: {expires_in}")
        return _check_bounds(now_ms + span, f"--expires-in: {expires_in}", now_ms)
    ends = parse_instant(expires_at or "")
    if ends is None:
        stop(f"--expires-at: not an RFC 3339 date-time: {expires_at}")
    return _check_bounds(ends, f"--expires-at: {expires_at}", now_ms)


def _check_bounds(ends_ms: int, text: str, now_ms: int) -> int:
    """Before anything is made of it: years beyond the calendar's have no name."""
    if ends_ms <= now_ms:
        stop(f"{text} has passed", WRONG)
    if ends_ms > now_ms + LONGEST_OVERRIDE_MS:
        stop(f"{text} is too late: an override of now ends by {rfc3339(now_ms + LONGEST_OVERRIDE_MS)}")
    return ends_ms


def _check_entry(override_id: str, spec: dict[str, Any]) -> EntryFile:
    entry = {"kind": "quality_override", "id": override_id, "revision": 1, "spec": spec}
    try:
        (checked,) = check_entries(orjson.dumps({"entries": [entry]}))
    except RegistryError as error:
        stop(str(error), WRONG)
    return checked


def _show(entry: EntryFile) -> None:
    errors.print(f"to be signed: {clean(entry.kind)} {clean(entry.id)}@{entry.revision}", highlight=False)
    for name, value in entry.spec.items():
        if value is not None:
            errors.print(f"  {name}: {clean(value)}", soft_wrap=True, highlight=False)


def promote(
    content_class: Annotated[str, typer.Argument(metavar="CLASS", help="The class to enforce.")],
    from_: From = None,
    *,
    bundle: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A quality bundle instead of the one in force.")
    ] = None,
    id_: Annotated[
        str | None,
        typer.Option("--id", help="The id of the quality bundle in force; without it the default one."),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="File for the next revision.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON value on standard output.")] = False,
) -> None:
    """Check whether a class in flag-only may be enforced, by the bundle's criteria.

    The criteria are the days and decisions in the ledger since flag-only
    began, the share that would have been denied, and that classes of lower
    impact come first. Only decisions under revisions with the same tables
    for the class count (with --bundle: under exactly that document), and
    only at tiers where the class can be denied, because the others show
    nothing about false denies. If all criteria are met, --out gets the next
    revision, in which this class is enforced: read it, then use
    `sluice bundle sign` and `sluice bundle publish`.

    Exit codes: 0 every criterion is met, 1 one is not, 2 could not do it.
    """
    quality, revisions = _find_in_force(id_) if bundle is None else (_read_file(bundle), ())
    if content_class not in quality.file.rollout:
        classes = ", ".join(sorted(quality.file.rollout))
        stop(f"{quality.key} has no class {content_class}; it has {classes}", WRONG)
    alike = find_alike(quality, content_class, revisions)
    observed = ObservedDecisions(quality, content_class, alike)
    read_or_stop((QUALITY_DECISIONS,), {DECISION: observed.count_decision}, from_)
    criteria = judge_criteria(quality, content_class, observed)
    met = all(criterion.met for criterion in criteria)
    if as_json:
        print_json(
            {"bundle": quality.key, "class": content_class, "met": met, "criteria": _build_fields(criteria)}
        )
    else:
        _print(quality, content_class, criteria)
    if not met:
        raise typer.Exit(WRONG)
    if out is not None:
        _write(
            out,
            make_promoted(quality, content_class, time.time_ns() // 1_000_000, describe_criteria(criteria)),
        )


def _build_fields(criteria: tuple[Criterion, ...]) -> list[dict[str, object]]:
    return [criterion._asdict() for criterion in criteria]


def _print(quality: QualityBundle, content_class: str, criteria: tuple[Criterion, ...]) -> None:
    met = {True: "[green]met[/]", False: "[bold red]not met[/]"}
    rows = ((each.name, clean(each.found), each.needed, met[each.met]) for each in criteria)
    title = clean(f"{content_class}, {quality.key}")
    console.print(build_table(*fold("criterion", "found", "needed", ""), rows=rows, title=title))


def _write(out: Path, document: bytes) -> None:
    write_file(out, document)
    for failure in run_quality_cases(load_quality_bundle(document)):
        errors.print(f"[yellow]its case comes out otherwise now:[/] {clean(failure)}", soft_wrap=True)
    next_step = f"written: {clean(out)}; to sign: sluice bundle sign {clean(out)} --key PEM --out SIGNED"
    errors.print(next_step, soft_wrap=True, highlight=False)


def _read_file(file: Path) -> QualityBundle:
    try:
        return load_quality_bundle(require_document(file))
    except BundleError as error:
        stop(f"{file}: {error}", WRONG)


def _find_in_force(asked_for: str | None) -> tuple[QualityBundle, Sequence[QualityBundle]]:
    """The revision in force, and every one of the bundle that ever was."""
    name = asked_for or require_settings().policy.default_quality_bundle
    reduced = require_policy()
    bundle = reduced.quality.get(name) or stop(f"the quality bundle {name} is not in force", WRONG)
    every = [entry.quality for entry in reduced.entries.values() if entry.quality is not None]
    return bundle, [quality_bundle for quality_bundle in every if quality_bundle.id == name]
