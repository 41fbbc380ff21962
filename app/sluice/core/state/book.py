"""A partition's state outside its sessions: quarantine, escalations, statistics, and the histories of
sources that it owns.

A decision's changes are values. `apply` applies them in the step in which the decision's records are staged,
and `flush` returns the table's new entries, which go into the same transaction.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from sluice.core.registry.agent_grants import LONGEST_GRANT_MS
from sluice.core.state.escalation import Escalation, decode_escalations
from sluice.core.state.grant import StandingGrant, read_grants
from sluice.core.state.history import KEY_PREFIX as HISTORY_PREFIX
from sluice.core.state.history import History, SourceName
from sluice.core.state.limit_usage import LimitsCharged, LimitsCorrected, LimitUsage
from sluice.core.state.quarantined import QuarantinedMemory, read_quarantined
from sluice.core.state.statistics import NOTHING, Statistics, Whose, read_statistics
from sluice.core.state.usual import KEY_PREFIX as USED_PREFIX
from sluice.core.state.usual import UseCount, UseCounts, UsualName
from sluice.core.state.waiting import WaitingRoom

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MOST_ENDED = 4096
ENDED_KEPT_MS = 24 * 3600 * 1000
"""How many ended escalations a partition remembers, and for how long: a later answer is told how it ended."""
MOST_GRANTS = 4096
"""How many standing grants a partition keeps."""


@dataclass(frozen=True, slots=True)
class WriteDecided:
    """One decision on a write, for the statistics."""

    whose: Whose
    action: str


@dataclass(frozen=True, slots=True)
class Entered:
    """A memory goes into quarantine."""

    held: QuarantinedMemory


@dataclass(frozen=True, slots=True)
class Left:
    """A memory leaves the quarantine: reviewed, expired or evicted."""

    held: QuarantinedMemory


@dataclass(frozen=True, slots=True)
class HistoryReduced:
    """A history's new revision."""

    name: SourceName
    history: History


@dataclass(frozen=True, slots=True)
class Alarmed:
    """An alarm was raised for a window that ended at a moment, ms; by the subject of the alarm."""

    name: tuple[str, str, int]
    ended_ms: int


@dataclass(frozen=True, slots=True)
class EscalationKept:
    """An escalation opens, counts an approval, or ends."""

    escalation: Escalation


@dataclass(frozen=True, slots=True)
class GrantKept:
    """A standing grant is given, used, or with no uses left gone."""

    grant: StandingGrant


@dataclass(frozen=True, slots=True)
class UseCounted:
    """A destination's new count of uses."""

    name: UsualName
    use_count: UseCount


Change = (
    UseCounted
    | GrantKept
    | WriteDecided
    | Entered
    | Left
    | HistoryReduced
    | Alarmed
    | EscalationKept
    | LimitsCharged
    | LimitsCorrected
)
ALARM_PREFIX = b"a:"


class Book:
    """The book of one partition. The core reads it; the owner of the table calls `apply` and `flush`."""

    def __init__(self, table: Mapping[bytes, bytes]) -> None:
        """`table`: the partition's recovered state. Histories are read from it on demand, and
        `histories` counts them by tenant."""
        self._table = table
        self._quarantined = WaitingRoom(read_quarantined(table))
        escalations = decode_escalations(table)
        self.open = WaitingRoom(escalation for escalation in escalations if escalation.is_pending)
        ended = sorted(
            (escalation for escalation in escalations if not escalation.is_pending), key=_order_by_end
        )
        self._ended = {escalation.escalation_id: escalation for escalation in ended}
        self._usable = {_request(escalation): escalation for escalation in ended if _is_usable(escalation)}
        self.grants = {grant.scope: grant for grant in read_grants(table)}
        self.statistics: dict[Whose, Statistics] = read_statistics(table)
        self.uses = UseCounts(table)
        self._histories: dict[SourceName, History] = {}
        self.histories = Counter(
            orjson.loads(key[len(HISTORY_PREFIX) :])[0] for key in table if key.startswith(HISTORY_PREFIX)
        )
        self._alarmed: dict[tuple[str, str, int], int] = {
            tuple(orjson.loads(key[len(ALARM_PREFIX) :])): orjson.loads(value)
            for key, value in table.items()
            if key.startswith(ALARM_PREFIX)
        }
        self._changed: dict[bytes, bytes | None] = {}
        self.limits = LimitUsage(table)

    def oldest_escalation_ms(self) -> int | None:
        """When the oldest of the open escalations was opened, ms; None: none is open."""
        return min((escalation.opened_ms for escalation in self.open), default=None)

    def __len__(self) -> int:
        """Memories in quarantine."""
        return len(self._quarantined)

    def find_quarantined(self, memory_id: str) -> QuarantinedMemory | None:
        """The memory in quarantine under this id."""
        return self._quarantined.get(memory_id)

    def trust_of(self, tenant: str, memory_id: str) -> float | None:
        """The trust in a memory of this tenant that is in quarantine; None where there is no such one."""
        memory = self._quarantined.get(memory_id)
        return memory.trust if memory is not None and memory.tenant == tenant else None

    @property
    def all_held(self) -> list[QuarantinedMemory]:
        """Everything in quarantine, the oldest first by its input's offset."""
        return self._quarantined.oldest_first()

    def select_crowding(self, count: int) -> list[QuarantinedMemory]:
        """Up to `count` held memories that must make room; see `Waiting.crowding`."""
        return self._quarantined.select_crowding(count)

    def due(self, now_ms: int, limit: int) -> list[QuarantinedMemory]:
        """Up to `limit` held memories whose time is over, the earliest first."""
        return self._quarantined.due(now_ms, limit)

    def next_due_ms(self) -> int | None:
        """When the time of the next held memory or open escalation is over; None while nothing waits."""
        times = (self._quarantined.next_due_ms(), self.open.next_due_ms())
        return min((time for time in times if time is not None), default=None)

    def escalation(self, escalation_id: str) -> Escalation | None:
        """The escalation of this id, open or ended not long ago."""
        return self.open.get(escalation_id) or self._ended.get(escalation_id)

    def approval_of(self, session_id: str, digest: str) -> Escalation | None:
        """The approved escalation of a session's retrieval with this digest, until it is used."""
        return self._usable.get((session_id, digest))

    def grant(self, grant_id: str) -> StandingGrant | None:
        """The standing grant of this id, for one session."""
        matching = (
            grant for grant in self.grants.values() if grant.grant_id == grant_id and not grant.of_agent
        )
        return next(matching, None)

    def history(self, name: SourceName) -> History:
        """The history of a source that this partition owns, staged feedback included."""
        history = self._histories.get(name)
        return history or History.decode(self._table.get(HISTORY_PREFIX + name.key().encode()))

    def find_alarm_end(self, name: tuple[str, str, int]) -> int:
        """The end of the window of the last alarm, ms; 0 if there was none."""
        return self._alarmed.get(name, 0)

    def apply(self, changes: Iterable[Change]) -> None:
        """Take over a decision's changes."""
        for change in changes:
            match change:
                case WriteDecided(whose, action):
                    self._count(whose, self.statistics.get(whose, NOTHING).add(action))
                case Entered(memory):
                    self._enter(memory)
                case Left(memory):
                    self._leave(memory)
                case EscalationKept(escalation):
                    self._keep(escalation)
                case GrantKept(grant):
                    self._keep_grant(grant)
                case LimitsCharged() | LimitsCorrected():
                    self.limits.apply(change)
                case _:
                    self._learn(change)

    def _learn(self, change: UseCounted | HistoryReduced | Alarmed) -> None:
        match change:
            case HistoryReduced(name, history):
                self.histories[name.tenant] += history.revision == 1
                self._histories[name] = history
                self._changed[HISTORY_PREFIX + name.key().encode()] = history.encode()
            case UseCounted(used, count):
                self.uses.put(used, count)
                stored = None if count.is_forgotten else count.encode()
                self._changed[USED_PREFIX + used.key().encode()] = stored
            case Alarmed(alarm, ended_ms):
                self._alarmed[alarm] = ended_ms
                self._changed[ALARM_PREFIX + orjson.dumps(list(alarm))] = orjson.dumps(ended_ms)

    def flush(self) -> dict[bytes, bytes | None]:
        """The entries that changed since the last time, by key; None deletes one."""
        changed, self._changed = self._changed, {}
        if self.limits.changed:
            changed |= self.limits.changed
            self.limits.changed = {}
        self._histories = {}
        return changed

    def _enter(self, memory: QuarantinedMemory) -> None:
        self._quarantined.put(memory)
        self._changed[memory.key] = memory.encode()
        self._resize(memory, 1)

    def _leave(self, memory: QuarantinedMemory) -> None:
        self._quarantined.remove(memory.memory_id)
        self._changed[memory.key] = None
        self._resize(memory, -1)

    def _keep(self, escalation: Escalation) -> None:
        self._changed[escalation.key] = escalation.encode()
        if escalation.is_pending:
            self.open.put(escalation)
            return
        if escalation.escalation_id not in self._ended:
            self.open.remove(escalation.escalation_id)
            if escalation.outcome != "ALLOW" and not escalation.is_of_items:
                self.limits.release(escalation.offset)
        self._ended[escalation.escalation_id] = escalation
        if _is_usable(escalation):
            self._usable[_request(escalation)] = escalation
        else:
            self._use(escalation)
        oldest = next(iter(self._ended.values()))
        while len(self._ended) > MOST_ENDED or oldest.ended_ms + ENDED_KEPT_MS < escalation.ended_ms:
            del self._ended[oldest.escalation_id]
            self._use(oldest)
            self._changed[oldest.key] = None
            oldest = next(iter(self._ended.values()))

    def _use(self, escalation: Escalation) -> None:
        """The escalation's items cannot be asked for again."""
        usable = self._usable.get(_request(escalation))
        if usable is not None and usable.escalation_id == escalation.escalation_id:
            del self._usable[_request(escalation)]

    def _keep_grant(self, grant: StandingGrant) -> None:
        """A grant takes the place of an older one of its scope; of too many the oldest goes."""
        old = self.grants.pop(grant.scope, None)
        if old is not None:
            self._changed[old.key] = None
        if grant.uses > 0 or grant.of_agent:
            self.grants[grant.scope] = grant
            self._changed[grant.key] = grant.encode()
        if grant.of_agent:
            self._drop(
                other for other in self.grants.values() if other.of_agent and _is_over_at(other, grant)
            )
        elif sum(not other.of_agent for other in self.grants.values()) > MOST_GRANTS:
            self._drop([next(other for other in self.grants.values() if not other.of_agent)])

    def _drop(self, grants: Iterable[StandingGrant]) -> None:
        for grant in list(grants):
            del self.grants[grant.scope]
            self._changed[grant.key] = None

    def _resize(self, memory: QuarantinedMemory, by: int) -> None:
        whose = Whose(memory.tenant, memory.agent_id)
        self._count(whose, self.statistics.get(whose, NOTHING).resize(by))

    def _count(self, whose: Whose, statistics: Statistics) -> None:
        self.statistics[whose] = statistics
        self._changed[whose.key] = orjson.dumps(list(statistics))


def _is_over_at(grant: StandingGrant, used: StandingGrant) -> bool:
    """Whether a grant for an agent was over when another one was used: none is for longer than 30 days."""
    return grant.until_ms <= used.until_ms - LONGEST_GRANT_MS


def _is_usable(escalation: Escalation) -> bool:
    """Whether its items were approved and have not been asked for again."""
    return escalation.is_of_items and escalation.status == "APPROVED" and escalation.outcome is None


def _request(escalation: Escalation) -> tuple[str, str]:
    return escalation.session_id, escalation.digest


def _order_by_end(escalation: Escalation) -> tuple[int, str]:
    return escalation.ended_ms, escalation.escalation_id
