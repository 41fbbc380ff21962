"""Why a record of a control topic does not count, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from app.core.foundation.arrival import Arrival

Code = Literal[
    "tombstone",
    "too_large",
    "unsigned",
    "stripped",
    "wrong_payload_type",
    "unknown_key",
    "wrong_signature",
    "key_not_allowed",
    "second_approver_missing",
    "key_mismatch",
    "invalid_bundle",
    "invalid_entry",
    "cases_failed",
    "older_revision",
    "revision_conflict",
    "change_conflict",
    "change_refused",
    "incomplete_change",
]


@dataclass(frozen=True, slots=True)
class Reason:
    """`path`: the place in the envelope, or behind the signature in its payload."""

    code: Code
    path: str
    message: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A record that does not count. What was in force before it still is.

    `at_offset`: of its topic, where the fold was when it was refused: its own, or that of the record that
    broke its change. Refusals of a topic come in this order, whatever is published after. `approvers`: those
    who signed it and might; nobody where that is the reason.
    """

    arrival: Arrival
    reason: Reason
    at_offset: int
    approvers: frozenset[str] = frozenset()

    @property
    def code(self) -> Code:
        """What kind of refusal it is."""
        return self.reason.code

    @property
    def path(self) -> str:
        """The place in the record."""
        return self.reason.path

    @property
    def message(self) -> str:
        """One sentence for the person who published it."""
        return self.reason.message

    @property
    def final(self) -> bool:
        """Whether no later record can change it: what waits for the rest of its change may still count."""
        return self.code != "incomplete_change"

    def __str__(self) -> str:
        """Coordinates, code, place and sentence on one line."""
        return f"{self.arrival.decision_id} {self.code} at {self.path}: {self.message}"
