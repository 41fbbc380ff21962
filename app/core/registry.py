"""The registry: who and what is known. Loaded whole, each entry with its hash.

File: {"entries": [{"kind", "id", "revision", "spec"}]}. Of one kind and id the highest revision counts, but
of facts all do, each for its time; the same revision twice is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from pydantic import ValidationError

from app.core.clock import milliseconds_of
from app.core.errors import CanonicalError, RegistryError
from app.core.facts import Fact, FactSpec
from app.core.ledger.canonical import digest
from app.core.patterns import PatternError, target_set
from app.core.registry_entries import (
    Agent,
    AgentSpec,
    Approver,
    ApproverSpec,
    EnforcementPoint,
    EnforcementPointSpec,
    EntryFile,
    Freeze,
    FreezeSpec,
    Org,
    OrgSpec,
    RegistryFile,
    Source,
    SourceSpec,
    Tool,
    ToolSpec,
)
from app.core.strict import first_error, json_object
from app.core.trust.keys import PublicKey, UnusableKeyError

if TYPE_CHECKING:
    from collections.abc import Iterable

FACT = "fact"
"""The kind of which every revision counts, each for its time."""
Base = tuple[str, str, str]
"""Id, key and hash of an entry."""


class _WrongIdError(Exception):
    """An entry whose id does not follow from what it says."""


class Registry:
    """All entries in force, by kind and id; a source by its tenant and its own id."""

    def __init__(self) -> None:
        self.agents: dict[str, Agent] = {}
        self.tools: dict[str, Tool] = {}
        self.orgs: dict[str, Org] = {}
        self.enforcement_points: dict[str, EnforcementPoint] = {}
        self.freezes: dict[tuple[str, str], list[Freeze]] = {}
        self.facts: dict[str, list[Fact]] = {}
        self.sources: dict[tuple[str, str], Source] = {}
        self.approvers: dict[str, Approver] = {}

    def freezes_of(self, tenant: str, agent_id: str, session_id: str) -> tuple[Freeze, ...]:
        """The active freezes of any of the three, the tenant's first, of one subject by their keys."""
        if not self.freezes:
            return ()
        subjects = (("tenant", tenant), ("agent", agent_id), ("session", session_id))
        return tuple(one for subject in subjects for one in self.freezes.get(subject, ()))

    def reporter_tenant(self, reporter: str) -> str | None:
        """The tenant of an enforcement point or agent; None for an id that is neither."""
        known = self.enforcement_points.get(reporter) or self.agents.get(reporter)
        return None if known is None else known.tenant


def load_registry(raw: bytes) -> Registry:
    """The registry in a file's bytes. Raises RegistryError with the path and the reason."""
    try:
        file = RegistryFile.model_validate(json_object(raw))
    except ValidationError as error:
        raise RegistryError(first_error(error)) from None
    except ValueError as error:
        raise RegistryError(str(error)) from None
    return build_registry(file.entries)


def build_registry(entries: Iterable[EntryFile]) -> Registry:
    """The registry of some entries. Raises RegistryError with the place among them and the reason."""
    registry = Registry()
    for place, entry in _in_force(list(entries)):
        _add(registry, f"$.entries[{place}].spec", entry)
    return registry


def merged(parts: Iterable[Registry]) -> Registry:
    """One registry of several without an entry in common, each with what was compiled for it."""
    whole = Registry()
    for part in parts:
        for name in ("agents", "tools", "orgs", "enforcement_points", "sources", "approvers"):
            getattr(whole, name).update(getattr(part, name))
        for subject, freezes in part.freezes.items():
            together = [*whole.freezes.get(subject, ()), *freezes]
            whole.freezes[subject] = sorted(together, key=lambda one: one.key)
        for fact, revisions in part.facts.items():
            whole.facts.setdefault(fact, []).extend(revisions)
    return whole


def _in_force(entries: list[EntryFile]) -> list[tuple[int, EntryFile]]:
    """With their places: of facts every revision, of the others the newest."""
    newest: dict[tuple[str, ...], tuple[int, EntryFile]] = {}
    seen: set[str] = set()
    for place, entry in enumerate(entries):
        revision = f"{entry.kind}/{entry.id}@{entry.revision}"
        if revision in seen:
            raise RegistryError(f"$.entries[{place}]: {revision} is there twice")
        seen.add(revision)
        name = (revision,) if entry.kind == FACT else (entry.kind, entry.id)
        if name not in newest or entry.revision > newest[name][1].revision:
            newest[name] = (place, entry)
    return list(newest.values())


def _add(registry: Registry, path: str, entry: EntryFile) -> None:
    try:
        base = (entry.id, f"{entry.kind}/{entry.id}@{entry.revision}", digest(entry.model_dump()))
        _READERS[entry.kind](registry, base, entry.spec)
    except ValidationError as error:
        raise RegistryError(first_error(error, path)) from None
    except _WrongIdError as error:
        raise RegistryError(f"{path.removesuffix('.spec')}.id: {error}") from None
    except CanonicalError as error:
        raise RegistryError(f"{path}: {error}") from None
    except PatternError as error:
        raise RegistryError(f"{path}.forbidden_targets[{error.index}]: {error.message}") from None
    except UnusableKeyError as error:
        raise RegistryError(f"{path}.public_key: {error}") from None


def _agent(registry: Registry, base: Base, spec: dict[str, Any]) -> None:
    agent = AgentSpec.model_validate(spec)
    tools = None if agent.tools is None else frozenset(agent.tools)
    registry.agents[base[0]] = Agent(
        *base,
        agent.tenant_id,
        agent.tier,
        tools,
        agent.policy_bundle_id,
        frozenset(agent.delegates_to),
        frozenset(agent.callers),
    )


def _tool(registry: Registry, base: Base, spec: dict[str, Any]) -> None:
    tool = ToolSpec.model_validate(spec)
    registry.tools[base[0]] = Tool(*base, tool.tier, tool.action_type, tool.reversible)


def _org(registry: Registry, base: Base, spec: dict[str, Any]) -> None:
    org = OrgSpec.model_validate(spec)
    targets = target_set(org.forbidden_targets)
    registry.orgs[base[0]] = Org(*base, org.enforcement, targets, org.irreversible_row_threshold)


def _freeze(registry: Registry, base: Base, spec: dict[str, Any]) -> None:
    freeze = FreezeSpec.model_validate(spec)
    if freeze.active:
        entry = Freeze(*base, freeze.subject, freeze.subject_id, freeze.reason)
        known = registry.freezes.setdefault((freeze.subject, freeze.subject_id), [])
        known.append(entry)
        known.sort(key=lambda one: one.key)


def _enforcement_point(registry: Registry, base: Base, spec: dict[str, Any]) -> None:
    point = EnforcementPointSpec.model_validate(spec)
    registry.enforcement_points[base[0]] = EnforcementPoint(*base, point.tenant_id, _key(point.public_key))


def _approver(registry: Registry, base: Base, spec: dict[str, Any]) -> None:
    approver = ApproverSpec.model_validate(spec)
    until = None if approver.valid_until is None else milliseconds_of(approver.valid_until)
    signs, roles = frozenset(approver.signs), frozenset(approver.roles)
    tenants = None if approver.tenants is None else frozenset(approver.tenants)
    registry.approvers[base[0]] = Approver(
        *base, _key(approver.public_key), signs, roles, until, approver.active, tenants
    )


def _source(registry: Registry, base: Base, spec: dict[str, Any]) -> None:
    source = SourceSpec.model_validate(spec)
    if base[0] != f"{source.tenant_id}/{source.source_id}":
        raise _WrongIdError(f"the id of this source's entry is {source.tenant_id}/{source.source_id}")
    registry.sources[(source.tenant_id, source.source_id)] = Source(
        *base, source.tenant_id, source.source_id, source.type, source.quality_exempt, source.reason
    )


def _fact(registry: Registry, base: Base, spec: dict[str, Any]) -> None:
    fact = FactSpec.model_validate(spec)
    until = None if fact.valid_to is None else milliseconds_of(fact.valid_to)
    known = Fact(*base, fact.value, milliseconds_of(fact.valid_from), until, fact.tenant_id)
    registry.facts.setdefault(base[0], []).append(known)


def _key(public_key: str) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(PublicKey.from_text(public_key).raw)


_READERS = {
    "agent": _agent,
    "tool": _tool,
    "org": _org,
    "freeze": _freeze,
    "enforcement_point": _enforcement_point,
    FACT: _fact,
    "source": _source,
    "approver": _approver,
}
