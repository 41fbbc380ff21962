"""An escalation as the state keeps it: what waits for a person, who has agreed so far, and how it ended.

Seed 001, Gate 4. It holds the digest and the coordinates of what waits, not its content. Only what is PENDING
can end, and it ends once: TRANSITIONS is the whole of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import orjson

from app.core.foundation.clock import rfc3339
from topics.catalog import RETRIEVALS

if TYPE_CHECKING:
    from collections.abc import Mapping

KEY_PREFIX = b"e:"
Status = Literal["PENDING", "APPROVED", "DENIED", "EXPIRED"]
Event = Literal["approval", "last_approval", "denial", "time", "eviction"]
"""`approval`: one of several that the quorum asks for; `last_approval`: the one that completes it."""
TRANSITIONS: Mapping[tuple[Status, Event], Status] = {
    ("PENDING", "approval"): "PENDING",
    ("PENDING", "last_approval"): "APPROVED",
    ("PENDING", "denial"): "DENIED",
    ("PENDING", "time"): "EXPIRED",
    ("PENDING", "eviction"): "EXPIRED",
}
"""Every other pair is refused: an outcome is final."""


class Vote(NamedTuple):
    """An approver's approval that was counted: its id, "kind/id@revision" and hash of its registry entry, and
    the place of the review, "topic:partition:offset"."""

    approver_id: str
    entry: str
    entry_hash: str
    review: str


class Escalation(NamedTuple):
    """An escalation. `subject_id` is the id that the agent gave to its input, `digest` covers the input's
    bytes at `topic`, `partition` and `offset`: an approval counts for exactly these. Times are broker times,
    ms; `ended_ms` 0 while it is pending. `outcome`: what the approved input came to when it was judged again.
    `justification`: of a retrieval's last approver, for the items that are served because of it.
    """

    escalation_id: str
    verdict_id: str
    subject_id: str
    agent_id: str
    session_id: str
    tenant: str
    tool: str
    digest: str
    tier: str
    role: str
    quorum: int
    topic: str
    partition: int
    offset: int
    opened_ms: int
    expires_ms: int
    votes: tuple[Vote, ...] = ()
    status: Status = "PENDING"
    ended_ms: int = 0
    outcome: str | None = None
    justification: str = ""

    @property
    def is_of_items(self) -> bool:
        """Whether denied items of a retrieval wait, not an action."""
        return self.topic == RETRIEVALS

    @property
    def usable_until_ms(self) -> int:
        """Until when the items of an approved retrieval may be asked for again: for as long as they could
        have waited."""
        return self.ended_ms + self.expires_ms - self.opened_ms

    @property
    def name(self) -> str:
        """Its id among those that wait."""
        return self.escalation_id

    @property
    def key(self) -> bytes:
        """In the table."""
        return KEY_PREFIX + self.escalation_id.encode()

    @property
    def is_pending(self) -> bool:
        """Whether it can still be answered."""
        return self.status == "PENDING"

    def after(self, event: Event, at_ms: int, **changed: Any) -> Escalation:
        """The escalation after an event. Raises ValueError where TRANSITIONS has none."""
        status = TRANSITIONS.get((self.status, event))
        if status is None:
            raise ValueError(f"{self.escalation_id} is {self.status}: {event} is too late")
        ended_ms = 0 if status == "PENDING" else at_ms
        return self._replace(status=status, ended_ms=ended_ms, **changed)

    def encode(self) -> bytes:
        """The form in the table."""
        return orjson.dumps([*self._replace(votes=tuple(map(list, self.votes)))])  # type: ignore[arg-type]

    @classmethod
    def decode(cls, stored: bytes) -> Escalation:
        """What `encode` wrote."""
        fields = cls(*orjson.loads(stored))
        return fields._replace(votes=tuple(Vote(*one) for one in fields.votes))

    def told(self) -> str:
        """How it ended, for a person whose answer came later."""
        how = "" if self.outcome is None else f", and what waited came to {self.outcome}"
        return f"it ended {self.status} at {rfc3339(self.ended_ms)}{how}"


def escalations_in(table: Mapping[bytes, bytes]) -> list[Escalation]:
    """Every escalation of a partition's table, pending or ended."""
    return [Escalation.decode(value) for key, value in table.items() if key.startswith(KEY_PREFIX)]
