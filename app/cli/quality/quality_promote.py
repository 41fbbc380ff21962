"""`sluice quality promote`: may a class be enforced, and the revision that does it."""

from __future__ import annotations

import time
from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from app.cli.output import (
    WRONG,
    console,
    errors,
    print_json,
    settings_or_stop,
    shown,
    stop,
)
from app.cli.policy.bundle_file import document_or_stop
from app.cli.policy.control_topics import folded_or_stop
from app.cli.quality_read import From, read_or_stop
from app.core.cases.quality_cases import run_quality_cases
from app.core.foundation.errors import BundleError
from app.core.quality_bundle.quality_bundle import load_quality_bundle
from app.core.reports.ledger_values import DECISION
from app.core.reports.promotion import Observed, criteria, judging_alike, promoted, rationale_of
from topics.catalog import QUALITY_DECISIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.core.quality_bundle.quality_bundle import QualityBundle
    from app.core.reports.promotion import Criterion


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
    quality, revisions = _in_force(id_) if bundle is None else (_of_file(bundle), ())
    if content_class not in quality.file.rollout:
        known = ", ".join(sorted(quality.file.rollout))
        stop(f"{quality.key} has no class {content_class}; it has {known}", WRONG)
    alike = judging_alike(quality, content_class, revisions)
    observed = Observed(quality, content_class, alike)
    read_or_stop((QUALITY_DECISIONS,), {DECISION: observed.decision}, from_)
    found = criteria(quality, content_class, observed)
    met = all(one.met for one in found)
    if as_json:
        print_json({"bundle": quality.key, "class": content_class, "met": met, "criteria": _fields(found)})
    else:
        _print(quality, content_class, found)
    if not met:
        raise typer.Exit(WRONG)
    if out is not None:
        _write(out, promoted(quality, content_class, time.time_ns() // 1_000_000, rationale_of(found)))


def _fields(found: tuple[Criterion, ...]) -> list[dict[str, object]]:
    return [one._asdict() for one in found]


def _print(quality: QualityBundle, content_class: str, found: tuple[Criterion, ...]) -> None:
    table = Table(title=shown(f"{content_class}, {quality.key}"), box=None, pad_edge=False)
    for name in ("criterion", "found", "needed", ""):
        table.add_column(name, overflow="fold")
    for one in found:
        met = "[green]met[/]" if one.met else "[bold red]not met[/]"
        table.add_row(one.name, shown(one.found), one.needed, met)
    console.print(table)


def _write(out: Path, document: bytes) -> None:
    try:
        out.write_bytes(document)
    except OSError as error:
        stop(f"cannot write {out}: {error.strerror}")
    for failure in run_quality_cases(load_quality_bundle(document)):
        errors.print(f"[yellow]its case comes out otherwise now:[/] {shown(failure)}", soft_wrap=True)
    next_step = f"written: {shown(out)}; to sign: sluice bundle sign {shown(out)} --key PEM --out SIGNED"
    errors.print(next_step, soft_wrap=True, highlight=False)


def _of_file(file: Path) -> QualityBundle:
    try:
        return load_quality_bundle(document_or_stop(file))
    except BundleError as error:
        stop(f"{file}: {error}", WRONG)


def _in_force(asked_for: str | None) -> tuple[QualityBundle, Sequence[QualityBundle]]:
    """The revision in force, and every one of the bundle that ever was."""
    name = asked_for or settings_or_stop().policy.default_quality_bundle
    folded = folded_or_stop()
    found = folded.quality.get(name) or stop(f"the quality bundle {name} is not in force", WRONG)
    every = [one.quality for one in folded.entries.values() if one.quality is not None]
    return found, [one for one in every if one.id == name]
