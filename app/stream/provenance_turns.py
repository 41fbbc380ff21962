"""Whose turn it is: hosts and tenants in rotation, each with a bounded share.

A slow host delays only references to itself, and a tenant with many references only its own.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.stream.provenance_work import Reference


@dataclass(frozen=True, slots=True)
class Shares:
    """References resolved at once, altogether and of one host; how many may wait, altogether and of one host
    and tenant."""

    concurrency: int
    per_host: int
    max_waiting: int
    max_waiting_per_host: int


class Turns:
    """References that wait, by host and tenant, and how many of each host are being resolved."""

    def __init__(self, shares: Shares) -> None:
        self._shares = shares
        self._waiting: dict[tuple[str, str], deque[Reference]] = {}
        self._count = 0
        self._running: Counter[str] = Counter()

    @property
    def room(self) -> bool:
        """Whether more may be asked for."""
        return self._count < self._shares.max_waiting

    def enter(self, host: str, reference: Reference) -> bool:
        """Let it wait for its turn; False where too many of its host and tenant do."""
        waiting = self._waiting.setdefault((host, reference.tenant), deque())
        if len(waiting) >= self._shares.max_waiting_per_host:
            return False
        waiting.append(reference)
        self._count += 1
        return True

    def take(self) -> tuple[str, Reference] | None:
        """The next to be resolved; its host and tenant go to the end of the rotation."""
        if self._running.total() >= self._shares.concurrency:
            return None
        lane = next((one for one in self._waiting if self._running[one[0]] < self._shares.per_host), None)
        if lane is None:
            return None
        waiting = self._waiting.pop(lane)
        reference = waiting.popleft()
        if waiting:
            self._waiting[lane] = waiting
        self._count -= 1
        self._running[lane[0]] += 1
        return lane[0], reference

    def ended(self, host: str) -> None:
        """One of this host's is resolved."""
        self._running[host] -= 1
        self._running += Counter()  # forgets hosts at zero
