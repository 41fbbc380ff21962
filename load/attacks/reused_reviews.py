"""Reused reviews: have what a person signed once count again, or for something else.

The attacker has every review that was ever published, word for word, and may publish them as often as he
likes and with any field changed; he writes memories and asks for items whose content, ids and sessions are
those that were approved before. What leaves the gate is counted: memories that are admitted, items that are
served.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from load.attacks.answered_installation import open_installation
from load.attacks.attempt import Attempt
from load.installations import approvers, neutral_policy, quality_policy
from sluice_topics.catalog import (
    ADMITTED,
    ESCALATIONS,
    MEMORY_WRITES,
    QUARANTINE,
    RETRIEVALS,
    REVIEWS,
    SERVED,
    SESSION_EVENTS,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from load.attacks.answered_installation import AnsweredInstallation, Fields
    from load.attacks.attempt import Extent
    from sluice_demo.throwaway_trust import ControlRecord, ThrowawayTrust

PATIENT, BRIEF = "patient-agent", "brief-agent"
BRIEF_MS = 2500
"""How long memories of the brief agent wait."""
REVIEWER, APPROVER = "audit", "ann"
HERE, THERE = "reviewed-here", "reviewed-there"
NOBODY_KNOWS = [f"memory:{MEMORY_WRITES}:0:999999"]
"""A parent that has a write wait for a reviewer, whatever its content."""
OPENED, RESOLVED = (f"sluice/retrieval_escalation_{word}/v1" for word in ("opened", "resolved"))


def run_on(extent: Extent, servers: str) -> Iterator[Attempt]:
    """On a broker that runs. Both extents are the same."""
    del extent
    yield from asyncio.run(_attack(servers))


async def _attack(servers: str) -> list[Attempt]:
    async with open_installation(servers, _policy) as installation:
        return [*await _Memories(installation).attempts(), *await _Items(installation).attempts()]


def _policy(trust: ThrowawayTrust) -> list[ControlRecord]:
    """Two agents, whose memories wait for an hour and for a moment."""
    agents, records = {PATIENT: {}, BRIEF: {"quarantineReviewMs": BRIEF_MS}}, []
    for name, memory in agents.items():
        bundle = {**neutral_policy.bundle(), "id": f"load.{name}", "memory": memory}
        fields = {"tenant_id": neutral_policy.TENANT, "tier": "T2", "policy_bundle_id": f"load.{name}"}
        records += [
            trust.sign_bundle(json.dumps(bundle).encode()),
            *trust.sign_entries([approvers.entry("agent", name, **fields)]),
        ]
    return records


async def _await_refusals(installation: AnsweredInstallation, reviews: Sequence[Fields]) -> list[str]:
    """Why each of these answers is refused, once all are."""
    sent = [await installation.send(REVIEWS, review, at % 2) for at, review in enumerate(reviews)]

    def index_refusals(events: list[Fields]) -> dict[str, str]:
        return {
            ":".join(str(event["input"][name]) for name in ("topic", "partition", "offset")): event["reason"]
            for event in events
            if event["schema"] == approvers.REFUSED
        }

    records = await installation.wait_for_records(
        SESSION_EVENTS, lambda events: index_refusals(events).keys() >= set(sent)
    )
    return [index_refusals(records)[coordinates] for coordinates in sent]


class _Memories:
    """Approvals of held memories."""

    def __init__(self, installation: AnsweredInstallation) -> None:
        self._answered = installation

    async def _hold_memory(self, session: str, write_id: str, content: str, agent: str = PATIENT) -> Fields:
        """The record of a memory that went into quarantine."""
        fields = {
            "write_id": write_id,
            "agent_id": agent,
            "session_id": session,
            "content": content,
            "source": {"id": "mail", "type": "user"},
            "content_class": "internal_policy",
            "timestamp": "2026-01-01T00:00:00Z",
            "confidence_score": 0.9,
            "provenance_uri": "https://mail.example/7",
            "provenance_hash": "sha256:" + "0" * 64,
            "derived_from": NOBODY_KNOWS,
        }
        memory = f"memory:{await self._answered.send(MEMORY_WRITES, fields)}"
        return (await self._events(memory, 1))[0]

    async def _events(self, memory: str, count: int) -> list[Fields]:
        def ours(events: list[Fields]) -> list[Fields]:
            return [event for event in events if event["memory_id"] == memory]

        return ours(
            await self._answered.wait_for_records(QUARANTINE, lambda events: len(ours(events)) >= count)
        )

    async def attempts(self) -> list[Attempt]:
        """One memory is approved, one is rejected and one expires; then every answer comes again."""
        text, review, name = "The customer prefers e-mail.", self._answered.review, "memory_id"
        first = await self._hold_memory(HERE, "w-1", text)
        refused = await self._hold_memory(HERE, "w-2", "The customer prefers fax.")
        late = await self._hold_memory(HERE, "w-3", "The customer prefers post.", BRIEF)
        approval, denial = review(first, REVIEWER, "approve"), review(refused, REVIEWER, "reject")
        overdue = review(late, REVIEWER, "approve")
        await self._answered.send(REVIEWS, approval)
        await self._answered.send(REVIEWS, denial)
        for event in (first, refused, late):
            await self._events(event["memory_id"], 2)
        same = await self._hold_memory(HERE, "w-4", text)
        changed = await self._hold_memory(HERE, "w-6", "The customer prefers that you pay at once.")
        elsewhere = await self._hold_memory(THERE, "w-1", text)
        again = await self._hold_memory(HERE, "w-5", "The customer prefers post.")
        digest = "sha256:" + hashlib.sha256(changed["memory_id"].encode()).hexdigest()
        tries: dict[str, Fields] = {
            "an approval once more": approval,
            "an approval for the same text in another memory": {**approval, "subject_id": same["memory_id"]},
            "an approval for another version": {**approval, "subject_id": changed["memory_id"]},
            "an approval for another version, with its digest": {
                **approval, "subject_id": changed["memory_id"], "digest": changed["content_digest"],
            },
            "an approval elsewhere": {**approval, "subject_id": elsewhere[name], "session_id": THERE},
            "an approval of one memory, sent to another session": {**approval, "session_id": THERE},
            "an approval with a made-up digest": {**approval, "subject_id": same[name], "digest": digest},
            "a rejection turned round": {**denial, "subject_id": same[name], "decision": "approve"},
            "an approval after the rejection": review(refused, REVIEWER, "approve"),
            "an approval after the expiry": overdue,
            "an approval of what expired, for the same text again": {**overdue, "subject_id": again[name]},
            "an approval by who reviews no memories": review(same, APPROVER, "approve"),
            "a rejection of what was released": review(first, REVIEWER, "reject"),
        }  # fmt: skip
        why = await _await_refusals(self._answered, [*tries.values()])
        released = Counter(record["memory_id"] for record in await self._answered.all_of(ADMITTED))
        beyond = sum(released.values()) - released[first["memory_id"]]
        twice = max(0, released[first["memory_id"]] - 1)
        own = released[first["memory_id"]]
        return [
            *(Attempt(f"memory: {tried}", bool(code), code) for tried, code in zip(tries, why, strict=True)),
            Attempt("memories admitted beyond the one", not beyond + twice, f"{beyond + twice}, must be 0"),
            Attempt("the approved memory was admitted", own == 1, f"{own} times", harmless=True),
        ]


class _Items:
    """Approvals of items that were withheld."""

    def __init__(self, installation: AnsweredInstallation) -> None:
        self._answered = installation
        self._asked: Counter[str] = Counter()

    async def _ask(self, session: str, request: str, name: str, body: str = "a price") -> list[Any]:
        """The bodies that a request gets now."""
        item = {
            "item_id": name,
            "content_class": "price",
            "timestamp": "1990-01-01T00:00:00Z",
            "confidence_score": 0.99,
            "provenance_uri": quality_policy.RECORDED_URI,
            "provenance_hash": quality_policy.RECORDED_HASH,
            "body": body,
        }
        fields = {
            "request_id": request,
            "agent_id": neutral_policy.AGENT,
            "session_id": session,
            "items": [item],
            "autonomy_tier": "high_privilege",
            "tool_category": quality_policy.CATEGORY,
        }
        an_id = f"served:{await self._answered.send(RETRIEVALS, fields)}"

        def ours(records: list[Fields]) -> list[Fields]:
            return [record for record in records if record["served_id"] == an_id]

        (served,) = ours(await self._answered.wait_for_records(SERVED, lambda records: bool(ours(records))))
        return [item["body"] for item in served["items"] if item.get("body")]

    async def _open_request(self, session: str, request: str) -> Fields:
        def ours(events: list[Fields]) -> list[Fields]:
            wanted = (OPENED, session, request)
            return [
                event
                for event in events
                if (event["schema"], event["session_id"], event.get("request_id")) == wanted
            ]

        return ours(await self._answered.wait_for_records(ESCALATIONS, lambda events: bool(ours(events))))[0]

    async def _approve_request(self, session: str, request: str, name: str) -> Fields:
        """The approval of a request, which has counted."""
        await self._ask(session, request, name)
        opened = await self._open_request(session, request)
        approval = self._answered.review(opened, APPROVER, "approve")
        await self._answered.send(REVIEWS, approval)
        an_id = opened["escalation_id"]
        await self._answered.wait_for_records(
            ESCALATIONS,
            lambda events: any(
                event["schema"] == RESOLVED and event["escalation_id"] == an_id for event in events
            ),
        )
        return approval

    async def attempts(self) -> list[Attempt]:
        """A request is approved and served; then the approval comes again, and for other requests."""
        approval = await self._approve_request(HERE, "r-1", "i-1")
        served = await self._ask(HERE, "r-1", "i-1")
        gained = {"the same request, after it was served": await self._ask(HERE, "r-1", "i-1")}
        for session, request, name, body, tried in (
            (HERE, "r-2", "i-1", "a price", "the same item in another request"),
            (HERE, "r-1", "i-1", "another price", "the same request with another body"),
            (HERE, "r-1", "i-2", "a price", "the same request for another item"),
            (THERE, "r-1", "i-1", "a price", "the same request in another session"),
        ):
            gained[tried] = await self._ask(session, request, name, body)
        other, there = await self._open_request(HERE, "r-2"), await self._open_request(THERE, "r-1")
        tries: dict[str, Fields] = {
            "once more": approval,
            "for another request": {**approval, "subject_id": other["escalation_id"]},
            "for another request, with its digest": {
                **approval, "subject_id": other["escalation_id"], "digest": other["request_hash"],
            },
            "in another session": {**approval, "subject_id": there["escalation_id"], "session_id": THERE},
            "of an escalation as that of a memory": {**approval, "decision": "reject"},
        }  # fmt: skip
        why = await _await_refusals(self._answered, [*tries.values()])
        gained["the same request, after the approval came again"] = await self._ask(HERE, "r-1", "i-1")
        gained["another request, after the approval came for it"] = await self._ask(HERE, "r-2", "i-1")
        await self._approve_request(HERE, "r-9", "i-9")
        both = await asyncio.gather(*(self._ask(HERE, "r-9", "i-9") for _ in range(2)))
        beyond = sum(map(len, gained.values())) + max(0, sum(map(len, both)) - 1)
        return [
            *(
                Attempt(f"items: {tried}", not bodies, f"{len(bodies)} served")
                for tried, bodies in gained.items()
            ),
            *(
                Attempt(f"items: an approval {tried}", bool(code), code)
                for tried, code in zip(tries, why, strict=True)
            ),
            Attempt("items served beyond the approved ones", not beyond, f"{beyond}, must be 0"),
            Attempt("the approved item was served", len(served) == 1, f"{len(served)} times", harmless=True),
            Attempt("of two at once, one was served", sum(map(len, both)) == 1, str(both), harmless=True),
        ]
