"""Raced answers: have an escalation end twice, a tool run twice, or a grant used more often than was signed.

Two people answer the same escalations through producers of their own, some in the moment in which the
escalation expires; agents wait for the ends behind guarded tools, and other clients read them. Sessions of
one partition ask for the last use of a grant while a gate holds each of them up; a grant is revoked amid its
uses. Broker, worker and clients are the real ones.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from load.attacks.answered_installation import PATIENCE_S, open_installation
from load.attacks.attempt import Attempt
from load.installations import approvers, neutral_policy
from load.installations.installation import PARTITIONS, SLOW_MARK
from sluice.client import AsyncGateClient, ClientError, ClientOptions
from sluice.client.answers import ActionAnswer
from sluice.core.foundation.clock import read_milliseconds, rfc3339
from sluice.core.registry.keys import SigningKey
from sluice.core.trust.dsse import sign
from sluice.core.trust.signed_entries import PAYLOAD_TYPES
from sluice_topics.catalog import ACTIONS, ESCALATIONS, REGISTRY, REVIEWS, SESSION_EVENTS, VERDICTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from load.attacks.answered_installation import AnsweredInstallation, Fields
    from load.attacks.attempt import Extent
    from sluice_demo.throwaway_trust import ControlRecord, ThrowawayTrust

SIZES: Mapping[Extent, int] = {"short": 12, "full": 90}
"""Escalations, each answered by everybody at once."""
ANSWERS = (("ann", "approve"), ("ben", "deny"), ("ann", "approve"), ("vera", "approve"), ("ben", "approve"))
LATE_S = (1.0, -1.5, 0.0, -0.1, 0.1, -0.2, 0.2)
"""When the answers to escalations of the hasty agent come, before or after these expire."""
USES, AFTERWARDS = 30, 5
SLOW_S, AT_ONCE, HOUR_MS = 0.5, 6, 3_600_000
GRANTED, GRACE = "granted-agent", "grace"
_GRACE_KEY = SigningKey(Ed25519PrivateKey.generate())
ENDS = (approvers.RESOLVED, approvers.EXPIRED)


def run_on(extent: Extent, servers: str) -> Iterator[Attempt]:
    """On a broker that runs."""
    yield from asyncio.run(_attack(servers, SIZES[extent]))


async def _attack(servers: str, size: int) -> list[Attempt]:
    async with open_installation(servers, _policy, SLOW_S) as installation:
        raced = [
            *await _end_all(installation, size),
            *await _last_use(installation),
            *await _revoke_in_use(installation),
        ]
        return [*raced, await _one_id(installation)]


def _policy(trust: ThrowawayTrust) -> list[ControlRecord]:
    """One more agent, and an approver who signed that it may refund once in each partition."""
    public = _GRACE_KEY.public.text
    rights = {"roles": ["approver"], "groups": ["desk"], "signs": ["agent_grant"]}
    grace = approvers.entry("approver", GRACE, public_key=public, **rights)
    grant = approvers.entry(
        "agent_grant",
        "raced",
        tenant_id=neutral_policy.TENANT,
        agent_id=GRANTED,
        tool=approvers.REFUND,
        uses=PARTITIONS,
        approver_id=GRACE,
        expires_at=rfc3339(time.time_ns() // 1_000_000 + HOUR_MS),
        justification="one refund in each partition",
    )
    fields = {"tenant_id": neutral_policy.TENANT, "tier": "T2", "policy_bundle_id": "load.asking"}
    return [
        (REGISTRY, b"approver/grace@1", _sign_entry(grace, trust.root)),
        *trust.sign_entries([approvers.entry("agent", GRANTED, **fields)]),
        (REGISTRY, b"agent_grant/raced@1", _sign_entry(grant, _GRACE_KEY)),
    ]


def _sign_entry(entry: Fields, key: Any) -> bytes:
    return sign(PAYLOAD_TYPES[REGISTRY], orjson.dumps(entry), [key]).encode()


class _Calls:
    """Guarded calls that wait for a person; `ran`: how often each tool ran."""

    def __init__(self) -> None:
        self.ran: Counter[str] = Counter()

    async def make(self, gate: AsyncGateClient, name: str) -> None:
        """One call, whose name is its session and its action's id."""
        guard = gate.guard(
            approvers.REFUND,
            session_id=name,
            action_id=name,
            approval_timeout_s=PATIENCE_S,
            rows_before=approvers.ROWS,
        )

        @guard
        async def tool(amount: int) -> None:
            del amount
            self.ran[name] += 1

        try:
            await tool(5)
        except ClientError:
            return


async def _end_all(installation: AnsweredInstallation, size: int) -> list[Attempt]:
    """Everybody answers everything at once."""
    options = ClientOptions(topic_prefix=installation.installation.prefix, deadline_s=PATIENCE_S)
    opening = partial(AsyncGateClient, installation.installation.bootstrap_servers, options=options)
    names, calls = [f"{approvers.PREFIX}raced-{number}" for number in range(size)], _Calls()
    async with opening(approvers.ASKING_AGENT) as gate, opening(approvers.HASTY_AGENT) as hasty:
        gates = [hasty if number % 2 else gate for number in range(size)]
        calling = [asyncio.create_task(calls.make(*caller)) for caller in zip(gates, names, strict=True)]
        answering = [asyncio.create_task(_answer(installation, *name)) for name in enumerate(names)]
        await asyncio.gather(*answering, *calling)
        ends = await installation.wait_for_records(
            ESCALATIONS, lambda events: len(_select_records(events, names, ENDS)) >= size
        )
        sent = size * len(ANSWERS)
        people = len(_select_records(ends, names, (approvers.RESOLVED,)))
        await installation.wait_for_records(
            SESSION_EVENTS, lambda events: len(_select_refusals(events, names)) >= sent - people
        )
        verdicts = await installation.all_of(VERDICTS)
        ended = _select_records(await installation.all_of(ESCALATIONS), names, ENDS)
        first = {
            verdict["action_id"]: verdict for verdict in verdicts if verdict["schema"] == "sluice/verdict/v1"
        }
        read = [await gate.await_approval(ActionAnswer.of(first[name]), PATIENCE_S) for name in names]
    return _compare(
        names, ended, calls.ran, {n: answer.allowed for n, answer in zip(names, read, strict=True)}
    )


async def _one_id(installation: AnsweredInstallation) -> Attempt:
    """Two clients with a journal each call under one action id: docs/guarantees.md lists it as not held."""
    options = ClientOptions(topic_prefix=installation.installation.prefix, deadline_s=PATIENCE_S)
    opening = partial(
        AsyncGateClient, installation.installation.bootstrap_servers, approvers.ASKING_AGENT, options
    )
    name, calls = f"{approvers.PREFIX}one-id", _Calls()
    async with opening() as client, opening() as other:
        await asyncio.gather(
            _answer(installation, 0, name), calls.make(client, name), calls.make(other, name)
        )
    ran = calls.ran[name]
    return Attempt("two clients under one id", ran <= 1, f"the tool ran {ran} times", known_limit=True)


def _compare(
    names: list[str], ended: list[Fields], ran: Counter[str], read: Mapping[str, bool]
) -> list[Attempt]:
    counts = Counter(event["session_id"] for event in ended)
    let = {event["session_id"] for event in ended if event.get("outcome") == "ALLOW"}
    twice = [name for name in names if counts[name] != 1]
    wrong = [name for name in names if ran[name] != (name in let)]
    apart = [name for name in names if read[name] != (name in let)]
    kinds = Counter(event.get("decision", "expired") for event in ended)
    every = f"of {len(names)}, must be 0"
    return [
        Attempt("escalations that did not end exactly once", not twice, f"{len(twice)} {every}"),
        Attempt(
            "tools that ran twice, unapproved, or not though approved", not wrong, f"{len(wrong)} {every}"
        ),
        Attempt("readers who were told another end", not apart, f"{len(apart)} {every}"),
        Attempt(
            "some were approved or denied, some expired, amid the answers",
            kinds["expired"] > 0 and kinds["approve"] + kinds["deny"] > 0,
            str(dict(kinds)),
            harmless=True,
        ),
    ]


async def _answer(installation: AnsweredInstallation, number: int, name: str) -> None:
    """All answers to one escalation by two people at once, in the order of its number."""
    opened = await _await_event(installation, name)
    if number % 2:
        late_s = LATE_S[number // 2 % len(LATE_S)]
        await asyncio.sleep(max(0.0, read_milliseconds(opened["expires_at"]) / 1000 + late_s - time.time()))
    at = number % len(ANSWERS)
    reviews = [installation.review(opened, *answer) for answer in (*ANSWERS[at:], *ANSWERS[:at])]
    await asyncio.gather(
        *(installation.send(REVIEWS, review, person % 2) for person, review in enumerate(reviews))
    )


def _select_records(
    records: list[Fields], names: list[str], schemas: tuple[str, ...] = (approvers.OPENED,)
) -> list[Fields]:
    return [record for record in records if record["session_id"] in names and record["schema"] in schemas]


async def _await_event(
    installation: AnsweredInstallation, session: str, schema: str = approvers.OPENED
) -> Fields:
    """The first of a session, once there is one."""
    records = await installation.wait_for_records(
        ESCALATIONS, lambda events: bool(_select_records(events, [session], (schema,)))
    )
    return _select_records(records, [session], (schema,))[0]


def _select_refusals(events: list[Fields], names: list[str]) -> list[Fields]:
    """Refusals of answers."""
    refused = _select_records(events, names, (approvers.REFUSED,))
    return [refusal for refusal in refused if refusal["input"]["topic"] == REVIEWS]


def _action(session: str, name: str, **parameters: Any) -> Fields:
    fields = {"action_id": name, "agent_id": GRANTED, "session_id": session, "toolName": approvers.REFUND}
    return {**fields, "parameters": parameters, "mode": "high_stakes", "rows_affected": approvers.ROWS}


async def _last_use(installation: AnsweredInstallation) -> list[Attempt]:
    """In two partitions sessions ask at once for the one use that each has; a gate holds them all up."""
    sessions = [
        installation.session_in(part, f"last-{part}-{at}") for part in (0, 1) for at in range(AT_ONCE)
    ]
    await asyncio.gather(
        *(
            installation.send(ACTIONS, _action(session, "a", **{SLOW_MARK: True}), at % 2)
            for at, session in enumerate(sessions)
        )
    )

    def ours(records: list[Fields]) -> list[Fields]:
        return [record for record in records if record["session_id"] in sessions]

    verdicts = ours(
        await installation.wait_for_records(VERDICTS, lambda records: len(ours(records)) >= len(sessions))
    )
    used = Counter(verdict["input"]["partition"] for verdict in verdicts if verdict["verdict"] == "allowed")
    beyond, shares = sum(max(0, count - 1) for count in used.values()), json.dumps(used)
    return [
        Attempt("uses of a grant beyond its share", beyond == 0, f"{beyond}, must be 0: {shares}"),
        Attempt("each partition's share was used", len(used) == 2, shares, harmless=True),
    ]


async def _revoke_in_use(installation: AnsweredInstallation) -> list[Attempt]:
    """One person revokes a grant for a session while its agent uses it."""
    session = installation.session_in(2, "revoked")
    before = installation.session_in(2, "first")
    await installation.send(ACTIONS, _action(before, "share"))
    await installation.wait_for_records(
        VERDICTS, lambda records: any(record["session_id"] == before for record in records)
    )
    await installation.send(ACTIONS, _action(session, "a"))
    opened = await _await_event(installation, session)
    until = rfc3339(time.time_ns() // 1_000_000 + HOUR_MS)
    await installation.send(
        REVIEWS, installation.review(opened, "ann", "approve", grant={"uses": 100, "until": until})
    )
    grant = await _await_event(installation, session, "sluice/grant_given/v1")
    denial = installation.review(grant, "ben", "deny")

    async def use() -> None:
        for number in range(USES):
            await installation.send(
                ACTIONS, _action(session, f"use-{number}", **({SLOW_MARK: True} if number < 3 else {}))
            )

    async def revoke() -> None:
        await _await_event(installation, session, "sluice/grant_used/v1")
        await installation.send(REVIEWS, denial, 1)
        for number in range(AFTERWARDS):
            await installation.send(ACTIONS, _action(session, f"afterwards-{number}"), 1)

    most = 1 + 1 + USES + AFTERWARDS
    await asyncio.gather(use(), revoke())
    await installation.wait_for_records(
        VERDICTS,
        lambda records: len([record for record in records if record["session_id"] == session]) >= most,
    )
    events = [event for event in await installation.all_of(ESCALATIONS) if event["session_id"] == session]
    uses = [event["sequence"] for event in events if event["schema"] == "sluice/grant_used/v1"]
    ends = [event["sequence"] for event in events if event["schema"] == "sluice/grant_revoked/v1"]
    late = [sequence for sequence in uses if sequence > min(ends, default=0)]
    result = f"{len(uses)} uses, {len(late)} of them after the revocation, which must be 0"
    return [
        Attempt("uses of a grant after it was revoked", not late and len(ends) == 1, result),
        Attempt("the grant was used before", len(uses) > len(late), result, harmless=True),
    ]
