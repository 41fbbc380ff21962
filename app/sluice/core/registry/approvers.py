"""Who may sign entries and bundles, and decide on what waits for a person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import Field

from sluice.core.foundation.strict import Instant, StrictModel
from sluice.core.registry.agent_keys import ApproverRole  # noqa: TC001 - the same
from sluice.core.registry.registry_entries import Entry, Name, SignedKind

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


class ApproverSpec(StrictModel):
    """A person or a process whose signature counts, as long as it is `active` and before `valid_until`.

    `signs`: the kinds of entries, and "bundle" and "quality_bundle", that it may publish. `roles`: what it
    may decide on. It may review memories, answer escalations, override quality and thaw what is frozen only
    in these `tenants`, and approve actions only with these `tools` (null: every one). `groups`: a
    bundle's routes name these (docs/approvals.md).
    `public_key`: the 32 raw bytes of an Ed25519 key, base64. Only a root key signs an approver's entry.
    """

    public_key: str
    signs: list[SignedKind] = Field(default_factory=list)
    roles: list[ApproverRole] = Field(default_factory=list)
    tenants: list[Name] | None = None
    tools: list[Name] | None = None
    groups: list[Name] = Field(default_factory=list)
    valid_until: Instant | None = None
    active: bool = True


@dataclass(frozen=True, slots=True)
class Approver(Entry):
    """A person or process whose signature counts, with the rights of its ApproverSpec. `valid_until_ms` in ms
    since 1970; None: no end. `tenants`, `tools` None: all.
    """

    public_key: Ed25519PublicKey
    signs: frozenset[str]
    roles: frozenset[str]
    valid_until_ms: int | None
    active: bool
    tenants: frozenset[str] | None = None
    tools: frozenset[str] | None = None
    groups: frozenset[str] = frozenset()

    def acts_for(self, tenant: str, at_ms: int) -> bool:
        """Whether its signature counts for a tenant's matters at this time, ms."""
        in_time = self.valid_until_ms is None or at_ms < self.valid_until_ms
        return self.active and in_time and (self.tenants is None or tenant in self.tenants)
