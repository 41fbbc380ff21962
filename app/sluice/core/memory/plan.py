"""What bundle, registry, agent and source settle of a memory write before its session is read.

A plan is made once for all writes of an agent from a registered source, and of an agent from any other
source. With it comes what follows from it alone: why nothing is admitted whatever the write says, which
models can be asked, what a write scores in which nothing is found, and the members of the decision that
never differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.core.foundation.input_record import memory_id
from sluice.core.memory.admitted import release_quality
from sluice.core.memory.trust import Scorer
from sluice.core.registry.registry_entries import collect_hashes
from sluice.core.state.history import UNSEEN, History, SourceName
from sluice.core.state.statistics import Whose

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.policy.bundles import Bundle
    from sluice.core.policy.policy import Policy, Principal
    from sluice.core.policy.similarity_settings import SimilaritySettings
    from sluice.core.registry.freezes import Freeze
    from sluice.core.registry.registry_entries import Agent, Source
    from sluice.core.state.decision import Shared
    from sluice.core.state.session import Who
    from sluice.core.state.session_view import SessionView
    from sluice_topics.records import ProposedMemoryWrite

CACHED = 8192
"""How many plans are cached; the number is bounded because agents' names come from outside."""


class WritePlan(NamedTuple):
    """`bundle` is the agent's registered one, or the default where that is not in force. `source` is the
    registry's entry, None where there is none. `owner` has the room that the write uses in its session;
    `whose` is the account of the partition's statistics.

    `barred`: why the agent may write nothing; None: it may. `similarity`: how an encoder is asked, None: it
    is not; `is_analysed`: whether a model can be asked. `hashes`: by "kind/id@revision", of the entries that
    every decision rests on. `fields`: members of the decision that are the same for all writes of the plan.
    """

    principal: Principal
    agent: Agent | None
    tenant: str
    bundle: Bundle
    source: Source | None
    owner: Who
    whose: Whose
    barred: str | None
    is_shadowed: bool
    similarity: SimilaritySettings | None
    is_analysed: bool
    scorer: Scorer
    hashes: dict[str, str]
    fields: Mapping[str, Any]


class Parent(NamedTuple):
    """A memory that the write derives from; `trust` is None if the memory is not known."""

    memory_id: str
    trust: float | None


class RememberedWrite(NamedTuple):
    """What is remembered under a write's id: the hex digest and the offset of the first input, its action and
    the one that shadow mode hid."""

    digest: str
    offset: int
    action: str
    shadow: str | None


class WriteSeen(NamedTuple):
    """`has_capacity`: whether one more write can be remembered, or one is under its id: `previous`.
    `history`: of its source; `session_type` and `last_at` (ms): what the session knows of the source.
    `parents`: each once, in the order in which the write names them."""

    previous: RememberedWrite | None
    has_capacity: bool
    history: History
    session_type: str | None
    last_at: int | None
    parents: tuple[Parent, ...]


NOTHING_SEEN = WriteSeen(None, has_capacity=True, history=UNSEEN, session_type=None, last_at=None, parents=())


@dataclass(slots=True)
class WriteContext:
    """A write, its plan, and what was seen of its session. `name`: of its source; `source_type`: the type
    that counts, which is the registered one, else the one first seen, else the one claimed. `now_ms`: the
    input's broker time, ms since 1970.

    `quality`: its quality fields as they are released, null where one is not of its form; None: nobody has
    read them yet.
    """

    plan: WritePlan
    input_record: InputRecord
    write: ProposedMemoryWrite
    observed: WriteSeen
    freezes: tuple[Freeze, ...]
    name: SourceName
    source_type: str
    memory_id: str
    content_digest: str
    now_ms: int
    quality: dict[str, Any] | None = None

    def make_released_quality(self) -> dict[str, Any]:
        """The quality fields as they are released; read at the first call."""
        if self.quality is None:
            self.quality = release_quality(self.write, is_valid=False)
        return self.quality

    def hashes(self) -> dict[str, str]:
        """By "kind/id@revision" the hashes of all registry entries that the decision rests on."""
        used = {**self.plan.hashes, **collect_hashes(*self.freezes)} if self.freezes else self.plan.hashes
        return used if self.input_record.signature is None else self.input_record.signature.entries(used)


def plan_writes(policy: Policy) -> Callable[[ProposedMemoryWrite], WritePlan]:
    """The plans under one policy, by write. Pure, so what it returns may cache."""
    registered = frozenset(source_id for _, source_id in policy.registry.sources)
    make = lru_cache(maxsize=CACHED)(partial(_plan, policy))

    def plan(write: ProposedMemoryWrite) -> WritePlan:
        source_id = write.source.id
        return make(write.agent_id, source_id if source_id in registered else None)

    return plan


def _plan(policy: Policy, agent_id: str, source_id: str | None) -> WritePlan:
    principal = policy.find_principal(agent_id)
    agent, tenant, bundle = principal.agent, principal.tenant, principal.bundle
    source = None if source_id is None else policy.registry.sources.get((tenant, source_id))
    memory = bundle.memory
    return WritePlan(
        principal,
        agent,
        tenant,
        bundle,
        source,
        principal.owner,
        Whose(tenant, "" if agent is None else agent.id),
        _find_bar(principal),
        principal.is_shadowed,
        memory.similarity if memory.similarity is not None and memory.similarity.enabled else None,
        memory.trust.llm_analysis != "off",
        Scorer(memory.trust),
        collect_hashes(agent, principal.org, source),
        {
            "tenant_id": principal.tenant_id,
            "enforcement": principal.org.enforcement,
            "policy_bundle_id": principal.bundle_asked_for,
            "bundle_hash": bundle.hash,
        },
    )


def _find_bar(principal: Principal) -> str | None:
    if principal.agent is None:
        return f"unknown_agent: {principal.agent_id}"
    asked_for = principal.bundle_asked_for
    return None if asked_for == principal.bundle.id else f"unknown_bundle: {asked_for}"


def assess(
    policy: Policy,
    plan: WritePlan,
    input_record: InputRecord,
    write: ProposedMemoryWrite,
    observed: WriteSeen,
) -> WriteContext:
    """The context of a write, on what was seen of the session and the partition."""
    registered, opened = None if plan.source is None else plan.source.type, input_record.opened
    return WriteContext(
        plan,
        input_record,
        write,
        observed,
        policy.find_freezes(plan.principal, write.session_id) if policy.registry.freezes else (),
        SourceName(plan.tenant, write.source.id),
        registered or observed.history.type or observed.session_type or write.source.type,
        memory_id(input_record.decision_id),
        digest_content(write.content if opened is None else opened.sealed["content"]),
        input_record.timestamp_ms,
    )


def observe(
    owner: Who, input_record: InputRecord, write: ProposedMemoryWrite, view: SessionView, shared: Shared
) -> WriteSeen:
    """What a write finds in its session, and in what the partition keeps beside it; `owner` has the room that
    it uses."""
    tenant, source_id = owner.tenant, write.source.id
    previous = view.write(owner, write.write_id)
    session_type, last_at = view.source(tenant, source_id)
    return WriteSeen(
        None
        if previous is None
        else RememberedWrite(previous.digest, previous.offset, previous.action, previous.shadow),
        previous is not None or view.has_room_for_write(owner),
        shared.histories.get(SourceName(tenant, source_id), UNSEEN),
        session_type,
        last_at,
        _find_parents(input_record, write, view, shared, tenant) if write.derived_from else (),
    )


def _find_parents(
    input_record: InputRecord, write: ProposedMemoryWrite, view: SessionView, shared: Shared, tenant: str
) -> tuple[Parent, ...]:
    """Parents are looked for in the session, and among what the partition holds for the tenant."""
    prefix = f"{input_record.topic}:{input_record.partition}:"
    trust = {memory_id(f"{prefix}{earlier.offset}"): earlier.trust for earlier in view.writes(tenant)}
    return tuple(
        Parent(source, trust[source] if source in trust else shared.book.trust_of(tenant, source))
        for source in dict.fromkeys(write.derived_from or ())
    )


def digest_content(content: str) -> str:
    """ "sha256:" and the hex digest of the content's UTF-8: what a review is bound to."""
    return "sha256:" + sha256(content.encode()).hexdigest()
