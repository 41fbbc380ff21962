"""What a memory write is, before it is judged: who writes, from which source, and what state says of it."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from sluice.core.foundation.arrival import memory_id
from sluice.core.registry.registry_entries import hashes_of
from sluice.core.state.history import SourceName

if TYPE_CHECKING:
    from sluice.core.foundation.arrival import Arrival
    from sluice.core.memory.memory_seen import WriteSeen
    from sluice.core.policy.bundles import Bundle
    from sluice.core.policy.policy import PointParts, Principal
    from sluice.core.quality_bundle.quality_bundle import QualityBundle
    from sluice.core.registry.freezes import Freeze
    from sluice.core.registry.registry_entries import Agent, Org, Source
    from sluice_topics.records import ProposedMemoryWrite


@dataclass(frozen=True, slots=True)
class WriteContext:
    """`bundle` is the agent's registered one (`bundle_asked_for`), or the default where that is not in force;
    `quality` its tenant's quality bundle, None where the one asked for is not in force.

    `source` is the registry's entry of it, None where there is none; `now_ms` the input's broker time.
    """

    write: ProposedMemoryWrite
    memory_id: str
    tenant: str
    agent: Agent | None
    org: Org
    freezes: tuple[Freeze, ...]
    bundle: Bundle
    bundle_asked_for: str
    quality: QualityBundle | None
    source: Source | None
    name: SourceName
    now_ms: int
    content_digest: str
    seen: WriteSeen

    @property
    def source_type(self) -> str:
        """The type that counts: the registered one, the one first seen, the claimed one."""
        registered = None if self.source is None else self.source.type
        seen = self.seen
        return registered or seen.history.type or seen.session_type or self.write.source.type

    def entries(self) -> dict[str, str]:
        """ "kind/id@revision" to hash of every registry entry that the decision rests on."""
        return hashes_of(self.agent, self.org, self.source, *self.freezes)


def assess(
    parts: PointParts, arrival: Arrival, write: ProposedMemoryWrite, principal: Principal, seen: WriteSeen
) -> WriteContext:
    """The context of a write, on what was seen of the session and the partition."""
    tenant = principal.tenant
    return WriteContext(
        write,
        memory_id(arrival.decision_id),
        tenant,
        principal.agent,
        principal.org,
        parts.policy.freezes_of(principal, write.session_id),
        principal.bundle,
        principal.bundle_asked_for,
        principal.quality,
        parts.policy.registry.sources.get((tenant, write.source.id)),
        SourceName(tenant, write.source.id),
        arrival.timestamp_ms,
        digest_of(write.content),
        seen,
    )


def digest_of(content: str) -> str:
    """ "sha256:" and the hex digest of the content's UTF-8: what a review is bound to."""
    return "sha256:" + sha256(content.encode()).hexdigest()
