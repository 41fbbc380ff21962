"""Small genuine ledgers for the verifier's tests, written here from the published rules alone."""

from __future__ import annotations

import random
from typing import Any

import rfc8785

from load.tamper import relaid, seal
from sluice.verifier.export import Located

DIGEST = "sha256:" + "0" * 64


def genuine_ledger(seed: int, records: int, partitions: int = 3, prefix: str = "") -> list[Located]:
    """Records of several sessions and topics, each partition one chain; the first is never its last."""
    rng = random.Random(seed)  # noqa: S311 - seeded, not secret
    heads = [(0, "GENESIS")] * partitions
    ledger: list[Located] = []
    for offset in range(max(records, 4 * partitions)):
        partition = offset % partitions
        sequence, head = heads[partition]
        body = _body(rng, partition, offset) | {"sequence": sequence + 1, "prev_hash": head}
        fields = seal(body)
        heads[partition] = (sequence + 1, fields["event_hash"])
        key = fields["session_id"].encode()
        ledger.append(Located(prefix + _TOPIC[fields["schema"]], partition, 0, key, rfc8785.dumps(fields)))
    return relaid(ledger)


_TOPIC = {
    "sluice/verdict/v1": "gate.verdicts",
    "sluice/escalation_opened/v1": "gate.escalations",
    "sluice/dead_letter/v1": "gate.dead_letters",
}
_ID = {
    "sluice/verdict/v1": ("verdict_id", "verdict"),
    "sluice/escalation_opened/v1": ("escalation_id", "escalation"),
    "sluice/dead_letter/v1": ("dead_letter_id", "dead_letter"),
}


def _body(rng: random.Random, partition: int, offset: int) -> dict[str, Any]:
    schema = rng.choice([*_TOPIC, "sluice/verdict/v1", "sluice/verdict/v1"])
    field, word = _ID[schema]
    topic = "gate.actions.proposed"
    return {
        "schema": schema,
        field: f"{word}:{topic}:{partition}:{offset}",
        "session_id": f"s-{partition}-{rng.randrange(3)}",
        "partition": partition,
        "decided_at": "2026-01-01T00:00:00.000Z",
        "input": {"topic": topic, "partition": partition, "offset": offset, "timestamp": 1, "digest": DIGEST},
        "score": rng.choice([0.25, 1.0, 1e17, 1e-7, 0]),
        "note": rng.choice(["plain", "schön \u20ac", "\U0001f9ea", 'a "quoted"\n\ttext\u0001']),
    }
