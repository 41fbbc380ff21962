"""Sessions whose agents act under signed mandates and limits, with what their tools returned.

Mandates come in time, late, twice, forged, within another one or beyond it; they are used up, run out, and
are revoked midway. Payments go where mandate or registry say, where a trusted result or a stranger's text
said, or anywhere. Outcomes bring values that are signed, not signed, cut off, late, forged, or never come.
What becomes of an action is not foretold here: load/recomputation/task_recount.py reads whether it may be so.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import rfc8785

from load.installations import task_policy
from load.installations.installation import TrafficRecord
from load.installations.quality_policy import POINT
from load.installations.task_policy import CONTACTS, INBOX, PAY, PAYERS, PREFIX, REGISTERED
from sluice.client.mandates import MandateIssuer, MandateTerms, compute_mandate_digest, issue_mandate
from sluice.client.sender import InputSigner
from sluice_topics.audience import record_message
from sluice_topics.catalog import ACTIONS, MANDATES, OUTCOMES
from sluice_topics.values import fingerprint, read_value

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from load.installations.installation import Mix
    from sluice.core.registry.keys import SigningKey
    from sluice_demo.throwaway_trust import ThrowawayTrust
    from sluice_topics.audience import Audience

KIND = "task"
"""Of all inputs of these sessions, in their header."""
SESSION_OF = 5
"""One of these sessions where the traffic has so many others."""
LENGTH = 60
"""Inputs of a session, about; then a new one takes its place."""
PARTNERS = tuple(f"partner-{number}@load.example" for number in range(12))
"""Destinations that mandates name, so that some become usual."""
MOST_AMOUNT, MOST_ROWS = 100, 40
RUNS_OUT_MS = 4000
"""A mandate that soon counts no longer counts so long."""
LASTS_MS = 3_600_000
NO_MANDATE = "sha256:" + "0" * 64


@dataclass(slots=True)
class _PublishedAction:
    """A published action: its fields, and where it lies; `reported`: its signed outcome is published."""

    action: dict[str, Any]
    input: dict[str, Any]
    reported: bool = False


@dataclass(slots=True)
class _Task:
    """A session, and the agent whose it is first. `mandates`: with their digests, the latest last;
    `returned` and `strange`: the addresses that contacts and the inbox returned; `placed`: its actions by
    id."""

    name: str
    agent: str
    left: int
    mandates: list[tuple[dict[str, Any], str]] = field(default_factory=list)
    returned: list[str] = field(default_factory=list)
    strange: list[str] = field(default_factory=list)
    placed: dict[str, _PublishedAction] = field(default_factory=dict)


class TaskTraffic:
    """Draws from `rng`. `mix`: the sessions, of which these are one in `SESSION_OF`, and the share of actions
    that ask the slow port; `now_ms`: the broker's time, about."""

    def __init__(
        self,
        rng: random.Random,
        salt: str,
        mix: Mix,
        trust: ThrowawayTrust,
        audience: Audience,
        now_ms: Callable[[], int],
    ) -> None:
        self._rng = rng
        self._salt = salt
        self._slow = mix.slow
        self._trust = trust
        self._audience = audience
        self._now_ms = now_ms
        self._key = task_policy.derive_values_key()
        self._issuer = MandateIssuer(task_policy.ISSUER, InputSigner(task_policy.ISSUER_PEM, audience))
        self._stranger = MandateIssuer(task_policy.ISSUER, InputSigner(task_policy.STRANGER_PEM, audience))
        self._drawn = 0
        self._began = 0
        self._tasks = [self._begin(lane) for lane in range(max(2, mix.sessions // SESSION_OF))]
        self._by_name = {task.name: task for task in self._tasks}
        self._makers: tuple[tuple[float, Callable[[_Task, int], TrafficRecord]], ...] = (
            (0.12, self._issue),
            (0.10, self._read),
            (0.27, self._report),
            (0.05, self._repeat),
            (0.015, self._revoke),
        )

    def next(self) -> TrafficRecord:
        """The next input; now and then a registry entry that revokes a mandate."""
        self._drawn += 1
        lane = self._rng.randrange(len(self._tasks))
        task = self._tasks[lane]
        task.left -= 1
        if task.left < 0:
            task = self._tasks[lane] = self._begin(lane)
            self._by_name[task.name] = task
        if not task.mandates:
            return self._issue(task, lane)
        draw = self._rng.random()
        for share, make in self._makers:
            if draw < share:
                return make(task, lane)
            draw -= share
        return self._pay(task)

    def note_placed(self, event: TrafficRecord, partition: int, offset: int, timestamp_ms: int) -> None:
        """The broker has taken an input."""
        if event.topic != ACTIONS:
            return
        action = json.loads(event.value)
        coordinates = {
            "topic": ACTIONS,
            "partition": partition,
            "offset": offset,
            "timestamp": timestamp_ms,
            "digest": "sha256:" + hashlib.sha256(event.value).hexdigest(),
        }
        task = self._by_name[event.key.decode()]
        task.placed.setdefault(action["action_id"], _PublishedAction(action, coordinates))

    def _begin(self, lane: int) -> _Task:
        self._began += 1
        length = self._rng.randint(LENGTH // 2, LENGTH)
        return _Task(f"{PREFIX}{self._salt}-{lane}-{self._began}", PAYERS[lane % 2], length)

    def _issue(self, task: _Task, lane: int) -> TrafficRecord:
        """A mandate: mostly a good one; also the last one again, one within another or beyond it, one that
        soon counts no longer, or one that a stranger signed."""
        rng = self._rng
        draw = rng.random()
        if draw < 0.1 and task.mandates:
            return _publish(MANDATES, task, task.mandates[-1][0])
        above, agent = self._find_above(task, lane) if draw > 0.4 else None, task.agent
        count, named = rng.randint(2, 6), rng.sample(PARTNERS, 3)
        until_ms = self._now_ms() + (RUNS_OUT_MS if 0.2 < draw < 0.35 else LASTS_MS)
        if above is not None:
            pay = next(tool for tool in above["tools"] if tool["tool"] == PAY)
            named, until_ms = above["destinations"][:2], min(until_ms, _read_until_ms(above))
            agent = rng.choice(PAYERS)
            count = pay["count"] + 1 if draw > 0.9 else rng.randint(1, pay["count"])
        condition = f"action.parameters.amount <= {rng.randint(MOST_AMOUNT // 2, MOST_AMOUNT)}"
        tools: list[dict[str, Any]] = [
            {"tool": PAY, "condition": condition, "count": count},
            {"tool": CONTACTS},
            {"tool": INBOX},
        ]
        terms = MandateTerms(
            task=f"Pay what is due, as asked {self._drawn} of {self._salt}",
            tools=tools,
            destinations=named,
            parent=above,
            mandate_id=f"m-{self._salt}-{self._drawn}",
        )
        issuer = self._stranger if 0.1 < draw < 0.15 else self._issuer
        until = datetime.fromtimestamp(until_ms / 1000, UTC)
        mandate = issue_mandate(issuer, agent, task.name, until, terms)
        task.mandates.append((mandate, compute_mandate_digest(mandate)))
        return _publish(MANDATES, task, mandate)

    def _find_above(self, task: _Task, lane: int) -> dict[str, Any] | None:
        """A mandate with none above it: of the same session, so that both share its counts, or of another."""
        mandates = (task if self._rng.random() < 0.5 else self._tasks[lane - 1]).mandates
        roots = [mandate for mandate, _ in mandates if "parent" not in mandate]
        return self._rng.choice(roots) if roots else None

    def _read(self, task: _Task, _: int) -> TrafficRecord:
        tool = CONTACTS if self._rng.random() < 0.65 else INBOX
        return self._propose(task, tool, {"query": f"{self._drawn}"})

    def _pay(self, task: _Task) -> TrafficRecord:
        rng = self._rng
        named = task.mandates[-1][0]["destinations"]
        draw = rng.random()
        choices = (
            (0.25, REGISTERED),
            (0.25, named),
            (0.20, task.returned),
            (0.08, task.strange),
            (0.12, PARTNERS),
        )
        to = f"new-{self._drawn}-{self._salt}@elsewhere.example"
        for share, addresses in choices:
            if draw < share and addresses:
                to = rng.choice(addresses)
                break
            draw -= share
        return self._propose(task, PAY, {"to": to, "amount": rng.randint(1, MOST_AMOUNT)})

    def _propose(self, task: _Task, tool: str, parameters: dict[str, Any]) -> TrafficRecord:
        rng, named = self._rng, self._choose_mandate(task)
        action = {
            "action_id": f"t-{self._salt}-{self._drawn}-{rng.getrandbits(32):08x}",
            "agent_id": task.agent if named is None or rng.random() < 0.05 else named[0]["agent_id"],
            "session_id": task.name,
            "toolName": tool,
            "parameters": parameters,
            "rows_affected": rng.randint(1, MOST_ROWS),
            "mode": "high_stakes",
        }
        if rng.random() < self._slow:
            parameters["slow"] = True
        if named is not None:
            action["mandate_digest"] = NO_MANDATE if rng.random() < 0.02 else named[1]
        return _publish(ACTIONS, task, action)

    def _choose_mandate(self, task: _Task) -> tuple[dict[str, Any], str] | None:
        """Mostly the latest; also an earlier one, one of another session, or none."""
        draw = self._rng.random()
        if draw < 0.04:
            return None
        if draw < 0.07:
            return self._rng.choice(self._rng.choice(self._tasks).mandates or task.mandates)
        return task.mandates[-1] if draw < 0.8 else self._rng.choice(task.mandates)

    def _repeat(self, task: _Task, _: int) -> TrafficRecord:
        """An action again, byte for byte."""
        if not task.placed:
            return self._pay(task)
        return _publish(ACTIONS, task, self._rng.choice(list(task.placed.values())).action)

    def _revoke(self, task: _Task, _: int) -> TrafficRecord:
        """Its latest mandate ends everywhere, with those within it."""
        topic, key, value = self._trust.sign_entries([task_policy.make_revocation(task.mandates[-1][1])])[0]
        assert value is not None  # noqa: S101 - an entry, not a tombstone
        return TrafficRecord(topic, key, value, KIND)

    def _report(self, task: _Task, _: int) -> TrafficRecord:
        """An outcome of one of the last actions, or seldom of one from long before."""
        open_ = [
            published_action for published_action in task.placed.values() if not published_action.reported
        ]
        if not open_:
            return self._pay(task)
        rng, draw = self._rng, self._rng.random()
        published = rng.choice(open_[-6:] if draw < 0.8 else open_)
        action, how = published.action, rng.random()
        outcome: dict[str, Any] = {
            "action_id": action["action_id"],
            "session_id": task.name,
            "rows_affected": rng.randint(0, action["rows_affected"]),
            "reported_by": POINT,
        }
        if action["toolName"] != PAY:
            outcome["values"] = self._make_values(task, action["toolName"], cut=0.85 < how < 0.9)
        if how < 0.08:
            return _publish(OUTCOMES, task, {**outcome, "reported_by": action["agent_id"]})
        outcome |= {"action_digest": published.input["digest"], "input": published.input}
        if how < 0.16:
            return _publish(OUTCOMES, task, self._sign(outcome, task_policy.STRANGER))
        if how < 0.2:
            elsewhere = {**published.input, "offset": max(0, published.input["offset"] - 1)}
            return _publish(OUTCOMES, task, self._sign({**outcome, "input": elsewhere}))
        published.reported = rng.random() < 0.9
        return _publish(OUTCOMES, task, self._sign(outcome))

    def _make_values(self, task: _Task, tool: str, *, cut: bool) -> dict[str, Any]:
        """Three addresses; contacts seldom return one of a stranger's, too."""
        pool = task.returned if tool == CONTACTS else task.strange
        kind = "known" if tool == CONTACTS else "stranger"
        addresses = [f"{kind}-{self._rng.randrange(200)}@{kind}.example" for _ in range(3)]
        pool += addresses
        prints = [
            base64.b64encode(fingerprint(self._key, read_value(address))).decode() for address in addresses
        ]
        return {"fingerprints": list(dict.fromkeys(prints)), "truncated": cut}

    def _sign(self, outcome: dict[str, Any], key: SigningKey | None = None) -> dict[str, Any]:
        return sign_outcome(outcome, key or self._trust.reviewer, self._audience)


def sign_outcome(outcome: dict[str, Any], key: SigningKey, audience: Audience) -> dict[str, Any]:
    """The outcome with its signature by a key, for one installation."""
    written = record_message(audience, rfc8785.dumps(outcome))
    return outcome | {"signature": base64.b64encode(key.sign(written)).decode()}


def _publish(topic: str, task: _Task, message: dict[str, Any]) -> TrafficRecord:
    return TrafficRecord(topic, task.name.encode(), json.dumps(message).encode(), KIND)


def _read_until_ms(mandate: dict[str, Any]) -> int:
    return round(datetime.fromisoformat(mandate["until"]).timestamp() * 1000)
