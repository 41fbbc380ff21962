"""The policy decision point: what the stream engine calls. What a kind of input has of its own is in its row.

Sans-I/O: `evaluate` is a generator that yields a Request where a stage needs one and is resumed with the
Answer; it reads the session's state and never changes it, so it may be abandoned at any yield.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.core.actions.stage import StageOrder
from app.core.decide import faults
from app.core.decide.kinds import BY_MODEL, DECISIONS
from app.core.foundation.chain import OutRecord
from app.core.memory import reviews
from app.core.policy.point import PointParts
from app.core.policy.standing import standings
from app.core.retrieval import alarms
from app.core.state import expiry
from app.core.state.decision import Decision, Shared

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from app.core.actions.stage import Stage
    from app.core.decide.kinds import Message
    from app.core.foundation.arrival import Arrival
    from app.core.foundation.limits import SessionLimits
    from app.core.foundation.requests import Answer, Request
    from app.core.policy.policy import Policy
    from app.core.state.book import Book
    from app.core.state.session import SessionState
    from topics.record_reading import Unreadable

NOTHING_SHARED = Shared()


class DecisionPoint:
    """Decides under one policy. Holds no state of any session."""

    def __init__(
        self,
        policy: Policy,
        stages: Sequence[Stage],
        limits: SessionLimits,
        *,
        stopwatch: Callable[[], int],
        environment: str,
    ) -> None:
        """`stages`: those that there are; each bundle says which of them run, and in what order. `stopwatch`
        returns ns and is only used for durations; `environment` names this installation.

        Raises UnknownStageError for a bundle that names another stage.
        """
        ordered = {one.hash: StageOrder.of(one.stages, stages) for one in policy.bundles.values()}
        self._parts = PointParts(policy, limits, stopwatch, environment, standings(policy), ordered)

    @property
    def policy(self) -> Policy:
        """What it decides under."""
        return self._parts.policy

    def evaluate(
        self, arrival: Arrival, message: Message, state: SessionState, shared: Shared = NOTHING_SHARED
    ) -> Generator[Request, Answer, Decision]:
        """Decide on a readable input. `shared`: what the partition keeps beside its sessions."""
        step = BY_MODEL[type(message)].evaluate(self._parts, arrival, message, state, shared)
        return _asking_nobody(step) if isinstance(step, Decision) else step

    def unreadable(self, arrival: Arrival, error: Unreadable) -> Decision:
        """An input that could not be read: a dead letter, and no session is touched."""
        return faults.unreadable(arrival, error)

    def unread(self, arrival: Arrival) -> Decision:
        """An input that was in flight at three crashes in a row: denied without looking into it."""
        return faults.unread(self._parts, arrival)

    def fault(self, arrival: Arrival, message: Message | None, state: SessionState, reason: str) -> Decision:
        """The core raised on this input (`message` None: while it was read).

        Denied `internal_error`, in standard mode allowed and counted.
        """
        return faults.fault(self._parts, arrival, message, state, reason)

    def expire(self, key: bytes, state: SessionState, now_ms: int) -> Decision | None:
        """What time alone does to a session at `now_ms`; None when nothing is due."""
        return expiry.expire(self._parts.limits, key, state, now_ms)

    def expire_held(self, book: Book, now_ms: int, limit: int) -> Decision | None:
        """What time alone does to a partition's quarantine at `now_ms`; None when nothing is due."""
        return reviews.expired(book, now_ms, limit)

    def judge_again(
        self, arrival: Arrival, message: Message, recorded: Mapping[str, Any]
    ) -> Generator[Request, Answer, list[OutRecord]]:
        """A recorded decision again, from what it says that was seen of state."""
        step = DECISIONS[recorded["schema"]].judge_again(self._parts, arrival, message, recorded)
        return [step if isinstance(step, OutRecord) else (yield from step)]

    def fault_again(
        self, arrival: Arrival, message: Message, recorded: Mapping[str, Any], reason: str
    ) -> list[OutRecord]:
        """The answer where the core raised on that."""
        return faults.fault_again(self._parts, arrival, message, recorded, reason).records

    def alarms(self, book: Book, now_ms: int) -> Decision | None:
        """The alarms of the installation that are due at `now_ms`; None for none."""
        return alarms.alarms(self._parts.policy.quality.values(), book, now_ms)


def _asking_nobody(decision: Decision) -> Generator[Request, Answer, Decision]:
    yield from ()
    return decision
