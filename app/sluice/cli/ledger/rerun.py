"""`sluice rerun`: decide again what was decided, and say whether it comes out the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from sluice.adapters.ledger_reruns import rerun_all, rerun_ids, rerun_sample
from sluice.adapters.named_decisions import find_meanings
from sluice.bootstrap.parts import build_decision_settings
from sluice.cli.ledger.archive_source import ArchiveKeys, EvidenceSource, Noted, open_evidence, require_source
from sluice.cli.output import (
    IMPOSSIBLE,
    WELL,
    WRONG,
    clean,
    errors,
    print_json,
    print_parts,
    require_settings,
    stop,
)
from sluice.cli.tables import LINES, build_table, fold
from sluice.core.decide.kinds import DECISIONS
from sluice.core.rerun.rerun_result import EVENT, RerunTally
from sluice.core.trust.in_force import PolicyError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import RenderableType
    from rich.table import Table

    from sluice.adapters.named_decisions import Meaning
    from sluice.core.rerun.policy_then import DecisionSettings
    from sluice.core.rerun.rerun_result import Rerun, Status
    from sluice.core.rerun.walk import LedgerSource
    from sluice.settings.reader import Settings

SHOWN = 50
"""Reruns on the screen; `--json` has all."""
PLURALS = {decision_kind.word: decision_kind.plural for decision_kind in DECISIONS.values()} | {
    EVENT: "other records"
}
_COLOURS = {
    "identical": "green",
    "different": "bold red",
    "other_version": "red",
    "evidence_gone": "yellow",
    "erased": "dim",
}
UNNAMED = "a release that named none"


def build_rerun_parts(tally: RerunTally, most: int = SHOWN) -> Iterator[RenderableType]:
    """A row for each difference and each missing thing of the first `most` reruns, and sentences."""
    if tally.reruns:
        yield _build_table(tally.reruns[:most])
    sentences = [_write_sentence(kind, of) for kind, of in tally.by_kind.items() if any(of.values())]
    if not sentences:
        yield "[yellow]The ledger holds no decision.[/]"
        return
    rest = f"; the first {most} are shown, --json has all" if len(tally.reruns) > most else ""
    yield f"{'; '.join(sentences)}{rest}"
    for what, count in tally.not_checked.items():
        yield f"[yellow]not checked in {count}:[/] {clean(what)}"
    for by, again in sorted(_collect_versions(tally.reruns)):
        yield f"decided by {clean(by)}, executed again by {clean(again)}"


def _write_sentence(kind: str, counts: dict[Status, int]) -> str:
    parts = [
        f"[{_COLOURS[name]}]{count} {name.replace('_', ' ')}[/]" for name, count in counts.items() if count
    ]
    return f"{PLURALS[kind]}: {', '.join(parts)} of {sum(counts.values())}"


def _collect_versions(reruns: list[Rerun]) -> set[tuple[str, str]]:
    """Collect the versions of the code under which decisions came out otherwise."""
    others = [rerun for rerun in reruns if rerun.status == "other_version"]
    return {(rerun.decided_by or UNNAMED, rerun.executed_by or UNNAMED) for rerun in others}


def _build_table(reruns: Iterable[Rerun]) -> Table:
    """A row for each difference and each missing thing."""
    rows = (
        (
            clean(rerun.id),
            f"[{_COLOURS[rerun.status]}]{rerun.status.replace('_', ' ')}[/]",
            *map(clean, cells),
        )
        for rerun in reruns
        for cells in _build_rows(rerun)
    )
    return build_table(*fold("decision", "rerun", "field", "recorded", "now"), rows=rows, box=LINES)


def _build_rows(rerun: Rerun) -> list[tuple[object, object, object]]:
    if rerun.missing:
        return [(missing, "-", "gone") for missing in rerun.missing]
    return [(each.field, each.recorded, each.rerun) for each in rerun.differences] or [("-", "-", "-")]


GONE = 3
OTHER_VERSION = 4
_Ids = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[ID]...", help="Ids of actions, writes, requests, verdicts, escalations, memories or items."
    ),
]
_Every = Annotated[bool, typer.Option("--all", help="Every decision of the ledger.")]
_Sample = Annotated[int | None, typer.Option(min=1, help="Only this number of the ledger's decisions.")]
_Seed = Annotated[int, typer.Option(help="The seed by which --sample chooses.")]
_Json = Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")]


def register(cli: typer.Typer) -> None:
    """Add the verb to the command."""
    cli.command(name="rerun")(rerun_command)


def rerun_command(  # noqa: PLR0913 - options of a command
    ids: _Ids = None,
    *,
    every: _Every = False,
    sample: _Sample = None,
    seed: _Seed = 0,
    from_: EvidenceSource = None,
    noted: Noted = None,
    archive_key: ArchiveKeys = None,
    json: _Json = False,
) -> None:
    """Execute decisions again, and compare field by field.

    Decisions are verdicts on actions, decisions on memory writes and on
    retrieved items. The command reads the input by its coordinates, takes
    the bundles and registry entries that were in force then, and the
    bundle's order of gates. It takes session, source, parents, provenance
    and the models' answers from the record. Then the same code decides
    again. Nothing is written.

    Identical: all fields are the same, except for durations and the place
    in the ledger. Different: the answer names the field with both values.
    Evidence gone: the answer names what is no longer there, such as an
    input past its retention, or a gate that only another installation has.

    An id of a caller means every decision that names it. If no decision
    names an id, the answer says that it was never seen; this is not
    "evidence gone".

    --all also recounts each session from its inputs and compares it with
    the records. It reports second decisions on one input, and inputs that
    were decided but have no record.

    --from reads an archive in place of the broker, with what the broker has
    deleted since: a folder or s3://BUCKET/PATH (sluice archive). Or it reads
    an audit package's file (sluice audit), under the settings that it names.

    Other version: a difference in a decision that other code made than the
    code that runs here; the answer names both versions.

    Exit codes: 0 all identical; 1 differences; 4 only differences of other
    versions; 3 evidence gone and no difference; 2 could not do it, for
    example because an id was never seen.

    Examples: sluice rerun a-17, sluice rerun verdict:gate.actions.proposed:3:17
    """
    if [bool(ids), every, sample is not None].count(True) != 1:
        stop("give ids, or --all, or --sample N")
    settings = require_settings()
    settings, source = open_evidence(settings, from_, noted, archive_key)
    meant = require_source(find_meanings(source, ids)) if ids else []
    unknown = [meaning for meaning in meant if not meaning.decisions]
    decisions = [decision for named in meant for decision in named.decisions]
    tally = RerunTally(keep_identical=bool(ids))
    if decisions or not ids:
        _require_reruns(settings, source, tally, _Chosen(decisions, sample, seed))
    _print_unknown(unknown)
    if json:
        print_json(_build_fields(tally) | {"unknown": {meaning.name: meaning.why for meaning in unknown}})
    elif decisions or not ids:
        print_parts(build_rerun_parts(tally))
    raise typer.Exit(_choose_status(tally, unknown))


def _choose_status(tally: RerunTally, unknown: list[Meaning]) -> int:
    if tally.counts["different"]:
        return WRONG
    if unknown:
        return IMPOSSIBLE
    if tally.counts["other_version"]:
        return OTHER_VERSION
    return GONE if tally.counts["evidence_gone"] else WELL


class _Chosen(NamedTuple):
    """Which decisions: of these ids, or a sample, or (neither) all."""

    ids: list[str]
    sample: int | None
    seed: int


def _print_unknown(unknown: list[Meaning]) -> None:
    """A line on standard error for each name that means no decision."""
    for meaning in unknown:
        errors.print(f"{clean(meaning.name)}: {clean(meaning.why)}", soft_wrap=True, highlight=False)


def _require_reruns(settings: Settings, source: LedgerSource, tally: RerunTally, chosen: _Chosen) -> None:
    """Execute these, a sample, or all, into the tally."""
    try:
        of = build_decision_settings(settings, {})
        require_source(_run_reruns(source, of, tally, chosen))
    except (PolicyError, ValueError) as error:
        stop(str(error))


async def _run_reruns(source: LedgerSource, of: DecisionSettings, tally: RerunTally, chosen: _Chosen) -> None:
    if chosen.ids:
        tally.take(await rerun_ids(source, of, chosen.ids))
    elif chosen.sample is not None:
        tally.take(await rerun_sample(source, of, chosen.sample, chosen.seed))
    else:
        async for rerun in rerun_all(source, of):
            tally.take([rerun])


def _build_fields(tally: RerunTally) -> dict[str, Any]:
    counts = {str(name): count for name, count in tally.counts.items()}
    return {
        **counts,
        "by_kind": tally.by_kind,
        "not_checked": tally.not_checked,
        "reruns": tally.list_kept_fields(),
    }
