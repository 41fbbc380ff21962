"""Who answers escalations in the fault runs: approvers of all roles, tools that need them, and what was said.

Everything happens in sessions of its own (`PREFIX`), under bundles of its own, so that the other recounts of
a run leave it out.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from load.installations import neutral_policy
from sluice.client.sender import InputSigner
from sluice.core.registry.keys import SigningKey
from sluice.core.trust.dsse import sign
from sluice.core.trust.signed_entries import PAYLOAD_TYPES
from sluice_topics.catalog import ACTIONS, REGISTRY

if TYPE_CHECKING:
    from sluice_demo.throwaway_trust import ControlRecord, ThrowawayTrust
    from sluice_topics.audience import Audience

PREFIX = "approvals-"
"""Begins the names of the sessions in which actions are escalated."""
REFUND, WIRE, LOOK = "load.refund", "load.wire", "load.look"
ASKING_AGENT, HASTY_AGENT, SIGNING_AGENT = "asking-agent", "hasty-agent", "signing-agent"
HASTY_MS, TTL_MS, ROWS = 4000, 3_600_000, 7
"""How long the hasty agent's escalations wait, and the others'; the rows of every action."""
QUORUM = {"T3": 1, "T4": 2}
REMIND_MS, NEXT_MS = 700, 2000
LATER = "lena"
"""The approver of the second group, which gets an escalation `NEXT_MS` after the first; each group is
reminded after `REMIND_MS`."""
ROLES = {
    "ann": ["approver"],
    "ben": ["approver"],
    "vera": ["vp"],
    "victor": ["vp"],
    "audit": ["reviewer"],
    LATER: ["approver"],
}
_OWN_KEYS = {name: Ed25519PrivateKey.generate() for name in (*ROLES, ASKING_AGENT)}
KEYS = {name: SigningKey(key) for name, key in _OWN_KEYS.items()}
_AGENT_KEYS = {name: Ed25519PrivateKey.generate() for name in ("own", "stolen")}
PEMS = {
    name: key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for name, key in {**_OWN_KEYS, **_AGENT_KEYS}.items()
}
"""The keys of people, that of the agent that signs, and another one."""
OPENED, RESOLVED = "sluice/escalation_opened/v1", "sluice/escalation_resolved/v1"
EXPIRED, COUNTED = "sluice/escalation_expired/v1", "sluice/approval_counted/v1"
REMINDED, REROUTED = "sluice/escalation_reminded/v1", "sluice/escalation_rerouted/v1"
REFUSED = "sluice/input_refused/v1"
UNREADABLE = "content_unavailable"
"""The code of an approval whose action could not be read again."""
STALE_MS = 3_600_000
FORGED = ("stripped", "stolen key", "altered", "other session", "other installation", "stale")
"""How an action in the name of the agent that signs is not its own."""
Place = tuple[int, int]
"""Partition and offset."""


@dataclass
class WhatWasSaid:
    """What people and agents published: the answers that may count by their place, as escalation, approver
    and decision; `sent`: how many in all. `unsigned`: places of actions of the signing agent that have no
    good signature; `signed`: of those that have one."""

    good: dict[Place, tuple[str, str, str]] = field(default_factory=dict)
    sent: int = 0
    signed: set[Place] = field(default_factory=set)
    unsigned: set[Place] = field(default_factory=set)


def is_of_people(key: bytes | None) -> bool:
    """Whether a record is of a session in which actions are escalated."""
    return key is not None and key.startswith(PREFIX.encode())


def records(trust: ThrowawayTrust) -> list[ControlRecord]:
    """Approvers of all roles, an agent's own key among them, tools that need them, and three agents."""
    approvers = {**ROLES, ASKING_AGENT: ["approver", "vp"]}
    signed = [approver(trust, name, KEYS[name], roles) for name, roles in approvers.items()]
    route = {"groups": ["desk", "leads"], "remind_after_ms": REMIND_MS, "next_after_ms": NEXT_MS}
    terms = {"quorum": {"T4": QUORUM["T4"]}, "routing": [route]}
    bundle = {**neutral_policy.bundle(), "id": "load.asking", "approvals": terms}
    hasty = {**bundle, "id": "load.hasty", "escalation_ttl_ms": HASTY_MS}
    payment = {"action_type": "PAYMENT", "reversible": False, "trusts_row_claims": True}
    look = {"action_type": "DATABASE_READ", "reversible": True, "trusts_row_claims": True}
    public = SigningKey(_AGENT_KEYS["own"]).public.text
    others = [
        _agent(ASKING_AGENT, "load.asking"),
        _agent(HASTY_AGENT, "load.hasty"),
        _agent(SIGNING_AGENT, "load.asking", keys=[{"public_key": public}]),
        entry("tool", REFUND, **payment, tier="T3"),
        entry("tool", WIRE, **payment, tier="T4"),
        entry("tool", LOOK, **look, tier="T1"),
    ]
    bundles = [trust.sign_bundle(json.dumps(document).encode()) for document in (bundle, hasty)]
    return [*signed, *bundles, *trust.sign_entries(others)]


def approver(trust: ThrowawayTrust, name: str, key: SigningKey, roles: list[str]) -> ControlRecord:
    """The entry of an approver, signed by the root key."""
    groups = ["leads" if name == LATER else "desk"]
    document = entry("approver", name, public_key=key.public.text, roles=roles, groups=groups)
    value = sign(PAYLOAD_TYPES[REGISTRY], orjson.dumps(document), [trust.root]).encode()
    return REGISTRY, f"approver/{name}@1".encode(), value


def _agent(name: str, bundle: str, **more: Any) -> dict[str, Any]:
    common = {"tenant_id": neutral_policy.TENANT, "tier": "T2", "policy_bundle_id": bundle}
    return entry("agent", name, **common, **more)


def entry(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    """A registry entry, its first revision."""
    return {"kind": kind, "id": name, "revision": 1, "spec": spec}


def signature_of(
    audience: Audience, value: bytes, session: str, key: str = "own", late_ms: int = 0
) -> tuple[str, bytes]:
    """The header with the signature of the agent that signs, or of who has another key."""
    now_ms = time.time_ns() // 1_000_000
    return InputSigner(PEMS[key], audience).make_header(ACTIONS, session, value, now_ms - late_ms)


def forge_headers(audience: Audience, how: str, value: bytes, session: str) -> list[tuple[str, bytes]]:
    """The headers of an action in the agent's name that is not its own; `how` is one of FORGED."""
    match how:
        case "stripped":
            return []
        case "stolen key":
            return [signature_of(audience, value, session, "stolen")]
        case "altered":
            return [signature_of(audience, value.replace(b"a-", b"b-", 1), session)]
        case "other session":
            return [signature_of(audience, value, f"{session}-other")]
        case "other installation":
            return [signature_of(audience._replace(installation="staging"), value, session)]
    return [signature_of(audience, value, session, late_ms=STALE_MS)]
