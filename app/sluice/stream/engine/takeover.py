"""What a worker checks before it takes partitions over: neither their state nor the policy is older than it
was."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.stream.engine.crash_guard import RESERVED_KEY, STATE_VERSION, read_state_version
from sluice.stream.process import EXIT_POLICY, Explained

if TYPE_CHECKING:
    from aiokafka import TopicPartition

    from sluice.core.trust.policy_contents import EditionDifference
    from sluice.stream.engine.owned import AskEnd, FindEnd
    from sluice.stream.engine.partition import Partition
    from sluice.stream.engine.sessions import PartitionedStore

log = logging.getLogger(__name__)

TellGroup = Callable[[Mapping["TopicPartition", int]], Coroutine[None, None, None]]
MOST_LINES = 20
"""Lost entries in the log; the fault itself names fewer."""
MOST_NAMED = 2
_SHORT = 40


@dataclass(frozen=True, slots=True)
class Recovered:
    """The state found on the broker, and by partition number and input topic (base name) the end offset and
    the group's committed offset. `find_end` returns an input topic's end as of the last fetch; `ask_end`
    asks the broker for it; `tell_group` commits the group's offsets; during a rebalance it does nothing."""

    store: PartitionedStore
    ends: Mapping[int, Mapping[str, int]]
    committed: Mapping[int, Mapping[str, int]]
    find_end: FindEnd
    ask_end: AskEnd
    tell_group: TellGroup


class StateBehind(Explained):
    """The recovered state is older than the group's committed offsets: a changelog was lost or cut."""


class StateTooNew(Explained):
    """The recovered state was written by a later release in a form that this one does not read."""


class PolicyLost(Explained):
    """The control topics hold less than what was in force, and nobody has accepted that."""

    status = EXIT_POLICY

    def __init__(self, lost: Iterable[EditionDifference]) -> None:
        """`lost`: at least one entry."""
        self.lost = tuple(lost)
        shown = ", ".join(_describe(difference) for difference in self.lost[:MOST_NAMED])
        more = f" and {len(self.lost) - MOST_NAMED} more" if len(self.lost) > MOST_NAMED else ""
        super().__init__(
            f"policy that was in force is missing: {shown}{more}; publish the signed files again, or let two "
            "people accept the loss: sluice registry accept-loss (docs/policy.md)"
        )

    def tell(self) -> None:
        """Log each lost entry, up to a bound."""
        for difference in self.lost[:MOST_LINES]:
            log.error("policy lost: %s", _describe(difference))
        if len(self.lost) > MOST_LINES:
            log.error("policy lost: and %d more entries", len(self.lost) - MOST_LINES)


def _describe(difference: EditionDifference) -> str:
    """In words, its name shortened."""
    return str(
        difference
        if len(difference.name) <= _SHORT
        else difference._replace(name=f"{difference.name[:_SHORT]}…")
    )


def refuse_if_newer(number: int, table: Mapping[bytes, bytes]) -> None:
    """Raise StateTooNew if a later release has written the state of this partition in a form of its own."""
    version = read_state_version(table.get(RESERVED_KEY))
    if version > STATE_VERSION:
        raise StateTooNew(
            f"partition {number}: a later release has decided here, whose state has version {version}; this "
            f"one reads up to {STATE_VERSION}: start workers of that release (docs/upgrades.md)"
        )


def refuse_if_behind(partition: Partition, committed: Mapping[str, int]) -> None:
    """Raise StateBehind if state is behind the offsets. Both commit together, so offsets are never ahead of
    state."""
    for topic, offset in committed.items():
        if offset > partition.positions()[topic]:
            position = partition.positions()[topic]
            raise StateBehind(
                f"partition {partition.number}, {topic}: the group committed offset {offset}, the changelog "
                f"ends at {position}; restore the changelog topic before deciding anything"
            )
