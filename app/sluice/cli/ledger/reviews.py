"""A person's answer from a terminal: what every command does that signs one and waits for its outcome."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, NoReturn

import typer
from pydantic import ValidationError

from sluice.cli.ledger.pending_subjects import run_question
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
from sluice.client.exchange import OutgoingInput
from sluice.client.input_kinds import REVIEW
from sluice.core.foundation.clock import rfc3339
from sluice.core.foundation.strict import first_error
from sluice.core.reports.pending_subject import COUNTED, Status, read_status
from sluice.core.trust.signing import sign_review
from sluice_topics.headers import make_input_headers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.adapters.kafka.kafka_quarantine import KafkaQuarantine, Reviewed
    from sluice.core.registry.keys import SigningKey
    from sluice_topics.records import ReviewDecision

Approver = Annotated[str, typer.Option("--as", metavar="APPROVER", help="Your id in the registry.")]
Key = Annotated[Path, typer.Option(metavar="PEM", help="Your private key, to sign with.")]
Why = Annotated[str, typer.Option(help="Why; it stays in the ledger.")]
Yes = Annotated[bool, typer.Option("--yes", help="Sign without asking.")]
Wait = Annotated[float, typer.Option(min=0.1, metavar="S", help="Wait this long for the outcome.")]
Word = Status | Literal["counted", "revoked", "refused", "unreadable"]
TOO_LATE = "expired"
REVOKED = "sluice/grant_revoked/v1"


class Outcome(NamedTuple):
    """`reason` is a code and `message` a sentence; both are empty if the review took effect."""

    word: Word
    reason: str = ""
    message: str = ""

    @property
    def done(self) -> bool:
        """Whether the review counted."""
        return not self.reason


def read_outcome(record: Mapping[str, Any]) -> Outcome:
    """The outcome of a review, by the record that says what became of it."""
    if "refusal_id" in record:
        reason = record["reason"]
        return Outcome("expired" if reason == TOO_LATE else "refused", reason, record["message"])
    if record["schema"] in COUNTED:
        again = ", and the count started again" if record.get("dropped") else ""
        return Outcome("counted", "", f"approval {record['approvals']} of {record['quorum']}{again}")
    if record["schema"] == REVOKED:
        return Outcome("revoked")
    return Outcome(read_status(record), "", record.get("blockReason") or "")


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
    subject = signed.subject_id
    headers = make_input_headers(subject, REVIEW.record, f"/sluice/{how.verbs}", rfc3339(read_clock_ms()))
    value = signed.model_dump_json(exclude_unset=True).encode()
    review = OutgoingInput(REVIEW, subject, signed.session_id, value, headers)
    _end_review(subject, run_question(how.kafka.review(review, subject, how.wait)), how)


def _end_review(subject: str, reviewed: Reviewed, how: Sending) -> NoReturn:
    """Show the outcome of a review, and end the command."""
    outcome = None if reviewed.record is None else read_outcome(reviewed.record)
    if reviewed.flaw is not None:
        outcome = Outcome("unreadable", *reviewed.flaw)
    placed = reviewed.placed
    if how.as_json:
        print_json(
            {
                how.name: subject,
                "review": asdict(placed),
                "outcome": None if outcome is None else outcome.word,
                "reason": (outcome and outcome.reason) or None,
                "message": (outcome and outcome.message) or None,
            }
        )
    coordinates = f"{placed.topic}:{placed.partition}:{placed.offset}"
    if outcome is None:
        stop(
            f"the review lies at {coordinates}, but nothing was heard of it for {how.wait:g} s: does a "
            f"worker run? It may still count: `sluice {how.verbs} show {subject}`"
        )
    if not outcome.done:
        stop(f"{outcome.word}: {outcome.reason}: {outcome.message} (review {coordinates})", WRONG)
    if not how.as_json:
        more = f" {clean(outcome.message)}" if outcome.message else ""
        console.print(
            f"[green]{outcome.word}[/]: {clean(subject)} (review {clean(coordinates)}){more}",
            soft_wrap=True,
        )
    raise typer.Exit(WELL)
