"""Quality bundles, tenants and overrides as approvers publish them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.core.trust.dsse import sign
from sluice.core.trust.signed_entries import QUALITY_BUNDLE_TYPE
from sluice_topics.catalog import BUNDLES
from tests.unit.core.trust.scene import ALICE, BOB, ROOT_KEY, Topics, approver

if TYPE_CHECKING:
    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.registry.keys import SigningKey

_SHIPPED = Path(__file__).resolve().parents[4] / "config" / "quality" / "default.json"
SHIPPED: dict[str, Any] = json.loads(_SHIPPED.read_bytes())
ROLES = ["approver"]
SIGNS = ["bundle", "quality_bundle", "org", "agent", "tool", "quality_override"]
DAY_S = 86_400


def quality_document(
    revision: int = 1, *, ttl: float = DAY_S, name: str = "q", **changes: Any
) -> dict[str, Any]:
    """The shipped quality bundle with its first case; `ttl` is that of product_pricing, in seconds."""
    ttls = {**SHIPPED["ttl_by_class"], "product_pricing": ttl}
    return {
        **SHIPPED,
        "id": name,
        "revision": revision,
        "ttl_by_class": ttls,
        "cases": SHIPPED["cases"][:1],
    } | changes


def quality_value(document: dict[str, Any], *signers: SigningKey) -> bytes:
    """A quality bundle's envelope."""
    return sign(QUALITY_BUNDLE_TYPE, json.dumps(document).encode(), signers).encode()


def quality(topics: Topics, document: dict[str, Any], *signers: SigningKey) -> InputRecord:
    """A signed quality bundle."""
    key = f"{document['id']}@{document['revision']}".encode()
    return topics.raw(BUNDLES, key, quality_value(document, *signers))


def org(revision: int = 1, tenant: str = "acme", **spec: Any) -> dict[str, Any]:
    """A tenant's entry."""
    return {"kind": "org", "id": tenant, "revision": revision, "spec": spec}


def override(name: str = "o1", revision: int = 1, **spec: Any) -> dict[str, Any]:
    """Alice's override for a tenant's item, for a day of the scene's time."""
    fields = {
        "tenant_id": "acme",
        "item_id": "doc-1",
        "approver_id": "alice",
        "expires_at": "2025-11-22T13:00:00.000Z",
        "justification": "read and still right",
    }
    return {"kind": "quality_override", "id": name, "revision": revision, "spec": {**fields, **spec}}


def trust_both() -> Topics:
    """Topics in which Alice and Bob may sign quality bundles, tenants' entries and overrides."""
    topics = Topics()
    for name, key in (("alice", ALICE), ("bob", BOB)):
        topics.entry(approver(name, key, signs=SIGNS, roles=ROLES), ROOT_KEY)
    return topics


def find_in_force(topics: Topics, name: str = "q") -> int:
    """The revision that counts."""
    return topics.reduce().quality[name].revision
