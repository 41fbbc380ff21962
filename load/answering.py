"""People answer escalations while workers are killed and suspended: each ends once, as the answers say.

Several approvers answer at once, twice, with other keys, without the role, as the agent itself, with
signatures of other answers, and too late; others answer nothing. What must come of it is worked out here a
second time, from the inputs as they lie on the broker, without the core.
"""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

import orjson
from aiokafka import AIOKafkaProducer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from app.adapters.kafka.kafka_read import open_reader
from app.cli.demo.throwaway_trust import publish_policy
from app.core.registry.keys import SigningKey
from app.core.trust.dsse import sign
from app.core.trust.signed_entries import PAYLOAD_TYPES
from app.core.trust.signing import signed_review
from load.recounts.approval_recount import ENDS, OPENED, SignedAnswers, findings
from load.recounts.reruns import executed_again
from load.recounts.run_findings import bites
from load.scene import LOOK_S, SLOW_S, STALL_S, behind, committed
from load.sites import neutral_policy
from load.sites.fleet import Fleet, RunFailed
from load.sites.site import gather, records_of
from topics.catalog import ACTIONS, ESCALATIONS, REGISTRY, REVIEWS

if TYPE_CHECKING:
    from collections.abc import Callable

    from load.recounts.figures import RunFigure
    from load.scene import Bed
    from load.sites.site import Scale, Site

REFUND, WIRE = "load.refund", "load.wire"
HASTY_AGENT, HASTY_MS = "hasty-agent", 4000
REMIND_MS, NEXT_MS = 700, 2000
LATER = "lena"
"""The approver of the second group, which gets an escalation `NEXT_MS` after the first."""
ROLES = {
    "ann": ["approver"],
    "ben": ["approver"],
    "vera": ["vp"],
    "victor": ["vp"],
    "audit": ["reviewer"],
    LATER: ["approver"],
}
AGENT = neutral_policy.AGENT
KEYS = {name: SigningKey(Ed25519PrivateKey.generate()) for name in (*ROLES, AGENT)}
ROWS, TTL_MS = 7, 3_600_000
WORKERS = 2
WAYS = 12


def _policy(site: Site) -> list[tuple[str, bytes, bytes]]:
    """Approvers of all roles, the agent's own key among them, two tools that need them, a hasty agent."""
    approvers = {**ROLES, AGENT: ["approver", "vp"]}
    entries = [
        _entry(
            "approver",
            name,
            {
                "public_key": KEYS[name].public.text,
                "roles": roles,
                "groups": ["leads" if name == LATER else "desk"],
            },
        )
        for name, roles in approvers.items()
    ]
    signed = [
        (
            REGISTRY,
            f"approver/{one['id']}@1".encode(),
            sign(PAYLOAD_TYPES[REGISTRY], orjson.dumps(one), [site.trust.root]).written(),
        )
        for one in entries
    ]
    route = {"groups": ["desk", "leads"], "remind_after_ms": REMIND_MS, "next_after_ms": NEXT_MS}
    terms = {"quorum": {"T4": 2}, "routing": [route]}
    bundle = {**neutral_policy.bundle(revision=2), "approvals": terms}
    hasty = {**bundle, "id": "load.hasty", "revision": 1, "escalation_ttl_ms": HASTY_MS}
    given = {"tenant_id": neutral_policy.TENANT, "tier": "T2", "policy_bundle_id": "load.hasty"}
    tool = {"action_type": "PAYMENT", "reversible": False, "trusts_row_claims": True}
    others = [
        _entry("agent", HASTY_AGENT, given),
        _entry("tool", REFUND, {**tool, "tier": "T3"}),
        _entry("tool", WIRE, {**tool, "tier": "T4"}),
    ]
    bundles = [site.trust.bundle(json.dumps(one).encode()) for one in (bundle, hasty)]
    return [*signed, *bundles, *site.trust.entries(others)]


def _entry(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"kind": kind, "id": name, "revision": 1, "spec": spec}


@dataclass
class _People:
    """Those who answer: each escalation in the way that its action's name says."""

    site: Site
    producer: AIOKafkaProducer
    answers: SignedAnswers = field(
        default_factory=lambda: SignedAnswers(HASTY_AGENT, HASTY_MS, TTL_MS, ROWS, LATER, REMIND_MS, NEXT_MS)
    )
    earlier: dict[str, Any] | None = None
    seen: set[str] = field(default_factory=set)
    late: list[asyncio.Task[None]] = field(default_factory=list)

    async def answer_all(self) -> None:
        """Answer whatever opens, until cancelled."""
        real = self.site.real(ESCALATIONS)
        async with open_reader(self.site.bootstrap_servers, [real], "beginning") as reader:
            async for batch in reader.follow(None):
                for record in batch:
                    body = json.loads(record.value or b"{}")
                    if body["schema"] == "sluice/escalation_opened/v1":
                        await self._answer(body, int(body["action_id"].split("-")[1]) % WAYS)

    async def _answer(self, opened: dict[str, Any], way: int) -> None:
        if opened["escalation_id"] in self.seen:
            return
        self.seen.add(opened["escalation_id"])
        if opened["agent_id"] == HASTY_AGENT:
            if way % 2:
                self.late.append(asyncio.create_task(self._answer_after(opened, HASTY_MS + 500, "ann")))
            elif way % 4:
                self.late.append(asyncio.create_task(self._answer_after(opened, NEXT_MS + 500, LATER)))
            return
        if opened["tier"] == "T4":
            for by in ("ann", "vera", "vera", "victor"):
                await self._say(opened, by, good=by != "ann")
            return
        ways: list[Callable[[], Any]] = [
            lambda: self._too_early(opened),
            lambda: self._say(opened, "ben", "deny"),
            lambda: self._at_once(opened),
            lambda: self._twice(opened),
            lambda: self._say(opened, "vera", key="audit", good=False),
            lambda: self._say(opened, "audit", good=False),
            lambda: self._say(opened, AGENT, good=False),
            lambda: self._swapped(opened),
        ]
        if way < len(ways):
            await ways[way]()
        if way > 3:
            await self._say(opened, "ann", "approve" if way % 2 else "deny")
        self.earlier = self._signed(opened, "ann")

    async def _too_early(self, opened: dict[str, Any]) -> None:
        """The later group answers before it has the escalation, if it is quick, and then the first one."""
        await self._say(opened, LATER, "deny")
        await self._say(opened, "ann")

    async def _at_once(self, opened: dict[str, Any]) -> None:
        await asyncio.gather(self._say(opened, "ann"), self._say(opened, "ben", "deny"))

    async def _twice(self, opened: dict[str, Any]) -> None:
        await self._say(opened, "ann")
        await self._say(opened, "ann")

    async def _swapped(self, opened: dict[str, Any]) -> None:
        """An answer to an earlier escalation as it is, and its signature on an answer to this one."""
        if self.earlier is not None:
            await self._publish(self.earlier, ("", "", ""), good=False)
            forged = {**self._signed(opened, "ann"), "signature": self.earlier["signature"]}
            await self._publish(forged, ("", "", ""), good=False)

    async def _answer_after(self, opened: dict[str, Any], after_ms: int, by: str) -> None:
        await asyncio.sleep(after_ms / 1000)
        await self._say(opened, by)

    async def _say(
        self, opened: dict[str, Any], by: str, decision: str = "approve", key: str = "", *, good: bool = True
    ) -> None:
        said = (opened["escalation_id"], by, decision)
        await self._publish(self._signed(opened, by, decision, key), said, good=good)

    def _signed(
        self, opened: dict[str, Any], by: str, decision: str = "approve", key: str = ""
    ) -> dict[str, Any]:
        fields = {
            "subject_id": opened["escalation_id"],
            "session_id": opened["session_id"],
            "decision": decision,
            "approver_id": by,
            "digest": opened["action_digest"],
            "justification": "a fault run",
        }
        return signed_review(fields, KEYS[key or by]).model_dump(exclude_unset=True)

    async def _publish(self, review: dict[str, Any], said: tuple[str, str, str], *, good: bool) -> None:
        key, value = review["session_id"].encode(), orjson.dumps(review)
        placed = await self.producer.send_and_wait(self.site.real(REVIEWS), value, key=key)
        self.answers.sent += 1
        if good:
            self.answers.good[placed.partition, placed.offset] = said


async def approvals(bed: Bed, scale: Scale) -> list[RunFigure]:
    """Two in three actions are escalated; between waves of them a worker is killed or suspended."""
    site = await bed.site("approvals")
    await publish_policy(site.bootstrap_servers, site.prefix, _policy(site))
    fleet = Fleet(site, SLOW_S)
    watching = asyncio.create_task(fleet.watch())
    producer = AIOKafkaProducer(
        bootstrap_servers=site.bootstrap_servers,
        enable_idempotence=True,
        acks="all",
        request_timeout_ms=60_000,
    )
    people = _People(site, producer)
    try:
        async with producer:
            for slot in range(WORKERS):
                fleet.spawn(slot)
            await _until(fleet, lambda: len(fleet.owned()) == site.partitions, "every partition is owned")
            answering = asyncio.create_task(people.answer_all())
            faults, rng = [_kill] * scale.kills + [_suspend] * scale.stops, bed.rng("approvals")
            names, share = count(), max(36, scale.events // 100)
            for fault in (*faults, None):
                await _propose(site, producer, names, share)
                if fault is not None:
                    await _until(fleet, lambda: _all_decide(site, fleet), "both workers decide")
                    await fault(fleet, rng.randrange(WORKERS))
            await _end(site, fleet, people, answering)
        await fleet.close()
        fleet.check()
    finally:
        watching.cancel()
        fleet.kill_all()
    evidence = await gather(site)
    return [
        *findings(evidence, people.answers),
        *bites(fleet.tally, evidence, ("moved",)),
        *await executed_again(evidence),
    ]


async def _propose(site: Site, producer: AIOKafkaProducer, names: count[int], share: int) -> None:
    for number in (next(names) for _ in range(share)):
        session = f"approvals-{number % 17}"
        tool = (REFUND, WIRE, neutral_policy.READ_TOOL)[number // WAYS % 3]
        action = {
            "action_id": f"a-{number}",
            "agent_id": HASTY_AGENT if tool == REFUND and number % WAYS in (8, 9, 10, 11) else AGENT,
            "session_id": session,
            "toolName": tool,
            "parameters": {},
            "mode": "high_stakes",
            "rows_affected": ROWS,
        }
        await producer.send(site.real(ACTIONS), orjson.dumps(action), key=session.encode())
    await producer.flush()


def _all_decide(site: Site, fleet: Fleet) -> bool:
    deciding = [one for one in fleet.workers.values() if one.exit_code is None and one.partitions()]
    return len(deciding) == WORKERS and len(fleet.owned()) == site.partitions


async def _kill(fleet: Fleet, slot: int) -> None:
    worker = fleet.workers[slot]
    fleet.kill(slot)
    await _until(fleet, lambda: worker.exit_code is not None, "the worker is dead")
    await _until(fleet, lambda: bool(fleet.workers[slot].partitions()), "its successor decides")


async def _suspend(fleet: Fleet, slot: int) -> None:
    worker = fleet.stop(slot)
    await _until(fleet, worker.stopped, "the worker is suspended")
    lost = worker.partitions()
    await _until(fleet, lambda: lost <= fleet.owned(), "the other has taken over")
    worker.send(signal.SIGCONT)
    await _until(
        fleet, lambda: worker.exit_code is not None or worker.partitions() != lost, "it knows that it is one"
    )


async def _until(fleet: Fleet, holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + STALL_S
    while not holds():
        fleet.check()
        if time.monotonic() > end:
            raise RunFailed(
                f"waited {STALL_S:.0f} s in vain until {what}\n{await asyncio.to_thread(fleet.where)}"
            )
        await asyncio.sleep(LOOK_S)


async def _end(site: Site, fleet: Fleet, people: _People, answering: asyncio.Task[None]) -> None:
    """Wait until everything that opened has ended and every answer is decided."""
    end = time.monotonic() + STALL_S + HASTY_MS / 1000
    while True:
        fleet.check()
        positions = await committed(site)
        found = Counter(
            json.loads(one.value or b"{}")["schema"] for one in await records_of(site, ESCALATIONS)
        )
        ended = sum(number for schema, number in found.items() if schema in ENDS)
        ends = {
            (site.real(topic), one.partition): one.offset + 1
            for topic in (ACTIONS, REVIEWS)
            for one in await records_of(site, topic)
        }
        decided = positions is not None and behind(positions, ends) == 0
        waits = any(not one.done() for one in people.late)
        if decided and not waits and found[OPENED] == ended == len(people.seen):
            break
        if time.monotonic() > end:
            raise RunFailed(f"{found}, {len(people.seen)} answered\n{await asyncio.to_thread(fleet.where)}")
        await asyncio.sleep(LOOK_S)
    answering.cancel()
    with suppress(asyncio.CancelledError):
        await answering
