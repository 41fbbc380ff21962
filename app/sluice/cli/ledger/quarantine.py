"""`sluice quarantine`: memories that wait for a reviewer. List them, show one whole, approve or reject it."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluice.cli.ledger.pending_lines import print_memories, print_memory
from sluice.cli.ledger.pending_subjects import (
    connect,
    fetch_memory,
    require_place,
    require_waiting,
    run_question,
    write_model,
)
from sluice.cli.ledger.quarantine_counts import stats
from sluice.cli.ledger.reviews import (
    Approver,
    Key,
    Sending,
    Wait,
    Why,
    Yes,
    print_to_sign,
    require_signed,
    send_review,
)
from sluice.cli.output import WRONG, errors, print_json, read_clock_ms, stop
from sluice.cli.policy.key_files import require_private_keys
from sluice.core.foundation.clock import read_milliseconds
from sluice_topics.catalog import QUARANTINE

if TYPE_CHECKING:
    from sluice.cli.ledger.pending_subjects import WholeMemory
    from sluice.core.reports.pending_subject import PendingSubject

cli = typer.Typer(
    name="quarantine",
    no_args_is_help=True,
    help="Memories that wait for a reviewer: list and show them, decide on one, count them. A quarantined "
    "memory is a normal outcome of a write; without a review it expires.",
)
cli.command()(stats)
BEGINNING = 600
"""Characters of the content that are shown before signing."""
Memory = Annotated[
    str,
    typer.Argument(metavar="MEMORY_ID", help="As `list` shows it, or partition:offset of its write: 3:17."),
]
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
    memories = require_waiting(QUARANTINE, criteria)
    now = read_clock_ms()
    if as_json:
        print_json([_build_row(memory, now) for memory in memories])
    else:
        print_memories(memories, now)


@cli.command()
def show(memory: Memory, as_json: AsJson = False) -> None:
    """Show one memory whole: decision, trust score, findings, events, content.

    The command fetches the content from the input topic and checks it
    against the digest in the ledger. It shows invisible characters as code
    points, like <U+202E>.

    Exit codes: 0 shown, 1 the id is unknown, 2 could not read.
    """
    whole = run_question(fetch_memory(connect(), require_place(memory)))
    if whole.decision is None and whole.subject is None:
        stop(f"nothing was decided under {whole.memory_id}", WRONG)
    if as_json:
        print_json(_build_whole(whole))
    else:
        print_memory(whole, read_clock_ms())


class ReviewWord(StrEnum):
    """What a reviewer may say of a memory."""

    approve = "approve"
    reject = "reject"


@cli.command()
def review(  # noqa: PLR0913 - the command's options
    memory: Memory,
    decision: ReviewWord,
    *,
    approver: Approver,
    key: Key,
    justification: Why,
    yes: Yes = False,
    wait: Wait = 30,
    as_json: Annotated[bool, typer.Option("--json", help="The outcome as one JSON value.")] = False,
) -> None:
    """Approve or reject a held memory, signed by a registered reviewer.

    The command shows what you will sign, asks you, signs, publishes to
    gate.reviews and waits for the ledger's answer. The signature is bound
    to the content's digest and counts once. An approved memory is released
    to gate.memory.admitted. The author of a memory cannot review it.

    Exit codes: 0 the review took effect; 1 it was refused (not held,
    expired, not a reviewer, wrong signature) or you did not sign; 2 could
    not do it, or no answer came in time: `show` has the result later.

    Example: sluice quarantine review 3:17 reject --as bob --key bob.pem
    --justification "an instruction to send keys away"
    """
    coordinates = require_place(memory)
    (signer,) = require_private_keys([key])
    kafka = connect()
    whole = run_question(fetch_memory(kafka, coordinates))
    subject = whole.subject
    if subject is None or subject.status != "waiting":
        stop(f"{whole.memory_id} is not held: {whole.state}", WRONG)
    if whole.content is None and decision is ReviewWord.approve:
        stop(f"nobody can approve what nobody can read: {whole.no_content}")
    signed = require_signed(subject.write_answer(decision.value, approver, justification), signer)
    print_memory(whole, read_clock_ms(), to=errors, most=BEGINNING)
    print_to_sign(signed)
    how = Sending(kafka, "quarantine", "memory_id", wait, yes=yes, as_json=as_json)
    send_review(signed, how, str(decision))


def _build_row(memory: PendingSubject, now: int) -> dict[str, Any]:
    return {
        **write_model(QUARANTINE, memory.opened),
        "expires_in_ms": read_milliseconds(memory.opened["expires_at"]) - now,
    }


def _build_whole(whole: WholeMemory) -> dict[str, Any]:
    decision, subject = whole.decision, whole.subject
    return {
        "memory_id": whole.memory_id,
        "state": whole.state,
        "decision": None if decision is None else decision.model_dump(mode="json", by_alias=True),
        "events": [write_model(QUARANTINE, event) for event in (subject.records if subject else ())],
        "content": whole.content,
        "no_content": whole.no_content or None,
    }
