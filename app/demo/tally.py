"""What the verdicts come to: who decided and why, counted; and each session's last totals."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from topics.catalog import SESSION_EVENTS, VERDICTS

if TYPE_CHECKING:
    from app.demo.answers import Answered, Answers

NO_GATE = "-"
DUPLICATE = "duplicate"
SETTLED = "sluice/reservation_settled/v1"


class Cause(NamedTuple):
    """`gate`: the first that did not pass, or NO_GATE; `reason`: its words; `kind`: its first word."""

    verdict: str
    gate: str
    kind: str
    reason: str


def cause_of(verdict: dict[str, Any]) -> Cause:
    """Why this verdict, by wire names. An escalation keeps the gate that asked for it."""
    if verdict.get("duplicate_of"):
        return Cause(verdict["verdict"], NO_GATE, DUPLICATE, "seen before, counted once")
    failed = next((gate for gate in verdict["gateResults"] if not gate["passed"]), None)
    reason = (failed or {}).get("failureReason") or verdict.get("blockReason") or ""
    gate = NO_GATE if failed is None else failed["gate"]
    return Cause(verdict["verdict"], gate, reason.partition(":")[0], reason)


def counted(answers: Answers) -> list[tuple[Cause, int]]:
    """How many verdicts of each word, gate and kind of reason; an example's reason in each."""
    counts: Counter[tuple[str, str, str]] = Counter()
    examples: dict[tuple[str, str, str], Cause] = {}
    for one in answers.of(VERDICTS):
        cause = cause_of(one.body)
        counts[cause[:3]] += 1
        examples.setdefault(cause[:3], cause)
    return [(examples[key], counts[key]) for key in sorted(counts, key=lambda key: (key[0], -counts[key]))]


def examples_of(answers: Answers, each: int) -> list[Answered]:
    """Up to `each` verdicts of every word, gate and kind, of different tools, in the order of `counted`."""
    order = [cause[:3] for cause, _ in counted(answers)]
    chosen: dict[tuple[str, str, str], dict[str, Answered]] = {key: {} for key in order}
    # From the end, where the ordinary sessions are; the growing ones are shown by themselves.
    for one in reversed(list(answers.of(VERDICTS))):
        found = chosen[cause_of(one.body)[:3]]
        if len(found) < each:
            found.setdefault(one.planned.fields["toolName"], one)
    return [one for found in chosen.values() for one in found.values()]


@dataclass
class SessionTally:
    """A session's verdicts by word, and the totals that its last ledger record left."""

    session_id: str
    verdicts: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    actions: int = 0
    sequence: int = 0

    def totals(self, sequence: int, rows: int, actions: int | None) -> None:
        """These totals, unless a later record has spoken already; `actions` None: unchanged."""
        if actions is not None:
            self.actions = max(self.actions, actions)
        if sequence > self.sequence:
            self.sequence, self.rows = sequence, rows


def by_session(answers: Answers) -> list[SessionTally]:
    """In the order in which the sessions began."""
    tallies: dict[str, SessionTally] = {}
    for one in answers.of(VERDICTS):
        tally = tallies.setdefault(one.planned.session_id, SessionTally(one.planned.session_id))
        tally.verdicts[one.body["verdict"]] += 1
        after = one.body["session"]["after"]
        counts = int(after["aggregateRowsAffected"]), int(after["aggregateActionCount"])
        tally.totals(one.body["sequence"], *counts)
    for one in settled(answers):
        tallies[one.planned.session_id].totals(
            one.body["sequence"], int(one.body["aggregateRowsAffected"]), None
        )
    return list(tallies.values())


def escalations_by_reason(answers: Answers) -> list[tuple[tuple[str, str, str], int]]:
    """How many escalations of each tier, role that may approve and kind of reason; most first."""
    counts = Counter(
        (one["tier"], one["required_role"], one["reason"].partition(":")[0]) for one in answers.escalations
    )
    return counts.most_common()


def settled(answers: Answers) -> list[Answered]:
    """The outcomes that settled a reservation."""
    return [one for one in answers.of(SESSION_EVENTS) if one.body["schema"] == SETTLED]
