"""`sluice audit activity | approvals | policy | models | overrides | undecided`: an auditor's questions; and
`sluice audit check`: whether a report of one holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from sluice.adapters.ledger_questions import (
    SignedHead,
    TooManyRows,
    ask_ledger,
    list_policy_changes,
    prove_answer,
)
from sluice.cli.ledger.archive_source import ArchiveKeys, EvidenceSource, Noted, open_evidence, require_source
from sluice.cli.ledger.audit_check import check_command
from sluice.cli.ledger.audit_output import print_json_rows, print_rows, write_csv
from sluice.cli.ledger.audit_report import SIGNATURE, ReportBasis, sign_report, write_report
from sluice.cli.ledger.tree_heads import require_head_series
from sluice.cli.output import (
    CANNOT_READ,
    WRONG,
    Since,
    Until,
    clean,
    errors,
    parse_moment,
    read_clock_ms,
    require_settings,
    stop,
    write_file,
)
from sluice.cli.policy.control_topics import require_roots
from sluice.cli.policy.key_files import require_private_keys
from sluice.core.cases.cases import run_cases
from sluice.core.reports.audit_questions import QUESTIONS
from sluice.core.reports.audit_rows import AuditScope
from sluice.core.trust.compile_cache import CompileCache
from sluice.core.trust.reduction import reduce_policy
from sluice.core.trust.tree_heads import HeadRefused, LedgerBroken
from sluice.text.plurals import count_noun
from sluice_topics.catalog import TREE_HEADS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sluice.adapters.ledger_questions import ProvenAnswer
    from sluice.core.reports.audit_rows import AuditQuestion, PolicyChange
    from sluice.core.rerun.walk import LedgerSource
    from sluice.core.trust.tree_heads import HeadSeries
    from sluice.settings.reader import Settings

_EXAMPLES = {
    "activity": "--agent clerk-7 --since 2026-11-01 --until 2026-12-01",
    "approvals": "--since 7d --csv approvals.csv",
    "policy": "--since 30d",
    "models": "--agent clerk-7 --json",
    "overrides": "--tenant acme --since 30d --report overrides.html --key auditor.pem",
    "undecided": "--since 24h",
}
_SAYS = {
    "activity": "Show everything that one agent did: what it wanted, what was decided, what came of it.",
    "approvals": "Show who approved or rejected what, alone or with whom, and through which delegate.",
    "policy": "Show what changed in policy, who signed it, and how decisions came out before and after.",
    "models": "Show every decision that a model shaped: what it said, and whether that decided.",
    "overrides": "Show every override: approvals, reviews, grants, thaws, relaxations, shadow mode.",
    "undecided": "Show what was not decided: refused and unread inputs, time-outs, gates that only observed.",
}


class _Output(NamedTuple):
    """Where an answer goes besides the screen."""

    json: bool
    csv: Path | None
    report: Path | None
    key: Path | None
    head_keys: Sequence[str]


class _Signing(NamedTuple):
    """The report's file, the private key that signs it, and whose tree heads count beside the settings'."""

    file: Path
    key: Path
    head_keys: Sequence[str]


class _LedgerLocation(NamedTuple):
    """Where the ledger is read."""

    from_: str | None
    noted: str | None
    archive_key: list[str] | None


def register(cli: typer.Typer) -> None:
    """Add the verbs to the group."""
    for name in QUESTIONS:
        verb = _make_verb(name)
        cli.command(name=name)(verb)
    cli.command(name="check")(check_command)


def _make_verb(name: str) -> Callable[..., None]:
    question = QUESTIONS[name]

    def ask(  # noqa: PLR0913 - options of a command
        *,
        agent: Annotated[str | None, typer.Option(metavar="ID", help="Only this agent's records.")] = None,
        tenant: Annotated[str | None, typer.Option(metavar="ID", help="Only this tenant's records.")] = None,
        since: Since = None,
        until: Until = None,
        from_: EvidenceSource = None,
        noted: Noted = None,
        archive_key: ArchiveKeys = None,
        json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
        csv: Annotated[
            Path | None, typer.Option("--csv", metavar="FILE", help="Write the rows to this file.")
        ] = None,
        report: Annotated[
            Path | None, typer.Option(metavar="FILE", help="Write a signed page with proofs; with --key.")
        ] = None,
        key: Annotated[
            Path | None, typer.Option(metavar="PEM", help="The private key that signs the report.")
        ] = None,
        head_key: Annotated[
            list[str] | None,
            typer.Option(metavar="KEY", help="Public key, base64, whose tree heads prove a report's rows."),
        ] = None,
    ) -> None:
        if question.needs_agent and agent is None:
            stop("name the agent: --agent ID")
        span = parse_moment(since, "--since"), parse_moment(until, "--until")
        output = _Output(json, csv, report, key, head_key or ())
        _answer(
            name,
            AuditScope.make_between(tenant, agent, *span),
            _LedgerLocation(from_, noted, archive_key),
            output,
        )

    ask.__doc__ = f"""{_SAYS[name]}

    The rows come from the ledger's records, in the order of each chain.
    Times are those of the decisions. With --tenant, records that name no
    tenant are left out.

    --report needs --key, and a tree head (sluice ledger sign-heads): it
    writes FILE and its signature FILE{SIGNATURE}; sluice audit check
    checks both.

    Exit codes: 0 answered, 1 the ledger is not what its tree head signs, 2
    could not do it.

    Example: sluice audit {name} {_EXAMPLES[name]}
    """
    return ask


def _answer(name: str, scope: AuditScope, location: _LedgerLocation, output: _Output) -> None:
    if output.report is not None and output.key is None:
        stop("--report needs --key: the private key that signs it")
    settings = require_settings()
    settings, source = open_evidence(settings, *location)
    changes = (
        require_source(_read_changes(settings, source), CANNOT_READ) if QUESTIONS[name].needs_policy else []
    )
    question = QUESTIONS[name](scope, changes)
    if output.report is not None and output.key is not None:
        signing = _Signing(output.report, output.key, output.head_keys)
        _write_report(settings, source, question, signing)
        return
    rows = ask_ledger(source, settings.worker.app_id, question)
    if output.csv is not None:
        require_source(write_csv(rows, question, output.csv), CANNOT_READ)
    elif output.json:
        require_source(print_json_rows(rows, question), CANNOT_READ)
    else:
        require_source(print_rows(rows, question), CANNOT_READ)


async def _read_changes(settings: Settings, source: LedgerSource) -> list[PolicyChange]:
    records = await source.read_policy()
    compiled = CompileCache(run_cases, settings.build_audience())
    return list_policy_changes(reduce_policy(records, require_roots(settings), compiled))


def _write_report(
    settings: Settings, source: LedgerSource, question: AuditQuestion, output: _Signing
) -> None:
    file, (signer,) = output.file, require_private_keys([output.key])
    series = require_head_series(settings, output.head_keys)
    try:
        signed, answer = require_source(_prove(settings, source, question, series), CANNOT_READ)
    except (HeadRefused, LedgerBroken) as error:
        stop(clean(error), WRONG)
    except TooManyRows as error:
        stop(str(error))
    basis = ReportBasis(settings.policy.installation, signed, read_clock_ms())
    page = write_report(question, answer, basis)
    write_file(file, page)
    write_file(Path(f"{file}{SIGNATURE}"), sign_report(question, page, basis, signer))
    rows = count_noun(len(answer.rows), "row")
    message = f"{rows} in {clean(file)}, up to tree head {signed.head.number}; signed beside it"
    newer = f"; newer than it, and left out: {count_noun(answer.newer, 'row')}" if answer.newer else ""
    errors.print(message + newer, soft_wrap=True, highlight=False)


async def _prove(
    settings: Settings, source: LedgerSource, question: AuditQuestion, series: HeadSeries
) -> tuple[SignedHead, ProvenAnswer]:
    signed = None
    async for batch in source.read_inputs((TREE_HEADS,)):
        for record in batch:
            head = series.take(record.value, record.timestamp_ms)
            signed = SignedHead(head, record.value or b"")
    if signed is None:
        stop("there is no tree head: `sluice ledger sign-heads --once` signs one", WRONG)
    return signed, await prove_answer(source, settings.worker.app_id, question, signed)
