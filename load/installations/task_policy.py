"""Agents of the fault runs that act under mandates and limits, and whose destinations are looked up.

They act in sessions of their own (`PREFIX`), under a bundle of their own, so that the other recounts of a run
leave them out. What comes of their actions depends on mandates, limits and results, so it is not foretold:
load/recomputation/task_recount.py reads from the ledger alone whether it may be so.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from load.installations.approvers import entry
from load.installations.neutral_policy import TENANT, bundle
from sluice.core.registry.keys import SigningKey
from sluice.secrets.value_keys import write_value_key
from sluice_topics.values import derive_tenant_key

if TYPE_CHECKING:
    from pathlib import Path

    from sluice_demo.throwaway_trust import ControlRecord, ThrowawayTrust

PREFIX = "tasks-"
"""Begins the names of the sessions in which these agents act."""
BUNDLE, ROLE, ISSUER = "load.tasks", "payers", "load-console"
PAYERS = ("load-payer", "load-second-payer")
"""Peers: both have the role `ROLE`, and a mandate of the second may lie within one of the first."""
PAY, CONTACTS, INBOX = "load.pay", "load.contacts", "load.inbox"
"""What a payment says has roles; what contacts return is trusted, what the inbox returns is not."""
REGISTERED = tuple(f"ops-{number}@load.example" for number in range(4))
"""Destinations that the agents' entries name."""
STAGES = (
    *("controls", "limits", "fast_reject", "poison", "slow_probe", "mandate", "consequence", "destinations"),
    "tier_auth",
)
TTL_MS = 3000
"""Nobody answers: what waits for a person ends after this time, and gives back what it reserved."""
ROW_LIMIT, COUNT_LIMIT, SUM_LIMIT, DISTINCT_LIMIT = "load-rows", "load-count", "load-sum", "load-distinct"
HOUR_MS = 3_600_000
LIMITS: dict[str, dict[str, Any]] = {
    ROW_LIMIT: {"per": "agent", "agent_ids": [*PAYERS], "sum": "rows", "most": 1200, "window_ms": 20_000},
    COUNT_LIMIT: {"per": "agent", "tools": [PAY], "count": True, "most": 60, "window_ms": 10_000},
    SUM_LIMIT: {
        "per": "tenant",
        "roles": [ROLE],
        "tools": [PAY],
        "sum": "$.amount",
        "most": 4000,
        "window_ms": 15_000,
        "outcome": "deny",
    },
    DISTINCT_LIMIT: {
        "per": "tenant",
        "roles": [ROLE],
        "tools": [PAY],
        "distinct": "destination",
        "most": 96,
        "window_ms": HOUR_MS,
    },
}
"""Small enough that shares are spent all the time; the last one is used up once and for all."""
MASTER_KEY = bytes(range(32))
"""Of values' fingerprints."""
_ISSUER_KEY = Ed25519PrivateKey.from_private_bytes(bytes(reversed(range(32))))
ISSUER_PEM = _ISSUER_KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
_STRANGER = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
STRANGER_PEM = _STRANGER.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
STRANGER = SigningKey(_STRANGER)
"""A key that nobody registered."""


def is_of_tasks(key: bytes | None) -> bool:
    """Whether a record is of a session in which these agents act."""
    return key is not None and key.startswith(PREFIX.encode())


def derive_values_key() -> bytes:
    """The tenant's key of values, as an enforcement point has it."""
    return derive_tenant_key(MASTER_KEY, TENANT)


def write_settings(folder: Path) -> dict[str, str]:
    """The settings by which a worker has the key of values; its file is written into the folder."""
    path = folder / "values.key"
    if not path.exists():
        write_value_key(path, MASTER_KEY)
    return {"SLUICE_VALUES__MASTER_KEY_FILE": str(path)}


def make_bundle() -> dict[str, Any]:
    """A payment needs a mandate; where it goes must be known. What strangers alone wrote is denied."""
    answers = {"nowhere": "advise", "unknown": "ask", "untrusted_read": "deny"}
    return {
        **bundle(stages=STAGES),
        "id": BUNDLE,
        "escalation_ttl_ms": TTL_MS,
        "mandate": {"tiers": {"T2": {"need": "needed", "outside": "ask"}}},
        "destinations": {"mode": "enforce", "tiers": {"T2": answers}},
    }


def make_entries() -> list[dict[str, Any]]:
    """The agents, their tools, the issuer of their mandates, and the limits."""
    agent = {"tenant_id": TENANT, "tier": "T2", "policy_bundle_id": BUNDLE, "roles": [ROLE]}
    reads = {"tier": "T1", "action_type": "DATABASE_READ", "reversible": True, "trusts_row_claims": True}
    pays = {"tier": "T2", "action_type": "PAYMENT", "reversible": False, "trusts_row_claims": True}
    roles = {"destination": ["$.to"], "amount": ["$.amount"]}
    key = {"public_key": SigningKey(_ISSUER_KEY).public.text}
    return [
        *(entry("agent", name, **agent, destinations=[*REGISTERED]) for name in PAYERS),
        entry("tool", PAY, **pays, roles=roles),
        entry("tool", CONTACTS, **reads, returns_trusted=True),
        entry("tool", INBOX, **reads, returns_untrusted=True),
        entry("issuer", ISSUER, tenant_id=TENANT, keys=[key]),
        *(entry("limit", name, tenant_id=TENANT, **spec) for name, spec in LIMITS.items()),
    ]


def make_revocation(digest: str) -> dict[str, Any]:
    """The entry that ends a mandate and all within it."""
    return entry("mandate_revocation", digest, tenant_id=TENANT, reason="the fault runs end it")


def records(trust: ThrowawayTrust) -> list[ControlRecord]:
    """All of it, as it is published beside the neutral policy."""
    signed = trust.sign_bundle(json.dumps(make_bundle()).encode())
    return [signed, *trust.sign_entries(make_entries())]
