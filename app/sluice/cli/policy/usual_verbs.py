"""`sluice usual show | forget`: which destinations an agent usually uses, and making it forget them."""

from __future__ import annotations

import time
from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluice.bootstrap.ledger_reading import read_topics
from sluice.cli.output import (
    WRONG,
    clean,
    console,
    parse_span,
    print_json,
    require_broker,
    require_settings,
    stop,
)
from sluice.cli.policy.control_topics import AsJson, require_policy
from sluice.cli.policy.registry_new import write_entry_or_stop
from sluice.cli.quality_read import From, read_or_stop
from sluice.cli.tables import align_right, build_table, fix, fold
from sluice.core.foundation.clock import rfc3339
from sluice.core.reports.destination_questions import RESOLVED, VERDICT, DestinationQuestions, QuestionCount
from sluice.core.trust.change_log import list_entries_in_force
from sluice_topics.catalog import ESCALATIONS, REGISTRY, USUAL_DESTINATIONS, VERDICTS
from sluice_topics.json_text import parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

Agent = Annotated[str, typer.Argument(metavar="AGENT", help="The agent's id.")]
cli = typer.Typer(
    no_args_is_help=True,
    help="Which destinations agents usually use: show and forget them. What the gate would have asked.",
)


@cli.command()
def show(agent: Agent, as_json: AsJson = False) -> None:
    """List what is counted of an agent: by tool and role the fingerprint of each destination.

    The destinations themselves are not kept: the fingerprints are made with
    the tenant's key (`sluice keys values`).

    Exit codes: 0 shown, 1 nothing is counted of it, 2 could not do it.
    """
    counts = _read_counts(agent)
    if not counts:
        stop(f"nothing is counted of {agent}", WRONG)
    if as_json:
        print_json(counts)
    else:
        console.print(_build_table(counts))


@cli.command()
def forget(
    agent: Agent, out: Annotated[Path, typer.Argument(metavar="OUT", help="A file that does not exist yet.")]
) -> None:
    """Draft the agent's entry anew, so that what it used until now teaches nothing any more.

    The file changes nothing until `sluice registry sign` and `publish`.

    Exit codes: 0 drafted, 2 could not do it.
    """
    entries = list_entries_in_force(require_policy(REGISTRY), REGISTRY)
    statement = next(
        (entry.statement for entry in entries if (entry.kind, entry.statement.id) == ("agent", agent)), None
    )
    if statement is None:
        stop(f"no agent is in force under {agent}")
    written = statement.document
    spec = {**written["spec"], "usual_since": rfc3339(time.time_ns() // 1_000_000)}
    write_entry_or_stop(out, {**written, "revision": written["revision"] + 1, "spec": spec})
    sign = f"sluice registry sign {clean(out)} --key APPROVER.pem --out SIGNED"
    message = f"[green]written[/] {clean(out)}; next: {sign}"
    console.print(message, soft_wrap=True, highlight=False)


@cli.command()
def backtest(
    since: Annotated[str, typer.Option(metavar="SPAN", help="How far back: 12h, 7d.")] = "7d",
    from_: From = None,
    as_json: AsJson = False,
) -> None:
    """Count what the gate `destinations` would have asked while it only observed, by agent and tool.

    For each: the actions that it looked at, how many questions a day, which
    of them people approved or denied whom another gate had asked, what
    another gate blocked, and what was allowed with nobody asked. What people
    denied is what it would have caught.

    Exit codes: 0 counted, 1 it looked at nothing, 2 could not do it.
    """
    span_ms = parse_span(since)
    if span_ms is None:
        stop(f"no span: {since}; it is like 12h or 7d")
    questions = DestinationQuestions(time.time_ns() // 1_000_000 - span_ms)
    sinks = {VERDICT: questions.take_verdict, RESOLVED: questions.take_end}
    read_or_stop([VERDICTS, ESCALATIONS], sinks, from_)
    if not questions.counts:
        stop(
            "the gate destinations looked at no action: no tool has roles, or no bundle names the gate", WRONG
        )
    rows = [_describe_questions(questions, *question) for question in sorted(questions.counts.items())]
    if as_json:
        print_json(rows)
        return
    console.print(build_table(*fold(*rows[0]), rows=(map(clean, row.values()) for row in rows)))


def _describe_questions(
    questions: DestinationQuestions, name: tuple[str, str], count: QuestionCount
) -> dict[str, Any]:
    origins = ", ".join(f"{origin} {times}" for origin, times in sorted(count.origins.items()))
    return {
        "agent": name[0],
        "tool": name[1],
        "judged": count.judged,
        "would_ask": count.asked,
        "a_day": round(questions.count_a_day(count), 1),
        "approved": count.approved,
        "denied": count.denied,
        "blocked": count.blocked,
        "allowed": count.allowed,
        "origins": origins,
    }


def _read_counts(agent: str) -> list[dict[str, Any]]:
    """The newest record of each count of the agent, the last used first."""
    settings, counts = require_settings(), dict[tuple[str, ...], dict[str, Any]]()

    def take(value: bytes | None) -> None:
        record = None if value is None else parse(value)
        if record is not None and record["agent_id"] == agent:
            key = record["tenant_id"], record["tool"], record["role"], record["fingerprint"]
            if counts.get(key, {"revision": 0})["revision"] < record["revision"]:
                counts[key] = record

    require_broker(read_topics(settings, [USUAL_DESTINATIONS], take))
    used = [count for count in counts.values() if count["times"] or count.get("known_until")]
    return sorted(used, key=lambda count: (-_find_newest(count), count["fingerprint"]))


def _find_newest(count: dict[str, Any]) -> int:
    return max(int(count["last_at"]), int(count.get("answered_at") or 0))


def _build_table(counts: Sequence[dict[str, Any]]) -> Table:
    rows = (
        (
            *(clean(count[name]) for name in ("tool", "role", "fingerprint", "times", "days")),
            *(rfc3339(at) if at else "" for at in (count["last_at"], count.get("known_until"))),
        )
        for count in counts
    )
    columns = *fold("tool"), *fix("role", "fingerprint"), *align_right("times", "days")
    return build_table(*columns, *fix("last used", "known by an answer until"), rows=rows)
