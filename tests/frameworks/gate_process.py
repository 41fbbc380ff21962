"""A broker, topics, a policy and a worker for tests in another environment, which says what happens next.

    .venv/bin/python -m tests.frameworks.gate_process FOLDER

Reads one command in a line of JSON, `{"do": NAME, ...}`, and answers each with one. It ends, and what it has
started with it, when its input ends. tests/frameworks/gate.py is the other side.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from load.installations import neutral_policy, quality_policy
from load.installations.approvers import approver, entry
from load.installations.worker_process import WorkerProcess
from sluice.broker import locate
from sluice.core.registry.keys import SigningKey
from sluice_demo.throwaway_trust import publish_policy
from sluice_topics.catalog import ESCALATIONS, QUARANTINE, REVIEWS
from tests.kafka import memories
from tests.kafka.installation import END_S, installation_on, publish, read_stored, wait_until
from tests.unit.core.actions.escalation_scene import answer_signed_by

if TYPE_CHECKING:
    from collections.abc import Callable

    from load.installations.installation import TestInstallation
    from sluice.broker.handle import Broker

AGENT, APPROVER = "example-operator", "ann"
BUNDLE, WAIT_MS = "frameworks", 8 * 3600 * 1000
KEY, REVIEWER_KEY = SigningKey(Ed25519PrivateKey.generate()), SigningKey(Ed25519PrivateKey.generate())
FORBIDDEN = {
    "id": "no-payroll",
    "type": "forbidden",
    "reason": "nobody reads the payroll",
    "condition": "has(action.parameters.table) && action.parameters.table == 'payroll'",
}
READS = {"tier": "T1", "action_type": "DATABASE_READ", "reversible": True, "trusts_row_claims": True}
PAYS = {"tier": "T3", "action_type": "PAYMENT", "reversible": False, "trusts_row_claims": True}


def make_installation(servers: str, folder: Path) -> TestInstallation:
    """An agent, whose reads are allowed, but not of the payroll, and whose payments wait for an approver; a
    reviewer of its memories.

    `read_slowly`, and a memory with the word "slow", are decided when the slow port answers (`withhold`)."""
    stages = (*neutral_policy.STAGES[:-1], "rules", neutral_policy.STAGES[-1])
    made = installation_on(servers, folder, f"frameworks-{uuid.uuid4().hex[:8]}", stages)
    neutral = neutral_policy.bundle(stages=stages)
    memory = {**neutral["memory"], "quarantineReviewMs": WAIT_MS}
    own = {"id": BUNDLE, "escalation_ttl_ms": WAIT_MS, "rules": [FORBIDDEN], "memory": memory}
    agent = {"tenant_id": neutral_policy.TENANT, "tier": "T2", "policy_bundle_id": BUNDLE}
    entries = [
        entry("agent", AGENT, **agent, autonomy_tier="sandbox"),
        *(entry("tool", name, **READS) for name in ("read_records", "read_slowly")),
        entry("tool", "pay", **PAYS),
    ]
    policy = [
        approver(made.trust, APPROVER, KEY, ["approver"]),
        approver(made.trust, memories.REVIEWER, REVIEWER_KEY, ["reviewer"]),
        made.trust.sign_bundle(json.dumps({**neutral, **own}).encode()),
        *made.trust.sign_entries(entries),
    ]
    asyncio.run(publish_policy(servers, made.prefix, policy))
    return made


class GateCommands:
    """What the commands do. `broker` None: another's, which is not restarted."""

    def __init__(self, installation: TestInstallation, broker: Broker | None = None) -> None:
        self.installation = installation
        self._broker = broker
        self._started = 0
        self._answered: set[str] = set()
        self._worker = self._begin()

    def describe(self) -> dict[str, Any]:
        """What a client needs."""
        made = self.installation
        proved = {"content_class": "price", "confidence_score": 0.99}
        proved |= {"provenance_uri": quality_policy.RECORDED_URI}
        proved |= {"provenance_hash": quality_policy.RECORDED_HASH}
        servers, rejected = made.bootstrap_servers, neutral_policy.ATTACK
        return {
            "servers": servers,
            "prefix": made.prefix,
            "agent": AGENT,
            "proved": proved,
            "rejected": rejected,
            "held": neutral_policy.DOUBT,
        }

    def start(self) -> None:
        """A new worker, once it decides."""
        self._worker = self._begin()

    def stop(self) -> None:
        """The worker, in good order."""
        assert self._worker.end(END_S) == 0, self._worker.last_words()

    def kill(self) -> None:
        """The worker, at once."""
        self._worker.end_now()

    def restart(self) -> None:
        """The worker and the broker."""
        assert self._broker is not None
        self.stop()
        self._broker.stop()
        self._broker.start()
        self.start()

    def withhold(self) -> None:
        """No slow call is decided from now on."""
        self._worker.withhold()

    def release(self) -> None:
        """Slow calls are decided again."""
        self._worker.answer()

    def answer_escalations(self, approve: bool) -> int:
        """Sign an answer to each escalation that has none; how many."""
        every = self.read(ESCALATIONS)
        opened = [one for one in every if one["schema"] == "sluice/escalation_opened/v1"]
        waiting = [one for one in opened if one["escalation_id"] not in self._answered]
        decision = "approve" if approve else "deny"
        audience = self.installation.audience
        signed = [answer_signed_by(KEY, one, APPROVER, decision, audience=audience) for one in waiting]
        publish(self.installation, signed, REVIEWS)
        self._answered.update(one["escalation_id"] for one in waiting)
        return len(waiting)

    def review_memories(self, approve: bool) -> int:
        """Sign an answer to each held memory that has none; how many."""
        entered = [
            each
            for each in self.read(QUARANTINE)
            if each["schema"] == "sluice/quarantine_entered/v1" and each["memory_id"] not in self._answered
        ]
        made, decision = (
            memories.MemoryInstallation(self.installation, REVIEWER_KEY),
            "approve" if approve else "reject",
        )
        publish(self.installation, [memories.review(made, each, decision) for each in entered], REVIEWS)
        self._answered.update(each["memory_id"] for each in entered)
        return len(entered)

    def pause(self) -> None:
        """The worker, where it stands, until `resume`."""
        self._worker.send(signal.SIGSTOP)

    def resume(self) -> None:
        """The paused worker goes on."""
        self._worker.send(signal.SIGCONT)

    def read(self, topic: str) -> list[dict[str, Any]]:
        """All records of a topic."""
        return [json.loads(one.value or b"null") for one in read_stored(self.installation, topic)]

    def _begin(self) -> WorkerProcess:
        self._started += 1
        worker = WorkerProcess(self.installation, f"worker-{self._started}", 0.0)
        wait_until(lambda: bool(worker.partitions()), worker)
        return worker


def main() -> None:
    """See the module."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what else is printed is no answer
    folder = Path(sys.argv[1])
    with locate.open_broker(os.environ.get("KAFKA_BOOTSTRAP_SERVERS"), folder) as broker:
        gate = GateCommands(make_installation(broker.bootstrap_servers, folder), broker)
        try:
            for line in sys.stdin:
                command = json.loads(line)
                do: Callable[..., Any] = getattr(gate, command.pop("do"))
                print(json.dumps(do(**command)), file=answers, flush=True)
        finally:
            gate.kill()


if __name__ == "__main__":
    main()
