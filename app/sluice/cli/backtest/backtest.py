"""`sluice backtest`: decide a period of the ledger again under a policy that is not in force."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.adapters.ledger_backtests import count_processors, prepare_backtest, run_backtest
from sluice.bootstrap.parts import build_decision_settings
from sluice.cli.backtest.backtest_page import write_backtest_page
from sluice.cli.backtest.backtest_words import describe_notices, describe_period
from sluice.cli.ledger.archive_source import (
    ArchiveKeys,
    EvidenceSource,
    Noted,
    open_evidence,
    require_source,
)
from sluice.cli.output import (
    WELL,
    WRONG,
    Since,
    Until,
    clean,
    parse_moment,
    parse_span,
    print_json,
    print_parts,
    read_clock_ms,
    require_settings,
    stop,
    write_file,
)
from sluice.cli.tables import align_right, build_table, fold
from sluice.core.backtest.backtest_report import BOUNDS, read_bound
from sluice.core.backtest.partition_backtest import BacktestPeriod
from sluice.core.backtest.report_building import BacktestScope, build_backtest_report
from sluice.core.foundation.clock import rfc3339
from sluice.core.foundation.errors import CoreError
from sluice.core.policy.bundles import Bundle
from sluice.core.quality_bundle.quality_bundle import QualityBundle
from sluice.core.rerun.policy_then import Candidate
from sluice.core.trust.in_force import PolicyError
from sluice.offline.policy_files import PolicyFileError, read_any_unsigned_bundle, read_candidate_entries

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import RenderableType
    from rich.table import Table

    from sluice.adapters.ledger_backtests import Backtest
    from sluice.core.backtest.backtest_report import BacktestReport, BoundName, ChangeBound, OutcomeChange
    from sluice.core.backtest.backtest_tally import BacktestTally
    from sluice.core.rerun.policy_then import DecisionSettings
    from sluice.core.rerun.walk import LedgerSource
    from sluice.settings.reader import Settings

FOREVER_MS = 1 << 62
SHOWN = 20
"""Rows of a table on the terminal; `--json` and `--html` have all."""
_Bound = Annotated[str | None, typer.Option(metavar="N|N%", help="Exit 1 above it; N% of the decisions.")]
_QuestionsBound = Annotated[str | None, typer.Option(metavar="N", help="Exit 1 above it, on any day in UTC.")]
_Bundles = Annotated[
    list[Path] | None,
    typer.Option("--bundle", help="A policy bundle's source, in place of what is in force under its id."),
]
_QualityBundles = Annotated[
    list[Path] | None,
    typer.Option("--quality-bundle", help="A quality bundle's source, likewise."),
]
_Registry = Annotated[
    list[Path] | None,
    typer.Option(help="A registry file: each entry in place of what is in force under its kind and id."),
]
_WarmUp = Annotated[
    str,
    typer.Option(metavar="SPAN", help="How much before --since is read, for the state at its beginning."),
]
_Processes = Annotated[int | None, typer.Option(min=1, help="Partitions at a time; default: the processors.")]
_Html = Annotated[Path | None, typer.Option(metavar="FILE", help="Write one page; it needs no network.")]
_Json = Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")]


def register(cli: typer.Typer) -> None:
    """Add the verb to the command."""
    cli.command(name="backtest")(backtest_command)


def backtest_command(  # noqa: PLR0913 - options of a command
    *,
    bundle: _Bundles = None,
    quality_bundle: _QualityBundles = None,
    registry: _Registry = None,
    since: Since = None,
    until: Until = None,
    warm_up: _WarmUp = "1d",
    from_: EvidenceSource = None,
    noted: Noted = None,
    archive_key: ArchiveKeys = None,
    max_changed: _Bound = None,
    max_newly_allowed: _Bound = None,
    max_newly_stopped: _Bound = None,
    max_unknown: _Bound = None,
    max_questions_per_day: _QuestionsBound = None,
    processes: _Processes = None,
    html: _Html = None,
    json: _Json = False,
) -> None:
    """Decide a period of the ledger again under a policy that is not in force.

    Each recorded input is decided once more, with the bundles and entries
    that you name in place of those in force then. Sessions, escalations,
    quarantine and limits follow from the new decisions. The answers of
    people and models, and what actions did, stay as recorded.

    It shows which decisions change, by gate, tool, agent and tenant; what
    people had answered to questions that are no longer asked, and what
    became of actions that are newly asked about; and the questions for
    people a day, before and after. Nothing is written.

    A decision that needs a model which nobody asked counts as unknown. A
    decision that comes out otherwise under the policy of then too is named
    apart: `sluice rerun` says why.

    Exit codes: 0 within every bound; 1 a bound is exceeded; 2 could not do
    it; 3 no decision of the period could be made again.

    Example: sluice backtest --bundle new.json --since 7d --max-changed 1%
    """
    settings = require_settings()
    texts = (max_changed, max_newly_allowed, max_newly_stopped, max_unknown, max_questions_per_day)
    bounds = _require_bounds(dict(zip(BOUNDS, texts, strict=True)))
    candidate = _require_candidate((*(bundle or ()), *(quality_bundle or ())), registry or ())
    period = _require_period(since, until, warm_up)
    settings, source = open_evidence(settings, from_, noted, archive_key)
    tally = _require_tally(settings, source, candidate, period, processes or count_processors())
    where = from_ or f"the topics {settings.kafka.topic_prefix}gate.* at {settings.kafka.connection}"
    until_ms = None if period.until_ms == FOREVER_MS else period.until_ms
    scope = BacktestScope(candidate, where, period.since_ms or None, until_ms, period.read_ms or None)
    report = build_backtest_report(tally, scope, bounds)
    _write_page(report, html)
    if json:
        print_json(report.model_dump(mode="json", by_alias=True))
    else:
        print_parts(build_backtest_parts(report))
    raise typer.Exit(_choose_status(report))


NOTHING_DECIDED = 3


def _choose_status(report: BacktestReport) -> int:
    if not report.is_within_bounds:
        return WRONG
    return WELL if report.decisions.decided else NOTHING_DECIDED


def build_backtest_parts(report: BacktestReport) -> Iterator[RenderableType]:
    """Tables of what changes and of questions; then what must be known."""
    counts, questions = report.decisions, report.questions
    yield f"[bold]Back-test[/], {clean(describe_period(report))}"
    for name in report.candidate:
        yield f"[dim]{clean(name)}[/]"
    yield (
        f"{counts.decided:,} decided again: {counts.unchanged:,} unchanged, "
        f"[bold]{counts.changed:,} changed[/] ({counts.by_state:,} by totals and other state alone), "
        f"{counts.newly_allowed:,} newly allowed, {counts.newly_stopped:,} newly stopped"
    )
    if report.transitions:
        yield _build_changes("From what to what", None, report.transitions)
        for name, changes in (
            ("gate", report.by_gate),
            ("tool", report.by_tool),
            ("agent", report.by_agent),
            ("tenant", report.by_tenant),
        ):
            yield _build_changes(f"By {name}", name, changes)
    yield (
        f"Questions for people: {questions.before:,} before ({questions.a_day_before:g} a day, at most "
        f"{questions.busiest_day_before:,}), {questions.after:,} after ({questions.a_day_after:g} a day, "
        f"at most {questions.busiest_day_after:,})"
    )
    yield f"no longer asked: {_list_counts(questions.no_longer_asked)}"
    added = questions.newly_asked
    yield (
        f"newly asked: {added.questions:,}, decided then: {_list_counts(added.by_outcome)}; carried out "
        f"then: {added.carried_out:,}, with a reported outcome: {added.outcome_reported:,}"
    )
    for sentence in describe_notices(report):
        yield f"[yellow]{clean(sentence)}[/]"


def _list_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{clean(name)} {count:,}" for name, count in counts.items()) or "none"


def _build_changes(title: str, name: str | None, changes: Sequence[OutcomeChange]) -> Table:
    begin = 0 if name else 1
    rows = (
        (
            *map(clean, (change.name, change.kind.replace("_", " "), change.before, change.after)[begin:]),
            f"{change.decisions:,}",
        )
        for change in changes[:SHOWN]
    )
    headings = (name or "", "kind", "before", "after")[begin:]
    return build_table(*fold(*headings), *align_right("decisions"), rows=rows, title=title)


def _require_bounds(texts: Mapping[BoundName, str | None]) -> dict[BoundName, ChangeBound]:
    try:
        bounds = {name: read_bound(text) for name, text in texts.items() if text is not None}
    except ValueError as error:
        stop(str(error))
    if "questions_per_day" in bounds and bounds["questions_per_day"].is_share:
        stop("--max-questions-per-day takes a number of questions, not a share")
    return bounds


def _require_candidate(bundles: Sequence[Path], registries: Sequence[Path]) -> Candidate:
    if not bundles and not registries:
        stop("which policy? Name a --bundle, a --quality-bundle or a --registry")
    try:
        loaded = [read_any_unsigned_bundle(path) for path in bundles]
        entries = [entry for path in registries for entry in read_candidate_entries(path)]
    except PolicyFileError as error:
        stop(str(error))
    return Candidate(
        {each.id: each for each in loaded if isinstance(each, Bundle)},
        {each.id: each for each in loaded if isinstance(each, QualityBundle)},
        entries,
    )


def _require_period(since: str | None, until: str | None, warm_up: str) -> BacktestPeriod:
    before_ms = parse_span(warm_up)
    if before_ms is None:
        stop(f"--warm-up: no span: {warm_up}; it is like 12h or 7d")
    since_ms, until_ms = parse_moment(since, "--since") or 0, parse_moment(until, "--until") or FOREVER_MS
    if since_ms >= until_ms:
        stop("--since is not before --until")
    return BacktestPeriod(since_ms, until_ms, max(0, since_ms - before_ms))


def _require_tally(
    settings: Settings, source: LedgerSource, candidate: Candidate, period: BacktestPeriod, processes: int
) -> BacktestTally:
    try:
        of = build_decision_settings(settings, {})
        backtest = require_source(_prepare(source, of, candidate, period))
        return require_source(run_backtest(backtest, processes))
    except (CoreError, PolicyError, ValueError) as error:
        stop(str(error))


async def _prepare(
    source: LedgerSource, of: DecisionSettings, candidate: Candidate, period: BacktestPeriod
) -> Backtest:
    backtest = await prepare_backtest(source, of, candidate, period)
    if backtest is None:
        stop("policy.root_keys is empty: nobody can tell which policy was in force")
    missing = {*candidate.bundles, *candidate.quality} - backtest.then.list_bundle_ids()
    if missing and not candidate.entries:
        stop(f"no bundle was ever in force under {', '.join(sorted(missing))}: it would judge nobody")
    return backtest


def _write_page(report: BacktestReport, html: Path | None) -> None:
    if html is not None:
        write_file(html, write_backtest_page(report, rfc3339(read_clock_ms())).encode())
