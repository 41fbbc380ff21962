"""A small ledger with its inputs, its signed policy and its tree heads, in memory: what a package is made of.

The records have what a verifier reads of them and no more, so they cannot be executed again; packages of real
decisions come from a broker (tests/kafka/test_audit_package.py).
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import defaultdict
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sluice.adapters.archive.package_plan import Selection, plan_package
from sluice.adapters.archive.package_writer import PackageOrigin, write_package
from sluice.adapters.kafka.kafka_read import StoredRecord
from sluice.core.foundation.canonical import digest
from sluice.core.foundation.chain import Chain
from sluice.core.foundation.clock import rfc3339
from sluice.core.registry.keys import SigningKey
from sluice.core.trust.dsse import sign
from sluice.core.trust.signed_entries import PAYLOAD_TYPES
from sluice.core.trust.tree_heads import HeadKeys, HeadSeries, LedgerTree, read_link, sign_head
from sluice.verifier.head_check import HeadSigners, HeadSources
from sluice.verifier.package_check import PackageTrust
from sluice_topics.audience import Audience
from sluice_topics.catalog import ACTIONS, BUNDLES, ESCALATIONS, QUARANTINE, REGISTRY, TREE_HEADS, VERDICTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from sluice.adapters.archive.package_writer import WrittenPackage

INSTALLATION, PREFIX, APP = "made", "made.", "sluice"
START_MS = 1_763_730_000_000
PARTITIONS, SESSIONS = 3, 4


def make_key(name: str) -> SigningKey:
    """The private key that a name gives; it is no secret."""
    return SigningKey(Ed25519PrivateKey.from_private_bytes(sha256(name.encode()).digest()))


ROOT, APPROVER, HEADS, STRANGER = (make_key(name) for name in ("root", "approver", "heads", "stranger"))
TRUST = PackageTrust((ROOT.public.text,), HeadSources(HeadSigners([HEADS.public.text], INSTALLATION)))


@dataclass
class MadeLedger:
    """Records by topic, filled as workers and people would; a RecordSource."""

    seed: int
    records: dict[str, list[StoredRecord]] = field(default_factory=lambda: defaultdict(list))
    decided: dict[tuple[str, int], int] = field(default_factory=dict)
    now_ms: int = START_MS

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.chains = [Chain(partition) for partition in range(PARTITIONS)]
        self.trees = LedgerTree(PARTITIONS)
        self.series = HeadSeries(HeadKeys([HEADS.public]), Audience(INSTALLATION, PREFIX))
        self.used = self._publish_policy()

    async def read_records(self, topics: Sequence[str]) -> AsyncIterator[list[StoredRecord]]:
        """See RecordSource."""
        for topic in topics:
            yield list(self.records[topic])

    async def fetch_decided(self) -> Mapping[tuple[str, int], int]:
        """See RecordSource."""
        return self.decided

    def decide(self, count: int) -> None:
        """So many inputs, each with a verdict, some with an escalation besides, some with a memory of another
        session that made room."""
        for _ in range(count):
            partition = self.rng.randrange(PARTITIONS)
            session = f"s-{partition}-{self.rng.randrange(SESSIONS)}"
            value = json.dumps({"session_id": session, "n": self.rng.random()}).encode()
            read = self.append(ACTIONS, partition, session, value)
            self._answer(read, VERDICTS, "verdict", session)
            if self.rng.random() < 1 / 4:
                self._answer(read, ESCALATIONS, "escalation_opened", session)
            if self.rng.random() < 1 / 8:
                other = f"s-{partition}-{self.rng.randrange(SESSIONS)}"
                self._answer(read, QUARANTINE, "quarantine_evicted", other)
            self.decided[f"{PREFIX}{ACTIONS}", partition] = read.offset + 1

    def sign_head(self) -> None:
        """A tree head over all records so far."""
        self.now_ms += 1000
        value = sign_head(self.trees.make_head(self.series, self.now_ms), [HEADS]).encode()
        self.series.take(value)
        self.append(TREE_HEADS, 0, "head", value)

    def append(self, base: str, partition: int, key: str, value: bytes) -> StoredRecord:
        """A record of a topic, a few milliseconds after the last."""
        self.now_ms += self.rng.randrange(1, 5)
        topic = f"{PREFIX}{base}"
        offset = sum(record.partition == partition for record in self.records[topic])
        record = StoredRecord(topic, partition, offset, self.now_ms, key.encode(), value, ())
        self.records[topic].append(record)
        return record

    def _answer(self, read: StoredRecord, base: str, kind: str, session: str) -> None:
        source = {"topic": ACTIONS, "partition": read.partition, "offset": read.offset}
        stated = {"timestamp": read.timestamp_ms, "digest": f"sha256:{sha256(read.value or b'').hexdigest()}"}
        word = {QUARANTINE: "memory"}.get(base, kind.partition("_")[0])
        body = {
            "schema": f"sluice/{kind}/v1",
            f"{word}_id": f"{word}:{ACTIONS}:{read.partition}:{read.offset}",
            "session_id": session,
            "agent_id": f"agent-{self.rng.randrange(3)}",
            "decided_at": rfc3339(read.timestamp_ms),
            "note": self.rng.choice(["plain", "schön €", 'a "quoted"\n\ttext']),
            "input": source | stated,
            **(self.used if kind == "verdict" else {}),
        }
        value = self.chains[read.partition].link(body)
        self.append(base, read.partition, session, value)
        self.trees.trees[read.partition].take(read_link(value))

    def _publish_policy(self) -> dict[str, Any]:
        """An approver's entry, an agent's and a bundle; what decisions then name of them."""
        signs = {"public_key": APPROVER.public.text, "signs": ["bundle", "agent"]}
        approver = {"kind": "approver", "id": "ann", "revision": 1, "spec": signs}
        agent = {"kind": "agent", "id": "reader", "revision": 1, "spec": {"tenant_id": "acme", "tier": "T1"}}
        bundle = {"id": "small", "revision": 1, "tables": {"seed": self.seed}}
        for base, document, key in (
            (REGISTRY, approver, ROOT),
            (REGISTRY, agent, APPROVER),
            (BUNDLES, bundle, APPROVER),
        ):
            envelope = sign(PAYLOAD_TYPES[base], json.dumps(document).encode(), [key])
            self.append(base, 0, str(document["id"]), envelope.encode())
        return {"bundle_hash": digest(bundle), "registry_hashes": {"agent/reader@1": digest(agent)}}


def make_ledger(seed: int, inputs: int = 24) -> MadeLedger:
    """A ledger of so many inputs with three heads, the last one over all."""
    made = MadeLedger(seed)
    for share in (inputs // 3, inputs // 3, inputs - 2 * (inputs // 3)):
        made.decide(share)
        made.sign_head()
    return made


def write_made_package(made: MadeLedger, selection: Selection, path: Path) -> WrittenPackage:
    """A package of a made ledger."""
    origin = PackageOrigin(INSTALLATION, PREFIX, APP, {})

    async def write() -> WrittenPackage:
        return await write_package(made, await plan_package(made, PREFIX, selection), origin, path)

    return asyncio.run(write())
