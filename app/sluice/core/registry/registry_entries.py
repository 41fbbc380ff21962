"""Registry entries: the `spec` of each kind as written, and the entry as the gates use it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from sluice.core.foundation.strict import Installations, StrictModel
from sluice.core.registry.agent_keys import AgentKey, AgentKeyList, WindowSeconds  # noqa: TC001 - the same
from sluice.core.registry.argument_roles import ArgumentRoles, RoleReader  # noqa: TC001 - the same
from sluice.text.expression_sets import PatternSet, target_set
from sluice_topics.records.base import Enforcement, Moment, Tier  # noqa: TC001 - pydantic reads the annotations
from sluice_topics.records.inputs import ActionType  # noqa: TC001 - the same
from sluice_topics.records.memory import SourceType  # noqa: TC001 - the same
from sluice_topics.records.retrievals import AutonomyTier  # noqa: TC001 - the same

if TYPE_CHECKING:
    from collections.abc import Collection

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

Name = Annotated[str, Field(min_length=1, max_length=256)]
PublishedKind = Literal[
    "agent", "tool", "org", "freeze", "enforcement_point", "delegate", "fact", "source", "provenance",
    "known_bad", "quality_override", "agent_grant", "model_proof", "policy_loss", "issuer", "task",
    "mandate_revocation", "limit", "erasure",
]  # fmt: skip
"""Entries that an approver may sign; only a root key signs approvers' entries."""
SignedKind = Literal["bundle", "quality_bundle", PublishedKind]
Kind = Literal[PublishedKind, "approver"]
MAX_STARS, SHORTEST_REASON = 2, 10
MAX_TARGETS = 512
"""Forbidden targets of one tenant: as many as one automaton takes, and 3 s to compile."""


class EntryFile(StrictModel):
    """One entry's frame. `installations`: those that the entry is for, by policy.installation; null, and then
    not written: any that trusts its signer."""

    kind: Kind
    id: Name
    revision: Annotated[int, Field(ge=1, le=2**53 - 1)]
    spec: dict[str, Any]
    installations: Installations | None = None

    @model_serializer(mode="wrap")
    def _omit_null(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = serialize(self)
        if self.installations is None:
            written.pop("installations", None)
        return written


class RegistryFile(StrictModel):
    """The file's frame."""

    entries: list[EntryFile]


class OfTenant(StrictModel):
    """What one tenant has."""

    tenant_id: Name

    @field_validator("tenant_id")
    @classmethod
    def _refuse_reserved(cls, value: str) -> str:
        if value == UNREGISTERED:
            raise ValueError(f"{UNREGISTERED!r} is the name of the account of unregistered agents")
        return value


MOST_CONSTRAINTS = 16
ConstraintText = Annotated[str, Field(min_length=1, max_length=240)]


Root = Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[^$`\\\x00]+$")]
MOST_ROOTS = 32


class Workspace(StrictModel):
    """What is an agent's own: folders (absolute, or below the folder in which its commands run), hosts that
    hold nothing but its work, and databases by their names. A call that changes nothing else needs less
    authority (bundle: `effect_tiers`)."""

    paths: Annotated[list[Root], Field(max_length=MOST_ROOTS)] = Field(default_factory=list)
    hosts: Annotated[list[Root], Field(max_length=MOST_ROOTS)] = Field(default_factory=list)
    databases: Annotated[list[Root], Field(max_length=MOST_ROOTS)] = Field(default_factory=list)


NO_WORKSPACE = Workspace()
MOST_DESTINATIONS = 256
MOST_AGENT_ROLES = 16
DestinationText = Annotated[str, Field(min_length=1, max_length=512)]
Destinations = Annotated[list[DestinationText], Field(max_length=MOST_DESTINATIONS)]
"""Addresses, accounts, hosts, paths and names that are known to be right, as people write them; "*@" before a
domain stands for every address there, and a host or a folder for everything below it."""


class AgentSpec(OfTenant):
    """`tools` null grants every registered tool. `policy_bundle_id` binds the agent to a bundle; null means
    the installation's default, and a caller may name another. `owner`: the id of the approver who answers for
    the agent, and so may not approve what it wants. With `keys` only inputs count that one of them signed
    within `signature_window_s` (docs/clients.md).

    `delegates_to` are the agents to which it may delegate, `callers` the agents that may delegate to it: both
    lists must agree (seed 001, Gate 2B). A null `autonomy_tier` counts as high_privilege; with null
    `content_classes` it may read items of every class (seed 004).

    `system_prompt`: what the agent was told, from which a model extracts the constraints that the gate
    `causal` judges by. `constraints` count in place of extracted ones, one sentence each; an empty list:
    there are none. `workspace`: what it may change with less authority, because it is its own. `mandate`: at
    the least what every action of the agent needs of one (bundle: `mandate`).
    `destinations`: where what it sends may go; the gate `destinations` asks nobody about them. `roles`: what
    it is for; where an agent of the tenant with a role of the same name usually sends, it may send too.
    `usual_since`: what it used before this moment teaches nothing any more.
    """

    tier: Tier
    tools: list[Name] | None = None
    policy_bundle_id: Name | None = None
    delegates_to: list[Name] = Field(default_factory=list)
    callers: list[Name] = Field(default_factory=list)
    autonomy_tier: AutonomyTier | None = None
    content_classes: list[Name] | None = None
    owner: Name | None = None
    keys: AgentKeyList | None = None
    signature_window_s: WindowSeconds = 300
    system_prompt: Annotated[str, Field(min_length=1, max_length=65_536)] | None = None
    constraints: Annotated[list[ConstraintText], Field(max_length=MOST_CONSTRAINTS)] | None = None
    workspace: Workspace | None = None
    mandate: Literal["counted", "needed"] | None = None
    destinations: Destinations = Field(default_factory=list)
    roles: Annotated[list[Name], Field(max_length=MOST_AGENT_ROLES)] = Field(default_factory=list)
    usual_since: Moment | None = None


class ToolSpec(StrictModel):
    """A tool's settings. They take precedence over the bundle's tables; a caller's claim only makes them
    stricter.

    `trusts_row_claims`: the caller's `rows_affected` counts as given, also below the upper bound of the
    action type. It is for tools whose gateway counts the rows before it proposes the action.

    `returns_untrusted`: what the tool returns is content of strangers (web pages, a mailbox, an issue
    tracker), so an action with it counts as external content that the session has read.
    `returns_trusted`: what it returns is the organisation's own word (its contact list, its ledger), so that
    a value in it may be a destination. Neither: what it returns is not trusted, and does not count as content
    of strangers. `roles`: which parameters name a destination, an object, an amount (docs/destinations.md).
    """

    tier: Tier | None = None
    action_type: ActionType | None = None
    reversible: bool | None = None
    trusts_row_claims: bool = False
    returns_untrusted: bool = False
    returns_trusted: bool = False
    roles: ArgumentRoles | None = None

    @model_validator(mode="after")
    def _check_returns(self) -> Self:
        if self.returns_untrusted and self.returns_trusted:
            raise ValueError("what a tool returns is either trusted or content of strangers")
        return self


class OrgSpec(StrictModel):
    """A tenant's settings; the entry's id is the tenant's. A null threshold takes the bundle's,
    a null `quality_bundle_id` the installation's default. `destinations`: those of all its agents.

    A target may have at most two stars: each one multiplies the automaton's states, and four took seconds.
    """

    enforcement: Enforcement = "enforce"
    forbidden_targets: list[Annotated[str, Field(pattern=r"[^*\s]", max_length=1024)]] = Field(
        default_factory=list, max_length=MAX_TARGETS
    )
    irreversible_row_threshold: Annotated[int, Field(ge=0, le=2**53 - 1)] | None = None
    quality_bundle_id: Name | None = None
    destinations: Destinations = Field(default_factory=list)

    @field_validator("forbidden_targets")
    @classmethod
    def _check_stars(cls, value: list[str]) -> list[str]:
        for target in value:
            if len(re.findall(r"\*+", target)) > MAX_STARS:
                raise ValueError(f"more than {MAX_STARS} stars in {target!r}")
        return value


class EnforcementPointSpec(OfTenant):
    """`public_key`: the 32 raw bytes of an Ed25519 key, base64."""

    public_key: str


class SourceSpec(OfTenant):
    """A source of a tenant's memories; the entry's id is "tenant_id/source_id", so a source has only one
    entry. A `type` takes precedence over the claimed type and the first one seen.

    `quality_exempt`: its writes need no quality metadata, for this `reason`; their content is still judged.
    `public_key` verifies what the source asserts about its content (seed 004, "signed source identifier");
    the 32 raw bytes of an Ed25519 key, base64.
    """

    tenant_id: Annotated[Name, Field(pattern=r"^[^/]+$")]
    source_id: Name
    type: SourceType | None = None
    quality_exempt: bool = False
    reason: Annotated[str, Field(max_length=1024)] | None = None
    public_key: str | None = None

    @model_validator(mode="after")
    def _check_exemption(self) -> Self:
        if self.quality_exempt and len((self.reason or "").strip()) < SHORTEST_REASON:
            raise ValueError(f"an exemption needs a reason of at least {SHORTEST_REASON} characters")
        return self


@dataclass(frozen=True, slots=True)
class Entry:
    """`key` is "kind/id@revision", `hash` covers the canonical form of the whole entry."""

    id: str
    key: str
    hash: str


def collect_hashes(*entries: Entry | None) -> dict[str, str]:
    """ "kind/id@revision" to hash of the entries that are not None: a decision records them as its
    evidence."""
    return {entry.key: entry.hash for entry in entries if entry is not None and entry.key}


@dataclass(frozen=True, slots=True)
class Agent(Entry):
    """A registered agent. None: every registered tool, every class; for `keys`: it does not sign."""

    tenant: str
    tier: str
    tools: frozenset[str] | None
    policy_bundle_id: str | None
    delegates_to: frozenset[str] = frozenset()
    callers: frozenset[str] = frozenset()
    autonomy_tier: AutonomyTier | None = None
    content_classes: frozenset[str] | None = None
    owner: str | None = None
    keys: tuple[AgentKey, ...] | None = None
    signature_window_ms: int = 0
    system_prompt: str | None = None
    constraints: tuple[str, ...] | None = None
    workspace: Workspace = NO_WORKSPACE
    mandate: Literal["counted", "needed"] | None = None
    destinations: tuple[str, ...] = ()
    roles: frozenset[str] = frozenset()
    usual_since_ms: int = 0


@dataclass(frozen=True, slots=True)
class Tool(Entry):
    """A registered tool; None for fields that its entry leaves out."""

    tier: str | None
    action_type: str | None
    reversible: bool | None
    trusts_row_claims: bool = False
    returns_untrusted: bool = False
    returns_trusted: bool = False
    roles: RoleReader | None = None


class ToolReturns(NamedTuple):
    """A tool whose results count: its name, and whether they are the organisation's own word. `stated`: its
    entry says so; else nobody says whose they are, and their values are not kept."""

    tool: str
    trusted: bool
    stated: bool = True


_CHANGING = frozenset(("DATABASE_WRITE", "FILE_WRITE", "FILE_DELETE", "MESSAGE", "PAYMENT"))
"""Types of actions that bring nothing in which a stranger wrote."""


def find_returns(tool: Tool | None, name: str, types: Collection[str]) -> ToolReturns | None:
    """What the entry of the tool of this name says of its results. Where it says nothing, nobody vouches for
    them; None where its entry gives it a type that brings nothing in, and none of these types does."""
    if tool is not None and (tool.returns_trusted or tool.returns_untrusted):
        return ToolReturns(tool.id, tool.returns_trusted)
    changes = tool is not None and tool.action_type in _CHANGING and _CHANGING.issuperset(types)
    return None if changes else ToolReturns(name, trusted=False, stated=False)


def find_untrusted_source(tool: Tool | None) -> str | None:
    """The tool's id, where what it returns is content of strangers."""
    return tool.id if tool is not None and tool.returns_untrusted else None


@dataclass(frozen=True, slots=True)
class Org(Entry):
    """A tenant's settings. `key` is empty for a tenant without an entry."""

    enforcement: Enforcement
    forbidden: PatternSet[str]
    irreversible_row_threshold: int | None
    quality_bundle_id: str | None = None
    destinations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EnforcementPoint(Entry):
    """A registered program whose signature may lower a total."""

    tenant: str
    public_key: Ed25519PublicKey


STRANGERS = frozenset(("external", "plugin"))
"""Sources whose content nobody of the tenant wrote."""


@dataclass(frozen=True, slots=True)
class Source(Entry):
    """A registered source of memories and items. `type` None: the entry does not fix it. `reason` is the
    exemption's. `public_key` None: its assertions cannot be verified."""

    tenant: str
    source_id: str
    type: SourceType | None
    quality_exempt: bool
    reason: str | None
    public_key: Ed25519PublicKey | None = None


NO_ORG = Org("", "", "", "enforce", target_set([]), None)
UNREGISTERED = "unregistered"
"""The tenant of actions of unregistered agents, and of counts without room elsewhere; no registry may have a
tenant of this name."""
