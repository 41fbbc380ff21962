"""Seeded, salted traffic in many sessions: actions, their outcomes, memory writes and reviews of them,
retrievals and reports of what stores returned; and sessions of agents that act under mandates and limits.

Endless; `rest` gives what must still come so that no outcome waits for its action. Reviews are of what the
broker has taken already, so what is drawn depends a little on when that was.
"""

from __future__ import annotations

import base64
import hashlib
import heapq
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import rfc8785

from load.inputs.memory_traffic import MemoryTraffic, ReviewTraffic
from load.inputs.retrieval_traffic import RetrievalTraffic
from load.inputs.task_traffic import KIND as OF_TASKS
from load.installations.installation import MALFORMED, POISON, Mix, TrafficRecord
from load.installations.neutral_policy import AGENT, PURGE_LIMIT, PURGE_TOOL, READ_TOOL, UNSIGNED_FACTOR
from load.installations.quality_policy import OVERRIDDEN, POINT
from sluice_topics.audience import UNNAMED, Audience, record_message
from sluice_topics.catalog import ACTIONS, OUTCOMES

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from load.inputs.task_traffic import TaskTraffic
    from sluice.core.registry.keys import SigningKey

Makers = Mapping[str, Mapping[str, Callable[[str, str], bytes]]]
"""Makers of unreadable values, by base topic and kind."""
MAX_ROWS = 50
ACKNOWLEDGES = 0.1
"""Actions that say which flags of what was read they have seen."""
AGAIN = 1 / 3
"""Of the signed outcomes, those that came before."""
EARLY_BY = 60  # events at most between an early outcome and its action


@dataclass(slots=True)
class _TrafficSession:
    """`actions` by id with their bytes; `shared`: ids under which another action came; `placed`: where a
    carried-out action lies; `signed`: ids that have a signed outcome, and its bytes."""

    name: str
    actions: list[tuple[dict[str, Any], bytes]] = field(default_factory=list)
    carried: list[dict[str, Any]] = field(default_factory=list)
    shared: set[str] = field(default_factory=set)
    placed: dict[str, dict[str, Any]] = field(default_factory=dict)
    signed: dict[str, bytes] = field(default_factory=dict)


class Traffic:
    """Draws from `rng`; `salt` keeps two runs apart, `reviewer` signs reviews and a source's assertions.
    `audience`: the installation for which what it signs is. `tasks`: what agents under mandates do, where
    there are such agents."""

    def __init__(
        self,
        rng: random.Random,
        salt: str,
        mix: Mix,
        reviewer: SigningKey,
        malformed: Makers | None = None,
        audience: Audience = UNNAMED,
    ) -> None:
        self._rng = rng
        self._salt = salt
        self._mix = mix
        self.tasks: TaskTraffic | None = None
        self._memories = MemoryTraffic(rng, salt, mix.slow)
        self._reviews = ReviewTraffic(rng, reviewer, audience)
        self._retrievals = RetrievalTraffic(rng, salt, reviewer)
        self._point = reviewer
        self._audience = audience
        self._malformed = [
            (topic, name, make) for topic, kinds in (malformed or {}).items() for name, make in kinds.items()
        ]
        self._sessions = [_TrafficSession(f"s-{salt}-{number}") for number in range(mix.sessions)]
        self._by_name = {session.name: session for session in self._sessions}
        self._later: list[tuple[int, int, _TrafficSession, dict[str, Any]]] = []
        self._drawn = 0

    def __next__(self) -> TrafficRecord:
        self._drawn += 1
        if self._later and self._later[0][0] <= self._drawn:
            _, _, session, action = heapq.heappop(self._later)
            return self._propose(session, action, "action")
        every = self._mix.malformed_every
        if every and self._drawn % every == 0:
            return self._unreadable()
        if self.tasks is not None and self._rng.random() < self._mix.task:
            return self.tasks.next()
        return self._ordinary(self._rng.choice(self._sessions))

    def __iter__(self) -> Iterator[TrafficRecord]:
        return self

    def rest(self) -> Iterator[TrafficRecord]:
        """The actions that early outcomes wait for."""
        while self._later:
            _, _, session, action = heapq.heappop(self._later)
            yield self._propose(session, action, "action")

    def poison(self) -> TrafficRecord:
        """An action that kills whoever evaluates it; a purge might be blocked before its poison is met."""
        session = self._rng.choice(self._sessions)
        action = self._new_action(session) | {"toolName": READ_TOOL, "parameters": {"poison": self._salt}}
        return TrafficRecord(ACTIONS, session.name.encode(), json.dumps(action).encode(), POISON)

    def poisonous_write(self) -> TrafficRecord:
        """A memory write that kills whoever has it analysed."""
        return self._memories.poison(self._rng.choice(self._sessions).name)

    def note_placed(self, event: TrafficRecord, partition: int, offset: int, timestamp_ms: int) -> None:
        """The broker has taken an event: a memory has its id from there, an outcome its action's place."""
        if self.tasks is not None and event.kind == OF_TASKS:
            self.tasks.note_placed(event, partition, offset, timestamp_ms)
        if event.topic == ACTIONS and event.kind == "action":
            session, action = self._by_name[event.key.decode()], json.loads(event.value)
            if action["rows_affected"] <= PURGE_LIMIT:
                session.placed[action["action_id"]] = {
                    "topic": ACTIONS,
                    "partition": partition,
                    "offset": offset,
                    "timestamp": timestamp_ms,
                    "digest": "sha256:" + hashlib.sha256(event.value).hexdigest(),
                }
        if event.write is not None:
            event.write.memory_id = f"memory:{event.topic}:{partition}:{offset}"
            self._reviews.note_placed(event.write)

    def _ordinary(self, session: _TrafficSession) -> TrafficRecord:
        mix, draw = self._mix, self._rng.random()
        for share, make in (
            (mix.repeat, self._repeat),
            (mix.conflict, self._conflict),
            (mix.outcome, self._outcome),
            (mix.signed, self._make_signed),
            (mix.early, self._early),
            (mix.write, self._write),
            (mix.review, self._review),
            (mix.retrieval, lambda session: self._retrievals.next(session.name)),
            (mix.report, lambda session: self._retrievals.report(session.name)),
        ):
            if draw < share:
                return make(session)
            draw -= share
        return self._propose(session, self._new_action(session), "action")

    def _new_action(self, session: _TrafficSession) -> dict[str, Any]:
        rng = self._rng
        purge = rng.random() < 0.15
        rows = rng.randint(1, MAX_ROWS) + (PURGE_LIMIT if purge and rng.random() < 0.5 else 0)
        action: dict[str, Any] = {
            "action_id": f"a-{self._salt}-{self._drawn}-{rng.getrandbits(32):08x}",
            "agent_id": AGENT,
            "session_id": session.name,
            "toolName": PURGE_TOOL if purge else READ_TOOL,
            "parameters": {"salt": f"{self._salt}-{rng.getrandbits(64):016x}"},
            "rows_affected": rows,
            "mode": "standard" if rng.random() < 0.2 else "high_stakes",
        }
        if rng.random() < self._mix.slow:
            action["parameters"]["slow"] = True
        if rng.random() < ACKNOWLEDGES:
            action["acknowledged_flags"] = ["stale", OVERRIDDEN]
        return action

    def _propose(self, session: _TrafficSession, action: dict[str, Any], kind: str) -> TrafficRecord:
        value = json.dumps(action).encode()
        session.actions.append((action, value))
        if action["rows_affected"] <= PURGE_LIMIT:
            session.carried.append(action)
        return TrafficRecord(ACTIONS, session.name.encode(), value, kind)

    def _repeat(self, session: _TrafficSession) -> TrafficRecord:
        if not session.actions:
            return self._propose(session, self._new_action(session), "action")
        _, value = self._rng.choice(session.actions)
        return TrafficRecord(ACTIONS, session.name.encode(), value, "repeat")

    def _conflict(self, session: _TrafficSession) -> TrafficRecord:
        if not session.actions:
            return self._propose(session, self._new_action(session), "action")
        action, _ = self._rng.choice(session.actions)
        if action["action_id"] in session.signed:
            return self._outcome(
                session
            )  # what a signature settled and an id shared since depend on the order
        session.shared.add(action["action_id"])
        changed = {**action, "mode": "high_stakes", "reasoning": f"changed {self._drawn}"}
        return TrafficRecord(ACTIONS, session.name.encode(), json.dumps(changed).encode(), "conflict")

    def _outcome(self, session: _TrafficSession) -> TrafficRecord:
        if not session.carried:
            return self._propose(session, self._new_action(session), "action")
        action = self._rng.choice(session.carried[-20:])
        return self._make_settling(session, action, "outcome")

    def _make_signed(self, session: _TrafficSession) -> TrafficRecord:
        """An outcome that the enforcement point signed for one action; some are an earlier one again."""
        if session.signed and self._rng.random() < AGAIN:
            value = self._rng.choice(list(session.signed.values()))
            return TrafficRecord(OUTCOMES, session.name.encode(), value, "signed again")
        open_ = [
            placed_id
            for placed_id in session.placed
            if placed_id not in session.shared and placed_id not in session.signed
        ]
        if not open_:
            return self._propose(session, self._new_action(session), "action")
        action_id = self._rng.choice(open_[-20:])
        coordinates = session.placed[action_id]
        fields = {
            "action_id": action_id,
            "session_id": session.name,
            "rows_affected": self._rng.randint(0, 3 * MAX_ROWS),
            "reported_by": POINT,
            "action_digest": coordinates["digest"],
            "input": coordinates,
        }
        signature = base64.b64encode(
            self._point.sign(record_message(self._audience, rfc8785.dumps(fields)))
        ).decode()
        value = session.signed[action_id] = json.dumps(fields | {"signature": signature}).encode()
        return TrafficRecord(OUTCOMES, session.name.encode(), value, "signed")

    def _early(self, session: _TrafficSession) -> TrafficRecord:
        action = self._new_action(session)
        action["rows_affected"] = min(action["rows_affected"], PURGE_LIMIT)
        due = self._drawn + self._rng.randint(1, EARLY_BY)
        heapq.heappush(self._later, (due, self._drawn, session, action))
        return self._make_settling(session, action, "early")

    def _write(self, session: _TrafficSession) -> TrafficRecord:
        return self._memories.next(f"{session.name}-m" if self._mix.apart else session.name)

    def _review(self, session: _TrafficSession) -> TrafficRecord:
        return self._reviews.next() or self._write(session)

    def _make_settling(self, session: _TrafficSession, action: dict[str, Any], kind: str) -> TrafficRecord:
        """Not signed, and never more than such an outcome may count."""
        most = UNSIGNED_FACTOR * max(action["rows_affected"], 1)
        outcome = {
            "action_id": action["action_id"],
            "session_id": session.name,
            "rows_affected": max(0, self._rng.randint(action["rows_affected"] - 20, most)),
            "reported_by": AGENT,
        }
        return TrafficRecord(OUTCOMES, session.name.encode(), json.dumps(outcome).encode(), kind)

    def _unreadable(self) -> TrafficRecord:
        topic, name, make = self._malformed[(self._drawn // self._mix.malformed_every) % len(self._malformed)]
        session = self._rng.choice(self._sessions)
        value = make(session.name, f"{self._salt}-{self._drawn}")
        return TrafficRecord(topic, session.name.encode(), value, f"{MALFORMED}{name}")
