"""`sluice quarantine review`, and what every command does that signs a review and waits for its outcome."""

from __future__ import annotations

import json
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, NoReturn

import typer
from pydantic import ValidationError

from sluice.adapters.kafka.kafka_publish import Outgoing
from sluice.cli.ledger.quarantined_memories import (
    connect,
    fetch_life,
    print_life,
    require_place,
    run_question,
)
from sluice.cli.output import (
    WELL,
    WRONG,
    clean,
    console,
    errors,
    print_json,
    read_clock_ms,
    require_audience,
    stop,
)
from sluice.cli.policy.key_files import require_private_keys
from sluice.core.foundation.clock import rfc3339
from sluice.core.foundation.strict import first_error
from sluice.core.trust.signing import sign_review
from sluice_topics.catalog import REVIEWS
from sluice_topics.headers import make_input_headers

if TYPE_CHECKING:
    from sluice.adapters.kafka.kafka_publish import PublishedAt
    from sluice.adapters.kafka.kafka_quarantine import KafkaQuarantine, Reviewed
    from sluice.adapters.kafka.kafka_read import StoredRecord
    from sluice.cli.ledger.quarantined_memories import Life
    from sluice.core.registry.keys import SigningKey
    from sluice_topics.records import ReviewDecision


Word = Literal["approved", "rejected", "denied", "counted", "revoked", "expired", "refused", "unreadable"]
TOO_LATE = "expired"
_WORDS: dict[str, Word] = {
    "sluice/quarantine_approved/v1": "approved",
    "sluice/quarantine_rejected/v1": "rejected",
    "sluice/approval_counted/v1": "counted",
    "sluice/retrieval_approval_counted/v1": "counted",
    "sluice/grant_revoked/v1": "revoked",
    "sluice/input_refused/v1": "refused",
    "sluice/dead_letter/v1": "unreadable",
}


DONE = frozenset({"approved", "rejected", "denied", "counted", "revoked"})
_ENDED = frozenset({"sluice/escalation_resolved/v1", "sluice/retrieval_escalation_resolved/v1"})


class Outcome(NamedTuple):
    """`reason` is a code and `message` a sentence; both are empty if the review took effect."""

    word: Word
    reason: str = ""
    message: str = ""

    @property
    def done(self) -> bool:
        """Whether the review counted."""
        return self.word in DONE


def read_outcome(placed: PublishedAt, record: StoredRecord) -> Outcome | None:
    """The outcome of the review at this place, if the record tells it; otherwise None.

    A record that only says that the memory expired does not count: the refusal of the review follows.
    """
    fields = _parse_object(record.value)
    source = fields.get("input")
    if not isinstance(source, dict):
        return None
    if [source.get(name) for name in ("topic", "partition", "offset")] != [
        REVIEWS,
        placed.partition,
        placed.offset,
    ]:
        return None
    schema = str(fields.get("schema"))
    if schema in _ENDED:
        message = str(fields.get("blockReason") or "")
        return Outcome("approved" if fields.get("decision") == "approve" else "denied", "", message)
    word = _WORDS.get(schema)
    if word == "counted":
        again = ", and the count started again" if fields.get("dropped") else ""
        return Outcome(word, "", f"approval {fields['approvals']} of {fields['quorum']}{again}")
    if word is None or word in DONE:
        return None if word is None else Outcome(word)
    reason, message = str(fields.get("reason") or fields.get("code")), str(fields.get("message"))
    return Outcome("expired" if reason == TOO_LATE else word, reason, message)


def _parse_object(value: bytes | None) -> dict[str, Any]:
    try:
        fields = json.loads(value or b"null")
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


BEGINNING = 600
"""Characters of the content that are shown before signing."""

Memory = Annotated[
    str,
    typer.Argument(metavar="MEMORY_ID", help="As `list` shows it, or partition:offset of its write: 3:17."),
]


class ReviewWord(StrEnum):
    """What a reviewer may say of a memory."""

    approve = "approve"
    reject = "reject"


def review(  # noqa: PLR0913 - the command's options
    memory: Memory,
    decision: ReviewWord,
    *,
    approver: Annotated[str, typer.Option("--as", metavar="APPROVER", help="Your id in the registry.")],
    key: Annotated[Path, typer.Option(metavar="PEM", help="Your private key, to sign with.")],
    justification: Annotated[str, typer.Option(help="Why; it stays in the ledger.")],
    yes: Annotated[bool, typer.Option("--yes", help="Sign without asking.")] = False,
    wait: Annotated[float, typer.Option(min=0.1, metavar="S", help="Wait this long for the outcome.")] = 30,
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
    life = run_question(fetch_life(kafka, coordinates))
    signed = require_signed(_require_fields(life, decision, approver, justification), signer)
    print_life(life, read_clock_ms(), to=errors, most=BEGINNING)
    print_to_sign(signed)
    how = Sending(kafka, "quarantine", "memory_id", wait, yes=yes, as_json=as_json)
    send_review(signed, how, str(decision))


def _require_fields(life: Life, decision: ReviewWord, approver: str, justification: str) -> dict[str, str]:
    """Return the fields to sign; a memory that is not held, or cannot be released, ends the command."""
    entered = life.entered
    if entered is None:
        stop(f"{life.memory_id} is not held: {life.state}", WRONG)
    if life.content is None and decision is ReviewWord.approve:
        stop(f"nobody can approve what nobody can read: {life.no_content}")
    return {
        "subject_id": entered.memory_id,
        "session_id": entered.session_id,
        "decision": decision.value,
        "approver_id": approver,
        "digest": entered.content_digest,
        "justification": justification,
    }


def require_signed(fields: dict[str, Any], signer: SigningKey) -> ReviewDecision:
    """A review of these fields with its signature. Ends the command if a field is wrong."""
    try:
        return sign_review(fields, signer, require_audience())
    except ValidationError as error:
        stop(first_error(error))


def print_to_sign(signed: ReviewDecision) -> None:
    """Print what the signature covers, on standard error."""
    errors.print("to be signed:", highlight=False)
    for name, value in signed.model_dump(exclude={"signature"}, exclude_unset=True).items():
        errors.print(f"  {name}: {clean(value)}", soft_wrap=True, highlight=False)


class Sending(NamedTuple):
    """How a review is sent. `verbs` is the group of commands that shows more, `name` the field of the
    review's subject in JSON, `wait` the seconds to wait for the outcome; `yes`: without asking."""

    kafka: KafkaQuarantine
    verbs: str
    name: str
    wait: float
    yes: bool = False
    as_json: bool = False


def send_review(signed: ReviewDecision, how: Sending, verb: str) -> NoReturn:
    """Ask the user, publish the review, wait for its outcome, show it, and end the command."""
    if not how.yes:
        typer.confirm(f"Sign this and {verb}?", abort=True, err=True)
    reviewed = run_question(
        how.kafka.review(_build_outgoing(signed, f"/sluice/{how.verbs}"), read_outcome, how.wait)
    )
    if how.as_json:
        _print_review(how.name, signed, reviewed)
    _end_review(signed.subject_id, reviewed, f"{how.wait:g} s", how.verbs, as_json=how.as_json)


def _build_outgoing(signed: ReviewDecision, source: str) -> Outgoing:
    """A review as it is published; `source` is its ce_source."""
    headers = make_input_headers(signed.subject_id, "ReviewDecision", source, rfc3339(read_clock_ms()))
    return Outgoing(
        signed.session_id.encode(), signed.model_dump_json(exclude_unset=True).encode(), tuple(headers)
    )


def _print_review(name: str, signed: ReviewDecision, reviewed: Reviewed[Outcome]) -> None:
    """A review and its outcome as JSON; `name` is the field of its subject."""
    outcome = reviewed.outcome
    print_json(
        {
            name: signed.subject_id,
            "review": asdict(reviewed.placed),
            "outcome": None if outcome is None else outcome.word,
            "reason": (outcome and outcome.reason) or None,
            "message": (outcome and outcome.message) or None,
        }
    )


def _end_review(
    subject: str, reviewed: Reviewed[Outcome], waited: str, verbs: str, *, as_json: bool
) -> NoReturn:
    """Show the outcome of a review, and end the command."""
    outcome, placed = reviewed.outcome, reviewed.placed
    coordinates = f"{placed.topic}:{placed.partition}:{placed.offset}"
    if outcome is None:
        stop(
            f"the review lies at {coordinates}, but nothing was heard of it for {waited}: does a worker run? "
            f"It may still count: `sluice {verbs} show {subject}`"
        )
    if not outcome.done:
        stop(f"{outcome.word}: {outcome.reason}: {outcome.message} (review {coordinates})", WRONG)
    if not as_json:
        more = f" {clean(outcome.message)}" if outcome.message else ""
        console.print(
            f"[green]{outcome.word}[/]: {clean(subject)} (review {clean(coordinates)}){more}",
            soft_wrap=True,
        )
    raise typer.Exit(WELL)
