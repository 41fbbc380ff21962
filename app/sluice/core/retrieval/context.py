"""What a retrieval is, before its items are judged: who reads, at which tier, under which two bundles.

What holds of a content class for this reader is worked out once, for all items of the class.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from sluice.core.registry.registry_entries import Entry, hashes_of
from sluice.core.retrieval.bodies import bodies_of
from sluice.core.retrieval.dimensions import class_of
from sluice.core.retrieval.names import read_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice.core.foundation.arrival import Arrival
    from sluice.core.policy.bundles import Bundle
    from sluice.core.policy.policy import PointParts, Principal
    from sluice.core.quality_bundle.lookup import Cell, Limit
    from sluice.core.quality_bundle.quality_bundle import QualityBundle
    from sluice.core.quality_bundle.quality_models import RolloutMode
    from sluice.core.registry.freezes import Freeze
    from sluice.core.registry.registry import Registry
    from sluice.core.registry.registry_entries import Agent, Org, Tool
    from sluice.core.retrieval.bodies import Body
    from sluice.core.retrieval.names import RequestNames
    from sluice.core.retrieval.seen import Resolutions
    from sluice_topics.records import ProposedRetrieval
    from sluice_topics.records.retrievals import AutonomyTier, ReasonCode

_READERS = 1024
"""Readers whose terms are kept, those of the last requests."""


class ClassTerms(NamedTuple):
    """`closed`: why the reader gets nothing of the class. `content_class` None: no name of a class.

    `tool`: whose time to live counts, if the bundle has one of its own for it; `limit` is the one that does.
    """

    bundle: QualityBundle
    content_class: str | None
    closed: str | None
    cell: Cell
    limit: Limit | None
    tool: str | None
    rollout: RolloutMode


class Reader(NamedTuple):
    """Who reads, under which bundle. `granted`: the classes of the agent, whose id is of interest only then;
    None for every class.

    `tool`: what the request names, `vouched` whether the agent may use it and the registry knows it.
    """

    bundle: QualityBundle
    tier: AutonomyTier
    tenant: str
    agent_id: str | None
    granted: frozenset[str] | None
    tool: str | None
    vouched: bool


class TermsByClass(dict[str | None, ClassTerms]):
    """A reader's terms by what an item gives for its class, None for what is no text. Those of the bundle's
    own classes are kept, so that no more are kept than the bundle has."""

    def __init__(self, reader: Reader | None) -> None:
        """`reader` is None if there is no bundle; then a lookup raises KeyError."""
        super().__init__()
        self._reader = reader

    def __missing__(self, named: str | None) -> ClassTerms:
        """Worked out, and kept."""
        if self._reader is None:
            raise KeyError(named)
        terms = _worked_out(self._reader, named)
        if named in self._reader.bundle.lookup.classes:
            self[named] = terms
        return terms


NO_TERMS = TermsByClass(None)


@lru_cache(maxsize=_READERS)
def terms_of(reader: Reader) -> TermsByClass:
    """What holds of every class for this reader."""
    return TermsByClass(reader)


def _worked_out(reader: Reader, named: str | None) -> ClassTerms:
    lookup, content_class, tool = reader.bundle.lookup, class_of(named), reader.tool
    if tool is not None and not reader.vouched:
        tool = tool if lookup.is_stricter(tool, content_class) else None
    return ClassTerms(
        reader.bundle,
        content_class,
        _closed(reader, named, content_class),
        lookup.cell(reader.tier, content_class),
        lookup.limit(tool, content_class),
        tool,
        reader.bundle.rollout_of(content_class),
    )


def _closed(reader: Reader, named: str | None, content_class: str | None) -> str | None:
    """By what the agent or its tenant was not granted; where classes are kept from anybody, none gets in by a
    name that nobody knows."""
    bundle = reader.bundle
    if reader.granted is not None and named not in reader.granted:
        return f"class_not_granted: to agent {reader.agent_id}"
    if not bundle.opens(named, reader.tenant):
        return f"class_not_granted: to tenant {reader.tenant}"
    if bundle.keeps_classes and content_class not in bundle.lookup.classes:
        return "class_not_granted: the bundle does not know the class"
    return None


@dataclass(frozen=True, slots=True)
class ItemApproval(Entry):
    """A person's approval of the items that the quality gate denied in an earlier request of the same bytes.
    `id` is that of the escalation; `key` and `hash` are those of the approver's registry entry."""

    approver_id: str
    expires_ms: int
    justification: str


class RetrievalContext(NamedTuple):
    """One per request. `tool` is the registered one that the items are for, if the bundle has times to live
    of its own for it and the agent may use it. `bundle` is the agent's policy bundle, whose detectors read
    the bodies; `quality` the tenant's quality bundle, None where nobody knows the one asked for; `terms` what
    it says of each class to this reader; `names` what the detectors found in ids and references. `now_ms` is
    the request's broker time. `approval`: what lets an item through that the quality gate denies.
    """

    retrieval: ProposedRetrieval
    registry: Registry
    agent: Agent | None
    tenant: str
    org: Org
    freezes: tuple[Freeze, ...]
    bundle: Bundle
    bundle_asked_for: str
    quality: QualityBundle | None
    quality_asked_for: str
    tier: AutonomyTier
    tool: Tool | None
    terms: TermsByClass
    bodies: Sequence[Body]
    names: RequestNames
    recorded: Resolutions
    environment: str
    now_ms: int
    approval: ItemApproval | None = None

    @property
    def shadow(self) -> bool:
        """Whether the tenant's enforcement lets everything through."""
        return self.org.enforcement == "shadow"

    def entries(self) -> dict[str, str]:
        """ "kind/id@revision" to hash of the registry entries that every item's decision rests on."""
        return hashes_of(self.agent, self.org, self.tool, *self.freezes)


def assess(
    parts: PointParts, arrival: Arrival, retrieval: ProposedRetrieval, recorded: Resolutions
) -> RetrievalContext:
    """The context of a request under the policy of this moment. `recorded`: where references led."""
    policy = parts.policy
    principal = policy.principal(retrieval.agent_id)
    agent, tenant, quality = principal.agent, principal.tenant, principal.quality
    tier = principal.tier(retrieval.autonomy_tier)
    tool = _tool(policy.registry, quality, agent, retrieval.tool_name)
    return RetrievalContext(
        retrieval,
        policy.registry,
        agent,
        tenant,
        principal.org,
        policy.freezes_of(principal, retrieval.session_id),
        principal.bundle,
        principal.bundle_asked_for,
        quality,
        principal.quality_asked_for,
        tier,
        tool,
        NO_TERMS if quality is None else terms_of(_reader(quality, tier, tenant, agent, retrieval, tool)),
        bodies_of(retrieval.items),
        names_in(retrieval, principal),
        recorded,
        parts.environment,
        arrival.timestamp_ms,
    )


def names_in(retrieval: ProposedRetrieval, principal: Principal) -> RequestNames:
    """What the detectors of the principal's bundle read in the request's names."""
    classes = frozenset[str]() if principal.quality is None else principal.quality.lookup.classes
    detectors, is_known = principal.bundle.inspector.names, principal.agent is not None
    return read_names(detectors, retrieval, classes, known_agent=is_known)


def _reader(
    quality: QualityBundle,
    tier: AutonomyTier,
    tenant: str,
    agent: Agent | None,
    retrieval: ProposedRetrieval,
    tool: Tool | None,
) -> Reader:
    """A tool for which the bundle has no times of its own makes no difference to anybody."""
    named = retrieval.tool_name if retrieval.tool_name in quality.file.ttl_by_tool else None
    if agent is None or agent.content_classes is None:
        return Reader(quality, tier, tenant, None, None, named, tool is not None)
    return Reader(quality, tier, tenant, agent.id, agent.content_classes, named, tool is not None)


def _tool(
    registry: Registry, quality: QualityBundle | None, agent: Agent | None, name: str | None
) -> Tool | None:
    """A caller's word alone would choose the longest time to live."""
    if quality is None or agent is None or name not in quality.file.ttl_by_tool:
        return None
    return registry.tools.get(name) if agent.tools is None or name in agent.tools else None


def barred(context: RetrievalContext) -> tuple[ReasonCode, str] | None:
    """Why no item of the request may be read at all."""
    if context.freezes:
        first = context.freezes[0]
        return "FROZEN", f"frozen_{first.subject}: {first.reason}"
    if context.agent is None:
        return "UNKNOWN_AGENT", f"unknown_agent: {context.retrieval.agent_id}"
    if context.quality is None:
        return "NO_QUALITY_BUNDLE", f"no_quality_bundle: {context.quality_asked_for} is not in force"
    return None
