"""Freezes for an agent's client, from the signed registry as it is on the broker.

Only entries that count are believed, by the same reduction as a worker's. The view needs the whole package
and Read on the registry's topic; the client that asks it needs neither.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from sluice.adapters.kafka.kafka_consumers import KafkaControlReader
from sluice.client.answers import ClientError
from sluice.core.registry.freezes import ASK
from sluice.core.registry.keys import Roots
from sluice.gateway.registry_view import RegistryView
from sluice_topics.catalog import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sluice.client.freezes import StartingCall
    from sluice.client.kafka_connection import KafkaCluster
    from sluice_topics.audience import Audience

REFRESH_S, MAX_LAG_S = 0.5, 10.0
"""As the settings `policy.refresh_s` and `policy.max_lag_s` of a worker."""


@dataclass(eq=False)
class FollowedFreezes:
    """What is frozen now: one look at the registry every so often, and no question to the broker for a
    call."""

    view: RegistryView
    _watches: set[_Watch] = field(init=False, default_factory=set)
    _tasks: list[asyncio.Task[None]] = field(init=False, default_factory=list)

    async def start(self) -> None:
        """Read the registry, and follow it. Raises KafkaError."""
        await self.view.look()
        self._tasks = [asyncio.create_task(work) for work in (self.view.follow(), self._stop_running())]

    async def close(self) -> None:
        """Give up the connection."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.view.close()

    def find_stop(self, call: StartingCall) -> str | None:
        """Why the call may not start. Raises ClientError if the registry was not read for too long."""
        if not self.view.is_fresh:
            raise ClientError(
                "the registry was not read lately, so a freeze may be missed", "Call again with the same id"
            )
        return self._find_freeze(call)

    def watch(self, call: StartingCall, stop: Callable[[str], None]) -> Callable[[], None]:
        """Call `stop` once when a freeze stops the call; the result ends the watch."""
        watch = _Watch(call, stop)
        if (reason := self._find_freeze(call)) is not None:
            stop(reason)
        else:
            self._watches.add(watch)
        return partial(self._watches.discard, watch)

    def _find_freeze(self, call: StartingCall) -> str | None:
        """A freeze that asks stops what was not judged under it: no person was asked."""
        registry = self.view.registry
        if not registry.freezes:
            return None
        agent = registry.agents.get(call.agent_id)
        tenant = "" if agent is None else agent.tenant
        for freeze in registry.find_freezes(tenant, call.agent_id, call.session_id):
            if freeze.stage != ASK or call.judged.get(freeze.key) != freeze.hash:
                return freeze.word
        return None

    async def _stop_running(self) -> None:
        while True:
            await self.view.wait_for_look()
            for watch in list(self._watches) if self.view.registry.freezes else ():
                if (reason := self._find_freeze(watch.call)) is not None:
                    self._watches.discard(watch)
                    watch.stop(reason)


@dataclass(eq=False, frozen=True, slots=True)
class _Watch:
    """A call that runs."""

    call: StartingCall
    stop: Callable[[str], None]


def follow_freezes(
    cluster: KafkaCluster,
    root_keys: Sequence[str],
    audience: Audience,
    *,
    retired_root_keys: Mapping[str, int] | None = None,
    refresh_s: float = REFRESH_S,
    max_lag_s: float = MAX_LAG_S,
) -> Callable[[], FollowedFreezes]:
    """What `ClientOptions.freezes` takes: each client follows the registry by a connection of its own.

    `root_keys`: the setting `policy.root_keys`; `retired_root_keys`: with the ms since 1970 until which each
    counts; `audience`: the installation. `refresh_s`: between two looks; `max_lag_s`: after so long without
    one no tool starts. Raises UnusableKeyError.
    """
    roots = Roots(root_keys, retired_root_keys)

    def make() -> FollowedFreezes:
        reader = KafkaControlReader(cluster, {f"{audience.topic_prefix}{REGISTRY}": REGISTRY})
        return FollowedFreezes(RegistryView(reader, roots, refresh_s, max_lag_s, audience))

    return make
