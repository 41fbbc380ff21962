"""What the engine tells whoever watches it: the port of metrics and traces.

Every method is called on the worker's loop and must be quick; none may raise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sluice.core.foundation.chain import OutRecord
    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.trust.policy_contents import PolicyContents


class StagedRecord(NamedTuple):
    """A record of a decision. `traceparent`: that of the input that led to it. `answered`: the input, on the
    first record of the decision on it; None on the others, and where time alone led to the decision.
    `staged_ms`: when, ms since 1970 by the worker's clock."""

    record: OutRecord
    traceparent: str | None
    answered: InputRecord | None
    staged_ms: int


@dataclass(frozen=True, slots=True)
class Commit:
    """A transaction that has committed. `taken`: what the observer made of its records, see `note_taken`;
    `took_s`: from the first record sent to the end; `committed_ms`: when, ms since 1970 by the worker's
    clock."""

    taken: object
    took_s: float
    committed_ms: int


@dataclass(frozen=True, slots=True)
class EngineState:
    """What a worker has now, over its open partitions. `lag`: inputs that are published and not decided, by
    topic (base name). `oldest_escalation_ms` and `control_read_ms`: ms since 1970, None: there is none, the
    control topics were not read yet."""

    partitions: int = 0
    in_flight: int = 0
    lag: Mapping[str, int] = field(default_factory=dict)
    entries: int = 0
    state_bytes: int = 0
    quarantined: int = 0
    escalations: int = 0
    oldest_escalation_ms: int | None = None
    control_read_ms: int | None = None


class EngineObserver(Protocol):
    """Sees what a worker does."""

    def note_taken(self, records: Sequence[StagedRecord]) -> object:
        """Records are taken for a transaction, and are not kept; what comes back is given to `note_commit`
        if it commits."""

    def note_commit(self, commit: Commit) -> None:
        """A transaction has committed."""

    def note_state(self, state: EngineState) -> None:
        """What there is now: about once a second, and when the partitions are closed."""

    def note_fenced(self, partitions: int) -> None:
        """So many partitions were taken from their former owners."""

    def note_policy(self, contents: PolicyContents, refused: int) -> None:
        """What is in force from now on, and how many control records do not count."""

    def note_at_hand(self, port: str) -> None:
        """A question's answer was remembered."""

    def note_question(self, port: str, status: str, took_s: float) -> None:
        """A question was asked; `status` as Answer has it."""


class Unobserved:
    """Nobody watches."""

    def note_taken(self, records: Sequence[StagedRecord]) -> object:
        """Nothing."""

    def note_commit(self, commit: Commit) -> None:
        """Nothing."""

    def note_state(self, state: EngineState) -> None:
        """Nothing."""

    def note_fenced(self, partitions: int) -> None:
        """Nothing."""

    def note_policy(self, contents: PolicyContents, refused: int) -> None:
        """Nothing."""

    def note_at_hand(self, port: str) -> None:
        """Nothing."""

    def note_question(self, port: str, status: str, took_s: float) -> None:
        """Nothing."""
