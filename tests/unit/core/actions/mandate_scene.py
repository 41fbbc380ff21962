"""Issuers, mandates and a session in which they count."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from sluice.client.mandates import MandateIssuer, MandateTerms, compute_mandate_digest, issue_mandate
from sluice.client.sender import InputSigner
from sluice_topics.audience import UNNAMED, Audience
from sluice_topics.catalog import MANDATES
from tests.unit.core.rerun.reruns import SMALL, Case, document
from tests.unit.core.scene import MINUTE, START, entry, public_key

if TYPE_CHECKING:
    from sluice.core.state.decision import Decision

STAGES = ["controls", "fast_reject", "rules", "mandate", "consequence", "topology", "tier_auth"]
CONSOLE, OTHER = (Ed25519PrivateKey.from_private_bytes(bytes([n] * 32)) for n in (21, 22))
ISSUERS = (
    entry("issuer", "console", tenant_id="acme", keys=[{"public_key": public_key(CONSOLE)}]),
    entry("issuer", "narrow", tenant_id="acme", keys=[{"public_key": public_key(OTHER)}], agents=["reader"]),
    entry("issuer", "foreign", tenant_id="globex", keys=[{"public_key": public_key(OTHER)}]),
)
REFUND = entry(
    "task",
    "refund",
    tenant_id="acme",
    task="Refund order {order} to {account}",
    tools=[
        {"tool": "find"},
        {"tool": "pay", "condition": "action.parameters.to == mandate.values.account", "count": 1},
    ],
    slots=[{"name": "order"}, {"name": "account", "destination": True}],
)


def make_moment(at_ms: int) -> datetime:
    """A time of the scene."""
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def write_pem(key: Ed25519PrivateKey) -> bytes:
    """A private key as its file has it."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def make_mandate(
    issuer: str = "console",
    key: Ed25519PrivateKey = CONSOLE,
    *,
    audience: Audience = UNNAMED,
    agent_id: str = "operator",
    session_id: str = "s-1",
    until_ms: int = START + 10 * MINUTE,
    **given: Any,
) -> dict[str, Any]:
    """A signed mandate of the operator; what is given is as `issue_mandate` takes it."""
    pem = write_pem(key)
    task = {} if {"template", "task_hash"} & given.keys() else {"task": "Find the open orders"}
    who = MandateIssuer(issuer, InputSigner(pem, audience))
    named = {"mandate_id": "m-1", **task, **given}
    return issue_mandate(who, agent_id, session_id, make_moment(until_ms), MandateTerms(**named))


digest_of = compute_mandate_digest


def make_bundle(stages: list[str] | None = None, **part: Any) -> bytes:
    """The small bundle with the gate on."""
    return document(**SMALL, stages=stages or STAGES, mandate=part)


@dataclass
class Mandated(Case):
    """A case in which mandates are recorded."""

    def issue(self, mandate: dict[str, Any]) -> dict[str, Any]:
        """What a mandate's recording came to: the first record."""
        found = self.put(mandate)
        body: dict[str, Any] = json.loads(json.dumps(found.records[-1].body, default=list))
        return body

    def put(self, mandate: dict[str, Any]) -> Decision:
        """The decision on a mandate."""
        return self._take(MANDATES, mandate)

    def rerun_states(self) -> set[str]:
        """What all verdicts so far come to when they are executed again."""
        return {one.status for one in self.rerun_all()}
