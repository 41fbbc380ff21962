"""What a memory write is, before it is judged: who writes, from which source, and what state says of it."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from app.core.foundation.ids import memory_id
from app.core.registry.registry_entries import hashes_of
from app.core.state.history import UNSEEN, History, SourceName

if TYPE_CHECKING:
    from app.core.foundation.arrival import Arrival
    from app.core.policy.bundles import Bundle
    from app.core.policy.point import PointParts
    from app.core.policy.policy import Principal
    from app.core.quality_bundle.quality_bundle import QualityBundle
    from app.core.registry.registry_entries import Agent, Freeze, Org, Source
    from app.core.state.decision import Shared
    from app.core.state.draft import SessionDraft
    from app.core.state.remembered import RecentWrite
    from topics.records import ProposedMemoryWrite


class Parent(NamedTuple):
    """A memory that the write derives from; `trust` None where nobody here knows it."""

    memory_id: str
    trust: float | None


@dataclass(frozen=True, slots=True)
class View:
    """All that the decision takes from state; the record's `seen`."""

    known: RecentWrite | None
    room: bool
    history: History
    session_type: str | None
    last_at: int | None
    parents: tuple[Parent, ...]

    def recorded(self) -> dict[str, Any]:
        """As the decision carries it."""
        known = self.known
        return {
            "known": None
            if known is None
            else {
                "digest": f"sha256:{known.digest}",
                "offset": known.offset,
                "action": known.action,
                "shadow": known.shadow,
            },
            "room": self.room,
            "source": {
                "type": self.history.type,
                "positive": self.history.positive,
                "negative": self.history.negative,
                "revision": self.history.revision,
                "session_type": self.session_type,
                "last_at": self.last_at,
            },
            "parents": [one._asdict() for one in self.parents],
        }


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
    view: View

    @property
    def source_type(self) -> str:
        """The type that counts: the registered one, the one first seen, the claimed one."""
        registered = None if self.source is None else self.source.type
        view = self.view
        return registered or view.history.type or view.session_type or self.write.source.type

    def entries(self) -> dict[str, str]:
        """ "kind/id@revision" to hash of every registry entry that the decision rests on."""
        return hashes_of(self.agent, self.org, self.source, *self.freezes)


def assess(
    parts: PointParts, arrival: Arrival, write: ProposedMemoryWrite, draft: SessionDraft, shared: Shared
) -> WriteContext:
    """The context of a write on the session's and the partition's values of this moment."""
    registry = parts.policy.registry
    principal = parts.policy.principal(write.agent_id)
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
        registry.sources.get((tenant, write.source.id)),
        SourceName(tenant, write.source.id),
        arrival.timestamp_ms,
        digest_of(write.content),
        _view(arrival, write, draft, shared, principal),
    )


def digest_of(content: str) -> str:
    """ "sha256:" and the hex digest of the content's UTF-8: what a review is bound to."""
    return "sha256:" + sha256(content.encode()).hexdigest()


def _view(
    arrival: Arrival, write: ProposedMemoryWrite, draft: SessionDraft, shared: Shared, principal: Principal
) -> View:
    tenant, owner = principal.tenant, principal.owner
    known = draft.write(owner, write.write_id)
    session_type, last_at = draft.source(tenant, write.source.id)
    return View(
        known,
        known is not None or draft.has_room_for_write(owner),
        shared.histories.get(SourceName(tenant, write.source.id), UNSEEN),
        session_type,
        last_at,
        _parents(arrival, write, draft, shared, tenant),
    )


def _parents(
    arrival: Arrival, write: ProposedMemoryWrite, draft: SessionDraft, shared: Shared, tenant: str
) -> tuple[Parent, ...]:
    """Parents are looked for in the session, and among what the partition holds for the tenant."""
    if not write.derived_from:
        return ()
    place = f"{arrival.topic}:{arrival.partition}:"
    trust = {memory_id(f"{place}{one.offset}"): one.trust for one in draft.writes(tenant)}
    found = []
    for parent in dict.fromkeys(write.derived_from):
        held = shared.book.held(parent)
        known = held.trust if held is not None and held.tenant == tenant else None
        found.append(Parent(parent, trust.get(parent, known)))
    return tuple(found)
