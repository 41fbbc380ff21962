"""What bundles, registry, agent and tool settle of a retrieval before its items are read: who reads, at which
tier, under which two bundles.

A plan is made once for all requests of its key. What holds of a content class for a reader is worked out
once, for all items of the class.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.core.registry.freezes import find_stop
from sluice.core.registry.registry_entries import Entry, collect_hashes
from sluice.core.retrieval.dimensions import read_class
from sluice.core.retrieval.item_texts import read_bodies, read_names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.policy.bundles import Bundle
    from sluice.core.policy.policy import Policy, Principal
    from sluice.core.quality_bundle.lookup import Cell, ClassLimit
    from sluice.core.quality_bundle.quality_bundle import QualityBundle
    from sluice.core.quality_bundle.quality_models import RolloutMode
    from sluice.core.registry.freezes import Freeze
    from sluice.core.registry.registry import Registry
    from sluice.core.registry.registry_entries import Agent, Tool
    from sluice.core.retrieval.item_texts import Body, RequestNames
    from sluice.core.retrieval.provenance_check import Resolutions
    from sluice.core.state.session import Who
    from sluice_topics.records import ProposedRetrieval
    from sluice_topics.records.retrievals import AutonomyTier, ReasonCode

CACHED = 8192
"""How many plans are cached; the number is bounded because agents' names come from outside."""
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
    limit: ClassLimit | None
    tool: str | None
    rollout: RolloutMode


class RetrievalReader(NamedTuple):
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

    def __init__(self, reader: RetrievalReader | None) -> None:
        """`reader` is None if there is no bundle; then a lookup raises KeyError."""
        super().__init__()
        self._reader = reader

    def __missing__(self, named: str | None) -> ClassTerms:
        """Worked out, and kept."""
        if self._reader is None:
            raise KeyError(named)
        terms = _work_out(self._reader, named)
        if named in self._reader.bundle.lookup.classes:
            self[named] = terms
        return terms


NO_TERMS = TermsByClass(None)


@lru_cache(maxsize=_READERS)
def get_terms(reader: RetrievalReader) -> TermsByClass:
    """What holds of every class for this reader."""
    return TermsByClass(reader)


def _work_out(reader: RetrievalReader, named: str | None) -> ClassTerms:
    lookup, content_class, tool = reader.bundle.lookup, read_class(named), reader.tool
    if tool is not None and not reader.vouched:
        tool = tool if lookup.is_stricter(tool, content_class) else None
    return ClassTerms(
        reader.bundle,
        content_class,
        _find_closure(reader, named, content_class),
        lookup.cell(reader.tier, content_class),
        lookup.limit(tool, content_class),
        tool,
        reader.bundle.rollout_of(content_class),
    )


def _find_closure(reader: RetrievalReader, named: str | None, content_class: str | None) -> str | None:
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


class RetrievalPlan(NamedTuple):
    """`bundle` is the agent's policy bundle, whose detectors read the bodies; `quality` the tenant's quality
    bundle, None where nobody knows the one asked for; `classes` are those that it names. `tool` is the
    registered one that the items are for, if the quality bundle has times to live of its own for it and the
    agent may use it. `terms`: what the quality bundle says of each class to this reader. `owner` has the room
    that the request uses in its session.

    `barred`: why this agent may read nothing; None: it may. `is_judged`: whether a model can be asked about
    bodies. `hashes`: by "kind/id@revision", of the entries that every item's decision rests on, in canonical
    order. `fields`: members of each item's decision that are the same for all requests of the plan.
    """

    principal: Principal
    registry: Registry
    agent: Agent | None
    tenant: str
    owner: Who
    bundle: Bundle
    quality: QualityBundle | None
    classes: frozenset[str]
    tier: AutonomyTier
    tool: Tool | None
    terms: TermsByClass
    is_shadowed: bool
    is_judged: bool
    barred: tuple[ReasonCode, str] | None
    hashes: dict[str, str]
    fields: dict[str, Any]


class RetrievalContext(NamedTuple):
    """A request, its plan, and what was seen of the session. `names` is what the detectors found in ids and
    references; `recorded` says where references led; `now_ms` is the request's broker time. `barred`: why no
    item may be read at all. `approval`: what lets an item through that the quality gate denies.
    """

    plan: RetrievalPlan
    input_record: InputRecord
    retrieval: ProposedRetrieval
    freezes: tuple[Freeze, ...]
    bodies: Sequence[Body]
    names: RequestNames
    recorded: Resolutions
    now_ms: int
    barred: tuple[ReasonCode, str] | None
    approval: ItemApproval | None = None

    def hashes(self) -> dict[str, str]:
        """By "kind/id@revision", in canonical order, the hashes of the registry entries that every item's
        decision rests on."""
        plan, signature = self.plan, self.input_record.signature
        used = plan.hashes | collect_hashes(*self.freezes) if self.freezes else plan.hashes
        if signature is not None:
            used = signature.entries(used)
        return dict(sorted(used.items())) if self.freezes else used


class _RetrievalKey(NamedTuple):
    """What a plan follows from, under one policy. `tool_name` is None for a tool for which no quality bundle
    has times of its own."""

    agent_id: str
    autonomy_tier: AutonomyTier | None
    tool_name: str | None


def plan_retrievals(policy: Policy, environment: str) -> Callable[[ProposedRetrieval], RetrievalPlan]:
    """The plans under one policy, by request. Pure, so what it returns may cache."""
    timed = frozenset(name for bundle in policy.quality.values() for name in bundle.file.ttl_by_tool)
    make = lru_cache(maxsize=CACHED)(partial(_plan, policy, environment))

    def plan(retrieval: ProposedRetrieval) -> RetrievalPlan:
        tool_name = retrieval.tool_name
        return make(
            _RetrievalKey(
                retrieval.agent_id, retrieval.autonomy_tier, tool_name if tool_name in timed else None
            )
        )

    return plan


def _plan(policy: Policy, environment: str, key: _RetrievalKey) -> RetrievalPlan:
    principal = policy.find_principal(key.agent_id)
    agent, tenant, quality = principal.agent, principal.tenant, principal.quality
    tier = principal.tier(key.autonomy_tier)
    tool = _find_tool(policy.registry, quality, agent, key.tool_name)
    return RetrievalPlan(
        principal,
        policy.registry,
        agent,
        tenant,
        principal.owner,
        principal.bundle,
        quality,
        frozenset() if quality is None else quality.lookup.classes,
        tier,
        tool,
        NO_TERMS
        if quality is None
        else get_terms(_identify_reader(quality, tier, tenant, agent, key.tool_name, tool)),
        principal.is_shadowed,
        quality is not None and quality.file.content_judge.judge != "off",
        _find_bar(principal),
        dict(sorted(collect_hashes(agent, principal.org, tool).items())),
        {
            "quality_bundle_id": principal.quality_asked_for or None,
            "quality_bundle_hash": None if quality is None else quality.hash,
            "tenant_id": principal.tenant_id,
            "environment": environment,
            "autonomy_tier": tier,
            "enforcement": principal.org.enforcement,
            "policy_bundle_id": principal.bundle_asked_for,
            "bundle_hash": principal.bundle.hash,
        },
    )


def _find_bar(principal: Principal) -> tuple[ReasonCode, str] | None:
    if principal.agent is None:
        return "UNKNOWN_AGENT", f"unknown_agent: {principal.agent_id}"
    if principal.quality is None:
        return "NO_QUALITY_BUNDLE", f"no_quality_bundle: {principal.quality_asked_for} is not in force"
    return None


def _identify_reader(
    quality: QualityBundle,
    tier: AutonomyTier,
    tenant: str,
    agent: Agent | None,
    tool_name: str | None,
    tool: Tool | None,
) -> RetrievalReader:
    """A tool for which the bundle has no times of its own makes no difference to anybody."""
    named = tool_name if tool_name in quality.file.ttl_by_tool else None
    if agent is None or agent.content_classes is None:
        return RetrievalReader(quality, tier, tenant, None, None, named, tool is not None)
    return RetrievalReader(quality, tier, tenant, agent.id, agent.content_classes, named, tool is not None)


def _find_tool(
    registry: Registry, quality: QualityBundle | None, agent: Agent | None, name: str | None
) -> Tool | None:
    """A caller's word alone would choose the longest time to live."""
    if quality is None or agent is None or name not in quality.file.ttl_by_tool:
        return None
    return registry.tools.get(name) if agent.tools is None or name in agent.tools else None


def assess(
    plan: RetrievalPlan,
    input_record: InputRecord,
    retrieval: ProposedRetrieval,
    recorded: Resolutions,
    approval: ItemApproval | None,
) -> RetrievalContext:
    """The context of a request under its plan. `recorded`: where references led."""
    freezes: tuple[Freeze, ...] = ()
    barred = plan.barred
    if plan.registry.freezes:
        freezes = plan.registry.find_freezes(plan.tenant, retrieval.agent_id, retrieval.session_id)
        if (stop := find_stop(freezes)) is not None:
            barred = "FROZEN", stop.word
    reader, is_known = plan.bundle.inspector.names, plan.agent is not None
    return RetrievalContext(
        plan,
        input_record,
        retrieval,
        freezes,
        read_bodies(retrieval.items, input_record.opened),
        read_names(reader, retrieval, plan.classes, known_agent=is_known),
        recorded,
        input_record.timestamp_ms,
        barred,
        approval,
    )
