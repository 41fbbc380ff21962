"""Keys that everybody can compute, and control topics filled with what they sign."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sluice.core.cases.case_failure import CaseFailure
from sluice.core.foundation.canonical import digest
from sluice.core.foundation.input_record import InputRecord
from sluice.core.registry.keys import Roots, SigningKey
from sluice.core.trust.compile_cache import CompileCache
from sluice.core.trust.dsse import sign
from sluice.core.trust.reduction import ReducedPolicy, reduce_policy
from sluice.core.trust.signed_entries import PAYLOAD_TYPES
from sluice_topics.catalog import BUNDLES, REGISTRY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice.core.policy.bundles import Bundle


def key(name: str) -> SigningKey:
    """The private key that a name gives; for tests only, as it is no secret."""
    return SigningKey(Ed25519PrivateKey.from_private_bytes(sha256(name.encode()).digest()))


ROOT_KEY, ALICE, BOB, STRANGER = key("root"), key("alice"), key("bob"), key("stranger")
ROOTS = Roots([ROOT_KEY.public.text])
SECOND = 1000
START = 1_763_730_000_000
"""2025-11-21T13:00:00Z, as good as any."""
_CONFIG = Path(__file__).resolve().parents[4] / "config"
_SHIPPED = json.loads((_CONFIG / "bundles" / "default.json").read_bytes())


def bundle_document(revision: int = 1, **changes: Any) -> dict[str, Any]:
    """A small bundle: the shipped tables without patterns, rules and cases."""
    left_out = ("include", "patterns", "rules", "cases")
    tables = {name: value for name, value in _SHIPPED.items() if name not in left_out}
    return {**tables, "id": "small", "revision": revision, **changes}


def agent(name: str = "reader", revision: int = 1, **spec: Any) -> dict[str, Any]:
    """An agent's entry."""
    return {
        "kind": "agent",
        "id": name,
        "revision": revision,
        "spec": {"tenant_id": "acme", "tier": "T1", **spec},
    }


def tool(name: str = "search", revision: int = 1, **spec: Any) -> dict[str, Any]:
    """A tool's entry."""
    return {"kind": "tool", "id": name, "revision": revision, "spec": {"tier": "T1", **spec}}


def approver(name: str, of: SigningKey, revision: int = 1, **spec: Any) -> dict[str, Any]:
    """An approver's entry; may sign bundles, agents and tools if not told otherwise."""
    signs = {"signs": ["bundle", "agent", "tool"]}
    body = {"public_key": of.public.text, **signs, **spec}
    return {"kind": "approver", "id": name, "revision": revision, "spec": body}


def together(name: str, *entries: dict[str, Any]) -> list[dict[str, Any]]:
    """The entries as one change."""
    hashes = {f"{one['kind']}/{one['id']}@{one['revision']}": digest(one) for one in entries}
    return [{**one, "change": {"id": name, "entries": hashes}} for one in entries]


class Topics:
    """Both control topics as they fill up, a second between records. `cases`: those that are to fail."""

    def __init__(self, *cases: str) -> None:
        self.records: list[InputRecord] = []
        self.now_ms = START
        self.ran: list[str] = []
        self._cases = [
            CaseFailure(name, "outcome", "BLOCK", "ALLOW", position=place) for place, name in enumerate(cases)
        ]
        self.compiled = CompileCache(self._run)

    def _run(self, bundle: Bundle) -> Sequence[CaseFailure]:
        self.ran.append(bundle.hash)
        return self._cases

    def raw(self, topic: str, record_key: bytes | None, value: bytes | None) -> InputRecord:
        """Anything at all, a second later."""
        self.now_ms += SECOND
        offset = sum(one.topic == topic for one in self.records)
        self.records.append(InputRecord(topic, 0, offset, self.now_ms, record_key, value))
        return self.records[-1]

    def bundle(self, document: dict[str, Any], *signers: SigningKey) -> InputRecord:
        """A signed bundle."""
        return self.raw(
            BUNDLES, f"{document['id']}@{document['revision']}".encode(), bundle_value(document, *signers)
        )

    def entry(self, document: dict[str, Any], *signers: SigningKey) -> InputRecord:
        """A signed entry."""
        name = f"{document['kind']}/{document['id']}@{document['revision']}"
        return self.raw(REGISTRY, name.encode(), entry_value(document, *signers))

    def replay(self, input_record: InputRecord) -> InputRecord:
        """The same bytes under the same key once more."""
        return self.raw(input_record.topic, input_record.key, input_record.value)

    def reduce(self) -> ReducedPolicy:
        """What is in force."""
        return reduce_policy(self.records, ROOTS, self.compiled)

    def refusals(self) -> list[tuple[InputRecord, str]]:
        """Every refused record with its code."""
        return [(one.input_record, one.code) for one in self.reduce().refused]


def bundle_value(document: dict[str, Any], *signers: SigningKey) -> bytes:
    """A bundle's envelope."""
    return sign(PAYLOAD_TYPES[BUNDLES], json.dumps(document).encode(), signers).encode()


def entry_value(document: dict[str, Any], *signers: SigningKey) -> bytes:
    """An entry's envelope."""
    return sign(PAYLOAD_TYPES[REGISTRY], json.dumps(document).encode(), signers).encode()


def trust_alice(*cases: str) -> Topics:
    """Topics in which the root key has made Alice an approver."""
    topics = Topics(*cases)
    topics.entry(approver("alice", ALICE), ROOT_KEY)
    return topics
