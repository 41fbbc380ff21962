"""Memory writes and reviews on a real broker: an installation with a reviewer, and two agents that differ."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import orjson
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from load.installations import neutral_policy
from sluice.core.registry.keys import SigningKey
from sluice.core.trust.dsse import sign
from sluice.core.trust.signed_entries import PAYLOAD_TYPES
from sluice.core.trust.signing import sign_review
from sluice.stream.engine.outbox import home_of
from sluice_demo.throwaway_trust import publish_policy
from sluice_topics.catalog import REGISTRY
from tests.kafka.installation import installation_on

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from load.installations.installation import TestInstallation

HASTY_AGENT = "hasty-agent"
"""Its memories wait for a reviewer for `HASTY_MS` only."""
HASTY_MS = 10_000
REVIEWER = "carol"
MEMORY_TOPIC = "gate.memory.writes.proposed"
NOBODY_KNOWS = ["memory:gate.memory.writes.proposed:0:999999"]
"""Parents that have a write wait for a reviewer, whatever its content."""


@dataclass(frozen=True)
class MemoryInstallation:
    """An installation, and the key of its one reviewer."""

    installation: TestInstallation
    key: SigningKey


def memory_installation(
    kafka: str, folder: Path, name: str, stages: Sequence[str] = neutral_policy.STAGES, **settings: str
) -> MemoryInstallation:
    """Topics, the neutral policy, a reviewer of every tenant's memories, and the hasty agent."""
    installation, key = (
        installation_on(kafka, folder, name, stages, **settings),
        SigningKey(Ed25519PrivateKey.generate()),
    )
    spec = {"public_key": key.public.text, "roles": ["reviewer"]}
    reviewer = {"kind": "approver", "id": REVIEWER, "revision": 1, "spec": spec}
    signed = sign(PAYLOAD_TYPES[REGISTRY], orjson.dumps(reviewer), [installation.trust.root]).encode()
    patient = {**neutral_policy.bundle(revision=2, stages=stages), "memory": {}}
    hasty = {
        **neutral_policy.bundle(stages=stages),
        "id": "load.hasty",
        "memory": {"quarantineReviewMs": HASTY_MS},
    }
    given = {"tenant_id": neutral_policy.TENANT, "tier": "T2", "policy_bundle_id": "load.hasty"}
    agent = {"kind": "agent", "id": HASTY_AGENT, "revision": 1, "spec": given}
    records = [
        (REGISTRY, f"approver/{REVIEWER}@1".encode(), signed),
        installation.trust.sign_bundle(json.dumps(patient).encode()),
        installation.trust.sign_bundle(json.dumps(hasty).encode()),
        *installation.trust.sign_entries([agent]),
    ]
    asyncio.run(publish_policy(kafka, installation.prefix, records))
    return MemoryInstallation(installation, key)


def session_in(installation: TestInstallation, partition: int, name: str = "s") -> str:
    """A session of this name that lies in the partition."""
    names = (f"{name}-{number}" for number in range(10_000))
    return next(one for one in names if home_of(one.encode(), installation.partitions) == partition)


def write(session: str, write_id: str, **more: Any) -> dict[str, Any]:
    """A memory write of a user's, with everything that the quality rule asks for."""
    return {
        "write_id": write_id,
        "agent_id": neutral_policy.AGENT,
        "session_id": session,
        "content": f"The customer prefers e-mail ({write_id}).",
        "source": {"id": "mail", "type": "user"},
        "content_class": "internal_policy",
        "timestamp": "2026-01-01T00:00:00Z",
        "confidence_score": 0.9,
        "provenance_uri": "https://mail.example/7",
        "provenance_hash": "sha256:" + "0" * 64,
    } | more


def make_held_write(session: str, write_id: str, **more: Any) -> dict[str, Any]:
    """One that goes into quarantine: it derives from a memory that nobody knows."""
    return write(session, write_id, derived_from=NOBODY_KNOWS, **more)


def review(
    made: MemoryInstallation, entered: dict[str, Any], decision: str, **changed: str
) -> dict[str, Any]:
    """The reviewer's signed answer to a QuarantineEntered, signed with what is changed in it."""
    fields = {
        "subject_id": entered["memory_id"],
        "session_id": entered["session_id"],
        "decision": decision,
        "approver_id": REVIEWER,
        "digest": entered["content_digest"],
        "justification": "read and compared",
    }
    return sign_review({**fields, **changed}, made.key, made.installation.audience).model_dump(
        mode="json", exclude_none=True
    )


def digest(content: str) -> str:
    """What a review of this content is bound to, worked out apart from the product's own."""
    return "sha256:" + sha256(content.encode()).hexdigest()
