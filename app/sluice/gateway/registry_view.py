"""The registry as the gateway sees it: which tenant an agent is of, and whether the tenant is in shadow.

Only signed entries count, by the same reduction as a worker's. What is decided, workers decide: this view
only refuses requests that they could not decide otherwise, and keeps tenants apart.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from sluice.core.trust.compile_cache import CompileCache
from sluice.core.trust.reduction import reduce_policy
from sluice_topics.audience import UNNAMED, Audience

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.policy.bundles import Bundle
    from sluice.core.registry.keys import Roots
    from sluice.core.registry.registry import Registry
    from sluice.core.registry.registry_entries import Agent

log = logging.getLogger(__name__)


class RegistryReader(Protocol):
    """Reads the registry's topic."""

    async def to_end(self) -> list[InputRecord]:
        """Every record up to the present end that no earlier call gave."""

    async def close(self) -> None:
        """Give up the connection."""


class RegistryView:
    """Follows the registry's topic."""

    def __init__(
        self,
        reader: RegistryReader,
        roots: Roots,
        refresh_s: float,
        max_lag_s: float,
        audience: Audience = UNNAMED,
    ) -> None:
        """`refresh_s`: between two looks; `max_lag_s`: after so long without one it is not ready. `audience`:
        the installation."""
        self._reader = reader
        self._roots = roots
        self._refresh_s = refresh_s
        self._max_lag_s = max_lag_s
        self._records: list[InputRecord] = []
        self._compiled = CompileCache(lambda _: (), audience)
        self._registry: Registry | None = None
        self._bundles: Mapping[str, Bundle] = {}
        self._looked_at = 0.0
        self._looked = asyncio.Condition()

    @property
    def registry(self) -> Registry:
        """The entries in force. Raises RuntimeError before the first look."""
        if self._registry is None:
            raise RuntimeError("the registry was not read yet")
        return self._registry

    @property
    def bundles(self) -> Mapping[str, Bundle]:
        """The policy bundles in force, by their ids; none where the reader reads the registry alone."""
        return self._bundles

    @property
    def is_fresh(self) -> bool:
        """Whether the last look is recent enough."""
        return time.monotonic() - self._looked_at < self._max_lag_s

    def find_agent(self, name: str, tenant: str) -> Agent | None:
        """The tenant's agent of this name."""
        agent = self.registry.agents.get(name)
        return agent if agent is not None and agent.tenant == tenant else None

    def is_enforcement_point(self, name: str, tenant: str) -> bool:
        """Whether this is an enforcement point of the tenant."""
        point = self.registry.enforcement_points.get(name)
        return point is not None and point.tenant == tenant

    def is_in_shadow(self, tenant: str) -> bool:
        """Whether the gate blocks no action of this tenant."""
        org = self.registry.orgs.get(tenant)
        return org is not None and org.enforcement == "shadow"

    async def look(self) -> None:
        """Read what is new, and reduce it. Raises KafkaError."""
        at = time.monotonic()
        new = await self._reader.to_end()
        if new or self._registry is None:
            self._records += new
            reduced = await asyncio.to_thread(reduce_policy, self._records, self._roots, self._compiled)
            self._registry, self._bundles = reduced.registry, reduced.bundles
        self._looked_at = at
        async with self._looked:
            self._looked.notify_all()

    async def wait_until(self, holds: Callable[[Registry], bool], within_s: float) -> None:
        """Wait until this holds of the entries in force, for so many seconds at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s), self._looked:
                await self._looked.wait_for(lambda: holds(self.registry))

    async def wait_for_look(self) -> None:
        """Wait until the registry was read once more."""
        async with self._looked:
            await self._looked.wait()

    async def follow(self) -> None:
        """Look again and again, until cancelled. A broker that is away is asked again."""
        from aiokafka.errors import KafkaError  # noqa: PLC0415 - the module is importable without

        while True:
            await asyncio.sleep(self._refresh_s)
            try:
                await self.look()
            except KafkaError as error:
                log.warning("the registry cannot be read: %s", error)

    async def close(self) -> None:
        """Give up the connection."""
        await self._reader.close()
