"""Each kind of entry: the model of its `spec` and the function that puts it into the registry."""

from __future__ import annotations

import re
from bisect import insort
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from sluice.core.foundation.clock import read_milliseconds
from sluice.core.foundation.strict import StrictModel
from sluice.core.registry.agent_grants import AgentGrant, AgentGrantSpec
from sluice.core.registry.agent_keys import AgentKey, Delegate, DelegateSpec
from sluice.core.registry.approvers import Approver, ApproverSpec
from sluice.core.registry.argument_roles import RoleReader
from sluice.core.registry.erasures import Erasure, ErasureSpec, make_erasure_id
from sluice.core.registry.facts import Fact, FactSpec
from sluice.core.registry.freezes import Freeze, FreezeSpec
from sluice.core.registry.keys import PublicKey
from sluice.core.registry.limits import Limit, LimitSpec
from sluice.core.registry.mandates import (
    Issuer,
    IssuerSpec,
    MandateRevocation,
    MandateRevocationSpec,
    RegisteredTask,
    TaskSpec,
)
from sluice.core.registry.model_proofs import ModelProof, ModelProofSpec
from sluice.core.registry.policy_losses import PolicyLossSpec
from sluice.core.registry.quality_entries import (
    KnownBad,
    KnownBadSpec,
    Provenance,
    ProvenanceSpec,
    QualityOverrideEntry,
    QualityOverrideSpec,
    list_bad_names,
    make_provenance_id,
)
from sluice.core.registry.registry_entries import (
    NO_WORKSPACE,
    Agent,
    AgentSpec,
    EnforcementPoint,
    EnforcementPointSpec,
    Entry,
    Org,
    OrgSpec,
    Source,
    SourceSpec,
    Tool,
    ToolSpec,
)
from sluice.text.expression_sets import target_set
from sluice.text.places import normal_uri, place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sluice.core.registry.agent_keys import AgentKeySpec
    from sluice.core.registry.registry import Registry
    from sluice.core.registry.registry_entries import Kind

Base = tuple[str, str, str]
"""Id, key and hash of an entry."""
Keyed = TypeVar("Keyed", bound=Entry)
Called = TypeVar("Called", bound=Hashable)
Spec = TypeVar("Spec", bound=StrictModel)


_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class WrongIdError(Exception):
    """An entry whose id does not match its fields."""


def _put_agent(registry: Registry, base: Base, agent: AgentSpec) -> None:
    tools = None if agent.tools is None else frozenset(agent.tools)
    registry.agents[base[0]] = Agent(
        *base,
        agent.tenant_id,
        agent.tier,
        tools,
        agent.policy_bundle_id,
        frozenset(agent.delegates_to),
        frozenset(agent.callers),
        agent.autonomy_tier,
        None if agent.content_classes is None else frozenset(agent.content_classes),
        agent.owner,
        None if agent.keys is None else tuple(map(_make_agent_key, agent.keys)),
        agent.signature_window_s * 1000,
        agent.system_prompt,
        None if agent.constraints is None else tuple(agent.constraints),
        agent.workspace or NO_WORKSPACE,
        agent.mandate,
        tuple(agent.destinations),
        frozenset(agent.roles),
        0 if agent.usual_since is None else read_milliseconds(agent.usual_since),
    )
    for role in agent.roles:
        registry.agents_by_role.setdefault((agent.tenant_id, role), []).append(base[0])


def _make_agent_key(key: AgentKeySpec) -> AgentKey:
    public = PublicKey.from_text(key.public_key)
    moments = (key.valid_from, key.valid_until, key.revoked_at)
    bounds = (None if moment is None else read_milliseconds(moment) for moment in moments)
    return AgentKey(public.keyid, Ed25519PublicKey.from_public_bytes(public.raw), *bounds)


def _put_tool(registry: Registry, base: Base, tool: ToolSpec) -> None:
    registry.tools[base[0]] = Tool(
        *base,
        tool.tier,
        tool.action_type,
        tool.reversible,
        tool.trusts_row_claims,
        tool.returns_untrusted,
        tool.returns_trusted,
        None if tool.roles is None else RoleReader(tool.roles),
    )


def _put_org(registry: Registry, base: Base, org: OrgSpec) -> None:
    targets = target_set(org.forbidden_targets)
    registry.orgs[base[0]] = Org(
        *base,
        org.enforcement,
        targets,
        org.irreversible_row_threshold,
        org.quality_bundle_id,
        tuple(org.destinations),
    )


def _put_freeze(registry: Registry, base: Base, freeze: FreezeSpec) -> None:
    if freeze.active:
        by = None if freeze.by is None else freeze.by.approver_id
        entry = Freeze(
            *base, freeze.subject, freeze.subject_id, freeze.reason, freeze.tenant_id, by, freeze.stage
        )
        insert_sorted(registry.freezes, (freeze.subject, freeze.subject_id), [entry])


def _put_erasure(registry: Registry, base: Base, erasure: ErasureSpec) -> None:
    _check_id(base, make_erasure_id(erasure.tenant_id, erasure.key_ids[0]), "erasure")
    entry = Erasure(*base, erasure.tenant_id, tuple(erasure.key_ids), erasure.reason, erasure.stage)
    for key_id in erasure.key_ids:
        keep_first(registry.erasures, (erasure.tenant_id, key_id), entry)


def _put_enforcement_point(registry: Registry, base: Base, point: EnforcementPointSpec) -> None:
    registry.enforcement_points[base[0]] = EnforcementPoint(
        *base, point.tenant_id, _read_key(point.public_key)
    )


def _put_delegate(registry: Registry, base: Base, delegate: DelegateSpec) -> None:
    keys = tuple(map(_make_agent_key, delegate.keys))
    registry.delegates[base[0]] = Delegate(
        *base, frozenset(delegate.tenants), keys, delegate.agents, frozenset(delegate.roles)
    )


def _put_approver(registry: Registry, base: Base, approver: ApproverSpec) -> None:
    until = None if approver.valid_until is None else read_milliseconds(approver.valid_until)
    signs, roles = frozenset(approver.signs), frozenset(approver.roles)
    tenants = None if approver.tenants is None else frozenset(approver.tenants)
    tools = None if approver.tools is None else frozenset(approver.tools)
    registry.approvers[base[0]] = Approver(
        *base,
        _read_key(approver.public_key),
        signs,
        roles,
        until,
        approver.active,
        tenants,
        tools,
        frozenset(approver.groups),
    )


def _put_source(registry: Registry, base: Base, source: SourceSpec) -> None:
    _check_id(base, f"{source.tenant_id}/{source.source_id}", "source")
    registry.sources[(source.tenant_id, source.source_id)] = Source(
        *base,
        source.tenant_id,
        source.source_id,
        source.type,
        source.quality_exempt,
        source.reason,
        None if source.public_key is None else _read_key(source.public_key),
    )


def _put_provenance(registry: Registry, base: Base, spec: ProvenanceSpec) -> None:
    _check_id(base, make_provenance_id(spec.tenant_id, spec.uri), "reference")
    entry = Provenance(*base, spec.tenant_id, spec.uri, spec.hash)
    keep_first(registry.provenance, (spec.tenant_id, normal_uri(spec.uri)), entry)


def _put_known_bad(registry: Registry, base: Base, bad: KnownBadSpec) -> None:
    if bad.active:
        value = (place_of(bad.value) or bad.value) if bad.subject == "source" else bad.value
        entry = KnownBad(*base, bad.tenant_id, bad.subject, value, bad.reason)
        for name in list_bad_names(entry):
            keep_first(registry.known_bad, name, entry)


def _put_quality_override(registry: Registry, base: Base, spec: QualityOverrideSpec) -> None:
    if spec.active:
        entry = QualityOverrideEntry(
            *base,
            tenant=spec.tenant_id,
            item_id=spec.item_id,
            agent_id=spec.agent_id,
            session_id=spec.session_id,
            body_digest=spec.body_digest,
            approver_id=spec.approver_id,
            expires_at=spec.expires_at,
            expires_ms=read_milliseconds(spec.expires_at),
            justification=spec.justification,
        )
        insert_sorted(registry.overrides, (spec.tenant_id, spec.item_id), [entry])


def _put_agent_grant(registry: Registry, base: Base, spec: AgentGrantSpec) -> None:
    if spec.active:
        until_ms = read_milliseconds(spec.expires_at)
        scope = (spec.tenant_id, spec.agent_id, spec.tool)
        grant = AgentGrant(*base, *scope, spec.when, spec.uses, until_ms, spec.approver_id)
        insert_sorted(registry.agent_grants, scope, [grant])


def _put_model_proof(registry: Registry, base: Base, spec: ModelProofSpec) -> None:
    if spec.active:
        proof = ModelProof(*base, spec.golden, spec.prompts, spec.agreement, spec.p99_ms)
        registry.model_proofs[base[0]] = proof


def _put_issuer(registry: Registry, base: Base, issuer: IssuerSpec) -> None:
    keys = tuple(map(_make_agent_key, issuer.keys))
    agents = None if issuer.agents is None else frozenset(issuer.agents)
    tasks = None if issuer.tasks is None else frozenset(issuer.tasks)
    registry.issuers[base[0]] = Issuer(*base, issuer.tenant_id, keys, agents, tasks)


def _put_task(registry: Registry, base: Base, task: TaskSpec) -> None:
    if task.active:
        registry.tasks[base[0]] = RegisteredTask(*base, task.tenant_id, task)


def _put_mandate_revocation(registry: Registry, base: Base, spec: MandateRevocationSpec) -> None:
    if _DIGEST.fullmatch(base[0]) is None:
        raise WrongIdError("the id of a revocation is the mandate's digest, sha256: and 64 hex digits")
    registry.mandate_revocations[base[0]] = MandateRevocation(*base, spec.tenant_id, spec.reason)


def _put_limit(registry: Registry, base: Base, spec: LimitSpec) -> None:
    if spec.active:
        insert_sorted(registry.limits, spec.tenant_id, [Limit(*base, spec.tenant_id, spec)])


def _check_policy_loss(registry: Registry, base: Base, spec: PolicyLossSpec) -> None:
    """Put nothing in: no decision rests on an accepted loss."""


def _put_fact(registry: Registry, base: Base, fact: FactSpec) -> None:
    until = None if fact.valid_to is None else read_milliseconds(fact.valid_to)
    fact_read = Fact(*base, fact.value, read_milliseconds(fact.valid_from), until, fact.tenant_id)
    registry.facts.setdefault(base[0], []).append(fact_read)


def insert_sorted(table: dict[Called, list[Keyed]], name: Called, entries: Iterable[Keyed]) -> None:
    """Add entries of one name; they are kept in the order of their keys, in whatever order they came."""
    together = table.setdefault(name, [])
    for entry in entries:
        insort(together, entry, key=lambda keyed: keyed.key)


def keep_first(table: dict[Called, Keyed], name: Called, entry: Keyed) -> None:
    """Add an entry to a table with one entry per name; the first by its key stays, in whatever order they
    came."""
    there = table.get(name)
    if there is None or entry.key < there.key:
        table[name] = entry


def _check_id(base: Base, from_spec: str, what: str) -> None:
    if base[0] != from_spec:
        raise WrongIdError(f"the id of this {what}'s entry is {from_spec}")


def _read_key(public_key: str) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(PublicKey.from_text(public_key).raw)


@dataclass(frozen=True, slots=True)
class EntryKind(Generic[Spec]):
    """One kind of entry: the model of its `spec`, and how it is put into the registry."""

    spec: type[Spec]
    put: Callable[[Registry, Base, Spec], None]

    def read(self, registry: Registry, base: Base, written: dict[str, Any]) -> None:
        """Put an entry into the registry. Raises ValidationError, WrongIdError, PatternError and
        UnusableKeyError."""
        self.put(registry, base, self.spec.model_validate(written))


KINDS: dict[Kind, EntryKind[Any]] = {
    "agent": EntryKind(AgentSpec, _put_agent),
    "tool": EntryKind(ToolSpec, _put_tool),
    "org": EntryKind(OrgSpec, _put_org),
    "freeze": EntryKind(FreezeSpec, _put_freeze),
    "enforcement_point": EntryKind(EnforcementPointSpec, _put_enforcement_point),
    "delegate": EntryKind(DelegateSpec, _put_delegate),
    "fact": EntryKind(FactSpec, _put_fact),
    "source": EntryKind(SourceSpec, _put_source),
    "provenance": EntryKind(ProvenanceSpec, _put_provenance),
    "known_bad": EntryKind(KnownBadSpec, _put_known_bad),
    "quality_override": EntryKind(QualityOverrideSpec, _put_quality_override),
    "agent_grant": EntryKind(AgentGrantSpec, _put_agent_grant),
    "model_proof": EntryKind(ModelProofSpec, _put_model_proof),
    "policy_loss": EntryKind(PolicyLossSpec, _check_policy_loss),
    "issuer": EntryKind(IssuerSpec, _put_issuer),
    "task": EntryKind(TaskSpec, _put_task),
    "mandate_revocation": EntryKind(MandateRevocationSpec, _put_mandate_revocation),
    "limit": EntryKind(LimitSpec, _put_limit),
    "erasure": EntryKind(ErasureSpec, _put_erasure),
    "approver": EntryKind(ApproverSpec, _put_approver),
}
"""Every kind of entry; the reference pages of kinds are made from it (sluice/offline/reference.py)."""
