"""Whose turn it is: tenants and their hosts in rotation, each with a bounded share.

A slow host delays only references to itself, and a tenant with many references only its own.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from typing import NamedTuple


class Reference(NamedTuple):
    """A tenant's; another tenant's of the same URI is another."""

    tenant: str
    uri: str


@dataclass(frozen=True, slots=True)
class Shares:
    """References resolved at once, altogether, of one host and of one tenant; how many may wait, altogether,
    of one host and tenant, and of one tenant."""

    concurrency: int
    per_host: int
    per_tenant: int
    max_waiting: int
    max_waiting_per_host: int
    max_waiting_per_tenant: int


class Turns:
    """References that wait, by tenant and host, and how many of each are being resolved.

    Tenants take turns, and the hosts of each among themselves: whoever names many hosts has no more turns.
    """

    def __init__(self, shares: Shares) -> None:
        self._shares = shares
        self._waiting: dict[str, dict[str, deque[Reference]]] = {}
        self._count: Counter[str] = Counter()
        self._hosts: Counter[str] = Counter()
        self._tenants: Counter[str] = Counter()

    @property
    def room(self) -> bool:
        """Whether more may be asked for."""
        return self._count.total() < self._shares.max_waiting

    def enter(self, host: str, reference: Reference) -> bool:
        """Let it wait for its turn; False where too many of its host and tenant, or of its tenant do."""
        tenant = reference.tenant
        if self._count[tenant] >= self._shares.max_waiting_per_tenant:
            return False
        waiting = self._waiting.setdefault(tenant, {}).setdefault(host, deque())
        if len(waiting) >= self._shares.max_waiting_per_host:
            return False
        waiting.append(reference)
        self._count[tenant] += 1
        return True

    def take(self) -> tuple[str, Reference] | None:
        """The next to be resolved; its host and tenant go to the end of the rotation."""
        if self._tenants.total() >= self._shares.concurrency:
            return None
        for tenant, lanes in self._waiting.items():
            if self._tenants[tenant] >= self._shares.per_tenant:
                continue
            host = next((one for one in lanes if self._hosts[one] < self._shares.per_host), None)
            if host is not None:
                return host, self._begin(tenant, host)
        return None

    def ended(self, host: str, tenant: str) -> None:
        """One of this host's and this tenant's is resolved."""
        self._hosts[host] -= 1
        self._tenants[tenant] -= 1
        self._hosts += Counter()  # forgets what is at zero
        self._tenants += Counter()

    def _begin(self, tenant: str, host: str) -> Reference:
        lanes = self._waiting.pop(tenant)
        waiting = lanes.pop(host)
        reference = waiting.popleft()
        if waiting:
            lanes[host] = waiting
        if lanes:
            self._waiting[tenant] = lanes
        self._count[tenant] -= 1
        self._count += Counter()
        self._hosts[host] += 1
        self._tenants[tenant] += 1
        return reference
