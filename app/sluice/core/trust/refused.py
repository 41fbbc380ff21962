"""The reason why a record of a control topic does not count, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Collection

    from sluice.core.foundation.input_record import InputRecord

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
    "other_installation",
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
    """A reason. `path`: the place in the envelope, or in its payload once the signature is verified."""

    code: Code
    path: str
    message: str


ENOUGH = 2
"""The number of approvers who must agree if one is not enough."""


def demand_second(approvers: Collection[str], why: str) -> Reason:
    """The refusal of what these approvers signed and another one must."""
    description = f"{' and '.join(sorted(approvers))} alone signed it, a second approver must, for {why}"
    return Reason("second_approver_missing", "$.signatures", description)


@dataclass(frozen=True, slots=True)
class Refused:
    """A record that does not count. The policy before it stays in force.

    `at_offset`: the reduction's offset in its topic when it was refused: the record's own, or that of the
    record that broke its change. Refusals of a topic come in this order, whatever is published later.
    `approvers`: those who signed it and were allowed to; empty if that is the reason.
    """

    input_record: InputRecord
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
        """Whether no later record can change the refusal: a record that waits for the rest of its change may
        still count."""
        return self.code != "incomplete_change"

    def __str__(self) -> str:
        """Coordinates, code, place and sentence on one line."""
        return f"{self.input_record.decision_id} {self.code} at {self.path}: {self.message}"
