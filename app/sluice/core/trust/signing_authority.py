"""Which key may sign what, and when; and which changes need several signers.

The roots and the approvers' entries in force at a moment decide which signature is allowed. Seed 004,
"Quality bundle change without policy review": a quality bundle must not become a back door to relax
controls, so for some changes one allowed signature is not enough.

- A bundle, of policy or of quality, that relaxes the revision in force needs two approvers, not two keys of
  one. A refused revision was never in force, so a series of small steps reaches nothing.
- A policy bundle under a new id needs two approvers where another one counts: one approver could relax
  whatever they like in it and let an agent name it. The first of an installation counts with one.
- An agent is led to a laxer bundle by two approvers (bundle_moves.py).
- Two approvers are needed to move a tenant from enforce into shadow mode, where nothing is withheld. A
  tenant may begin in shadow mode with one: tenants are introduced like this. Not so while a freeze stops it,
  or everything, since a freeze stops nothing in shadow mode.
- Two approvers are needed to change the quality bundle that judges a tenant, and for the first revision of a
  quality bundle that a tenant already names. Otherwise one approver could publish a relaxed one under a new
  id and let the tenant name it, before or after.
- Two approvers are needed for a delegate that signs answers of people, and for whatever lets it sign more:
  its key stands for the keys of all who log in to it.
- An override is the decision of one named person. It needs the signature of that approver, who must have a
  role that decides on escalations and the right to decide for the tenant; and its time is limited.
- An erasure is signed by an approver who decides for its tenant.
- A delegate that signs answers of people may sign a freeze for one of them (delegated_freezes.py), and
  nothing else of the control topics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.core.foundation.clock import read_milliseconds, rfc3339
from sluice.core.registry.agent_grants import LONGEST_GRANT_MS, AgentGrantSpec
from sluice.core.registry.agent_keys import DelegateSpec
from sluice.core.registry.keys import PublicKey, UnusableKeyError
from sluice.core.registry.quality_entries import LONGEST_OVERRIDE_MS, QualityOverrideSpec
from sluice.core.registry.registry_entries import OrgSpec
from sluice.core.trust.delegated_freezes import DECIDES, DELEGATE, FREEZE, find_wide_freeze, object_to_freeze
from sluice.core.trust.erasing import ERASURE, object_to_erasure
from sluice.core.trust.refused import ENOUGH, Reason, demand_second
from sluice.core.trust.signed_entries import APPROVER, BUNDLE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from sluice.core.registry.agent_keys import Delegate
    from sluice.core.registry.approvers import Approver
    from sluice.core.registry.keys import Roots
    from sluice.core.trust.revisions import Accepted


class Authority:
    """The approvers known so far. It takes approvers' entries in order, and answers for the moment reached.

    A key belongs to one approver for ever; otherwise a revoked key could continue under another name. A
    replaced or revoked key stays known, so its records are refused for that reason and not as unknown.
    """

    def __init__(self, roots: Roots) -> None:
        self._roots = roots.by_id
        self._retired_at_ms = roots.retired_at_ms
        self._approvers: dict[str, Approver] = {}
        self._keys: dict[str, PublicKey] = dict(roots.by_id)
        self._owners: dict[str, str] = {}
        self._delegates: dict[str, PublicKey] = {}

    @property
    def keys(self) -> Mapping[str, PublicKey]:
        """Every present or former key, by id; those of delegates that sign for people too."""
        return self._delegates | self._keys if self._delegates else self._keys

    def object_to_key(self, approver: Approver) -> Reason | None:
        """Why an approver's entry may not add its key; None if it may."""
        try:
            keyid = _get_public_key(approver).keyid
        except UnusableKeyError as error:
            return Reason("invalid_entry", "$.spec.public_key", str(error))
        if keyid in self._roots:
            return Reason("invalid_entry", "$.spec.public_key", "the key is a root key")
        owner = self._owners.get(keyid, approver.id)
        if owner != approver.id:
            return Reason("invalid_entry", "$.spec.public_key", f"the key is or was approver {owner}'s")
        return None

    def admit(self, approver: Approver) -> None:
        """Take an approver's newest entry. Call only if `object_to_key` has none to it."""
        key = _get_public_key(approver)
        self._keys[key.keyid] = key
        self._owners[key.keyid] = approver.id
        self._approvers[approver.id] = approver

    def admit_delegate(self, delegate: Delegate) -> None:
        """Take the keys of a delegate's newest entry, if it signs for people."""
        if delegate.roles:
            keys = (PublicKey(key.public_key.public_bytes_raw()) for key in delegate.keys)
            self._delegates |= {key.keyid: key for key in keys}

    def select_allowed(self, signers: Iterable[str], kind: str, at_ms: int) -> dict[str, Approver] | Reason:
        """The approvers who signed and may sign this kind at this moment, by id: people, not keys; empty if
        a root key or a delegate signed. If none of the signers may, why each may not."""
        reasons = {keyid: self._object_to_signer(keyid, kind, at_ms) for keyid in sorted(signers)}
        may = [keyid for keyid, reason in reasons.items() if reason is None]
        if not may:
            description = "; ".join(reason or "" for reason in reasons.values())
            return Reason("key_not_allowed", "$.signatures", description)
        owners = [self._owners[keyid] for keyid in may if keyid in self._owners]
        return {owner: self._approvers[owner] for owner in owners}

    def _object_to_signer(self, keyid: str, kind: str, at_ms: int) -> str | None:
        if kind == APPROVER:
            return self._object_to_root(keyid, at_ms)
        if keyid in self._roots:
            return "a root key signs approvers' entries and nothing else"
        if keyid in self._owners:
            return object_to_approver(self._approvers[self._owners[keyid]], keyid, kind, at_ms)
        return None if kind == FREEZE else "a delegate signs freezes for people and no other entry"

    def _object_to_root(self, keyid: str, at_ms: int) -> str | None:
        if keyid not in self._roots:
            return "only a root key signs an approver's entry"
        retired_at_ms = self._retired_at_ms.get(keyid)
        if retired_at_ms is None or at_ms < retired_at_ms:
            return None
        return f"this root key was retired at {rfc3339(retired_at_ms)}"


def object_to_approver(approver: Approver, keyid: str, kind: str, at_ms: int) -> str | None:
    """Why a key that is or was this approver's may not sign this kind at this time (ms since 1970) by its
    entry; None if it may."""
    who = f"approver {approver.id}"
    if _get_public_key(approver).keyid != keyid:
        return f"this key of {who} was replaced"
    if not approver.active:
        return f"{who} was revoked"
    if approver.valid_until_ms is not None and at_ms >= approver.valid_until_ms:
        return f"the key of {who} was valid until {rfc3339(approver.valid_until_ms)}"
    return None if kind in approver.signs else f"{who} may not sign a {kind}"


def _get_public_key(approver: Approver) -> PublicKey:
    return PublicKey(approver.public_key.public_bytes_raw())


ORG = "org"
OVERRIDE, AGENT_GRANT = "quality_override", "agent_grant"
POLICY_LOSS = "policy_loss"
SHADOW = "shadow"


def object_to_relaxation(
    relaxations: Sequence[str], before: str, approvers: Collection[str]
) -> Reason | None:
    """Why a bundle that relaxes `before` ("id@revision") in this way may not replace it."""
    if not relaxations or len(approvers) >= ENOUGH:
        return None
    more = f" (and {len(relaxations) - 1} more)" if len(relaxations) > 1 else ""
    return demand_second(approvers, f"it relaxes {before}: {relaxations[0]}{more}")


def object_to_first_revision(
    quality_bundle_id: str, newest: Mapping[tuple[str, str], Accepted], approvers: Collection[str]
) -> Reason | None:
    """Why a quality bundle's first revision may not count: a tenant already names it."""
    if len(approvers) >= ENOUGH:
        return None
    led = (
        entry.statement.id
        for entry in newest.values()
        if entry.kind == ORG and _get_quality_bundle_id(entry) == quality_bundle_id
    )
    tenant = next(led, None)
    return None if tenant is None else demand_second(approvers, f"tenant {tenant} names it already")


def object_to_new_id(newest: Mapping[tuple[str, str], Accepted], approvers: Collection[str]) -> Reason | None:
    """Why a policy bundle under a new id may not count: others are in force, and it relaxes whichever of them
    it may be named in place of. The first of an installation is signed by whoever sets it up."""
    others = sorted(name for kind, name in newest if kind == BUNDLE)
    if not others or len(approvers) >= ENOUGH:
        return None
    return demand_second(approvers, f"it is a policy bundle under a new id, beside {others[0]}")


def object_to_entry(
    entry: Accepted, newest: Mapping[tuple[str, str], Accepted], approvers: Mapping[str, Approver]
) -> Reason | None:
    """Why a valid registry entry does not count with these approvers; `newest` entries by kind and id."""
    spec = entry.document["spec"]
    if entry.kind == ORG:
        return _object_to_org(spec, entry.statement.id, newest, approvers)
    if entry.kind == OVERRIDE:
        return _object_to_override(QualityOverrideSpec.model_validate(spec), entry.at_ms, approvers)
    if entry.kind == AGENT_GRANT:
        return _object_to_grant(AgentGrantSpec.model_validate(spec), entry.at_ms, approvers)
    if entry.kind == FREEZE:
        return object_to_freeze(entry, newest, approvers)
    if entry.kind == DELEGATE:
        return _object_to_delegate(spec, entry.statement.id, newest, approvers)
    objection = object_to_erasure(entry, newest, approvers) if entry.kind == ERASURE else None
    return _object_to_loss(entry, approvers) if entry.kind == POLICY_LOSS else objection


def _object_to_org(
    spec: Mapping[str, Any],
    tenant: str,
    newest: Mapping[tuple[str, str], Accepted],
    approvers: Collection[str],
) -> Reason | None:
    if len(approvers) >= ENOUGH:
        return None
    entry = newest.get((ORG, tenant))
    before = OrgSpec() if entry is None else OrgSpec.model_validate(entry.document["spec"])
    after = OrgSpec.model_validate(spec)
    if entry is not None and after.enforcement == SHADOW != before.enforcement:
        return demand_second(approvers, f"tenant {tenant} goes from {before.enforcement} to {SHADOW}")
    freeze = find_wide_freeze(tenant, newest) if entry is None and after.enforcement == SHADOW else None
    if freeze is not None:
        return demand_second(approvers, f"tenant {tenant}, which {freeze.key} stops, begins in {SHADOW}")
    led = (before.quality_bundle_id, after.quality_bundle_id)
    if led[0] == led[1]:
        return None
    return demand_second(
        approvers,
        f"tenant {tenant} goes from {_describe_quality_bundle(led[0])} to {_describe_quality_bundle(led[1])}",
    )


def _object_to_override(
    override: QualityOverrideSpec, published_ms: int, approvers: Mapping[str, Approver]
) -> Reason | None:
    """Why an override does not count. Revoking an override needs the same signature, that of the named
    approver."""
    approver = approvers.get(override.approver_id)
    if approver is None:
        description = f"approver {override.approver_id}, whose word it is, did not sign it"
        return Reason("key_not_allowed", "$.spec.approver_id", description)
    if not approver.roles & DECIDES:
        description = f"approver {approver.id} has no role that decides: {' or '.join(sorted(DECIDES))}"
        return Reason("key_not_allowed", "$.spec.approver_id", description)
    if approver.tenants is not None and override.tenant_id not in approver.tenants:
        description = f"approver {approver.id} does not decide on items of {override.tenant_id}"
        return Reason("key_not_allowed", "$.spec.tenant_id", description)
    if read_milliseconds(override.expires_at) > published_ms + LONGEST_OVERRIDE_MS:
        latest = rfc3339(published_ms + LONGEST_OVERRIDE_MS)
        return Reason("invalid_entry", "$.spec.expires_at", f"an override of now ends by {latest}")
    return None


def _object_to_grant(
    grant: AgentGrantSpec, published_ms: int, approvers: Mapping[str, Approver]
) -> Reason | None:
    """Why a grant for an agent does not count. Any approver of the tenant and the tool may end it."""
    approver = approvers.get(grant.approver_id)
    deciding = [approver] if grant.active else list(approvers.values())
    if not any(decider is not None and _decides_on(decider, grant) for decider in deciding):
        who = grant.approver_id if grant.active else "of the tenant and the tool"
        description = f"approver {who} did not sign it, or has no role that decides on this tenant and tool"
        return Reason("key_not_allowed", "$.spec.approver_id", description)
    if grant.active and read_milliseconds(grant.expires_at) > published_ms + LONGEST_GRANT_MS:
        latest = rfc3339(published_ms + LONGEST_GRANT_MS)
        return Reason("invalid_entry", "$.spec.expires_at", f"a grant of now ends by {latest}")
    return None


def _object_to_delegate(
    spec: Mapping[str, Any],
    name: str,
    newest: Mapping[tuple[str, str], Accepted],
    approvers: Collection[str],
) -> Reason | None:
    """Why a delegate that signs for people may not count: one approver may only narrow what it signs."""
    after, entry = DelegateSpec.model_validate(spec), newest.get((DELEGATE, name))
    if not after.roles or len(approvers) >= ENOUGH:
        return None
    before = None if entry is None else DelegateSpec.model_validate(entry.document["spec"])
    if before is None or not _is_narrower(after, before):
        return demand_second(approvers, f"delegate {name} may sign more for people")
    return None


def _object_to_loss(entry: Accepted, approvers: Collection[str]) -> Reason | None:
    """Why an accepted loss does not count. It names its installation: what is lost in one is not in another,
    and whoever deletes topics may also write them."""
    if not entry.statement.installations:
        description = "an accepted loss names the installation that it is for"
        return Reason("invalid_entry", "$.installations", description)
    return (
        None
        if len(approvers) >= ENOUGH
        else demand_second(approvers, "entries that were in force are missing")
    )


def _is_narrower(after: DelegateSpec, before: DelegateSpec) -> bool:
    """Whether a delegate may sign no more than before: a key may at most be revoked."""
    keys = [key.model_copy(update={"revoked_at": None}) for key in before.keys if key.revoked_at is None]
    keys += before.keys
    now = [key if key in before.keys else key.model_copy(update={"revoked_at": None}) for key in after.keys]
    fewer = set(after.roles) <= set(before.roles) and set(after.tenants) <= set(before.tenants)
    return fewer and all(key in keys for key in now)


def _decides_on(approver: Approver, grant: AgentGrantSpec) -> bool:
    with_tenant = approver.tenants is None or grant.tenant_id in approver.tenants
    with_tool = approver.tools is None or grant.tool in approver.tools
    return with_tenant and with_tool and bool(approver.roles & DECIDES)


def _get_quality_bundle_id(org: Accepted) -> str | None:
    named: str | None = org.document["spec"].get("quality_bundle_id")
    return named


def _describe_quality_bundle(quality_bundle_id: str | None) -> str:
    return "the default quality bundle" if quality_bundle_id is None else quality_bundle_id
