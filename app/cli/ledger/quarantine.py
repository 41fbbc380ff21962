"""`sluice quarantine`: what waits for a reviewer, one memory whole, reviews, statistics."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.ledger.held_memories import (
    asked,
    connected,
    life,
    place_or_stop,
    print_life,
    print_waiting,
    waiting,
)
from app.cli.ledger.quarantine_counts import stats
from app.cli.ledger.quarantine_review import Memory, review
from app.cli.output import WRONG, print_json, stop
from app.core.foundation.clock import milliseconds_of

if TYPE_CHECKING:
    from app.cli.ledger.held_memories import Life
    from topics.records import QuarantineEntered

cli = typer.Typer(
    name="quarantine",
    no_args_is_help=True,
    help="Memories that wait for a reviewer: list and show them, decide on one, count them. A quarantined "
    "memory is a normal outcome of a write; without a review it expires.",
)
cli.command()(review)
cli.command()(stats)
AsJson = Annotated[bool, typer.Option("--json", help="One JSON value on standard output.")]


@cli.command("list")
def list_command(
    *,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None,
    agent: Annotated[str | None, typer.Option(help="Only what this agent wrote.")] = None,
    session: Annotated[str | None, typer.Option(help="Only this session's.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what is held now, the oldest first.

    The command reads only gate.quarantine and shows the entries that have
    not ended. "over since" marks a memory whose time is over but whose end
    is not written yet; a review of it no longer counts.

    Exit codes: 0 shown, also when nothing is held; 2 could not read.
    """
    criteria = {"tenant_id": tenant, "agent_id": agent, "session_id": session}
    given = {name: value for name, value in criteria.items() if value is not None}
    held = [
        one
        for one in asked(waiting(connected()))
        if all(getattr(one, name) == value for name, value in given.items())
    ]
    now_ms = _now_ms()
    if as_json:
        print_json([_listed(one, now_ms) for one in held])
    else:
        print_waiting(held, now_ms)


@cli.command()
def show(memory: Memory, as_json: AsJson = False) -> None:
    """Show one memory whole: decision, trust score, findings, events, content.

    The command fetches the content from the input topic and checks it
    against the digest in the ledger. It shows invisible characters as code
    points, like <U+202E>.

    Exit codes: 0 shown, 1 the id is unknown, 2 could not read.
    """
    found = asked(life(connected(), place_or_stop(memory)))
    if found.decision is None and not found.events:
        stop(f"nothing was decided under {found.memory_id}", WRONG)
    if as_json:
        print_json(_whole(found))
    else:
        print_life(found, _now_ms())


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _listed(one: QuarantineEntered, now_ms: int) -> dict[str, Any]:
    return {
        **one.model_dump(mode="json", by_alias=True),
        "expires_in_ms": milliseconds_of(one.expires_at) - now_ms,
    }


def _whole(found: Life) -> dict[str, Any]:
    decision = found.decision
    return {
        "memory_id": found.memory_id,
        "state": found.state,
        "decision": None if decision is None else decision.model_dump(mode="json", by_alias=True),
        "events": [event.model_dump(mode="json", by_alias=True) for event in found.events],
        "content": found.content,
        "no_content": found.no_content or None,
    }
