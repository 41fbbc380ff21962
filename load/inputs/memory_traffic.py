"""Memory writes in the sessions of the fault runs, and signed reviews of those that are held.

Writes are allowed, held or rejected, repeated and in conflict: which of these a write is follows from what it
says, under the policy of the runs, and from what became of the memories that it derives from. Reviews come in
time, too late, twice, and such as do not count.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections import deque
from typing import TYPE_CHECKING, Any, get_args

import rfc8785

from load.installations.installation import POISON, POISON_MARK, SLOW_MARK, TrafficRecord, WrittenMemory
from load.installations.neutral_policy import AGENT, ATTACK, EXEMPT_SOURCE
from sluice_demo.throwaway_trust import REVIEWER
from sluice_topics.audience import Audience, record_message
from sluice_topics.catalog import MEMORY_WRITES, REVIEWS
from sluice_topics.records.memory import SourceType

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from sluice.core.registry.keys import SigningKey

QUALITY: dict[str, Any] = {
    "content_class": "load_note",
    "timestamp": "2020-01-01T00:00:00Z",
    "confidence_score": 0.9,
    "provenance_uri": "https://load.example/notes",
    "provenance_hash": f"sha256:{0:064x}",
}
SOURCES = 12
NOBODY = "load-nobody"
ELSEWHERE = 0.2
LAST = 8
ASKED = 4
"""One in so many unknown parents has the form of a memory's id."""
TYPES: tuple[SourceType, ...] = get_args(SourceType)


class MemoryTraffic:
    """Draws from `rng`; `slow` is the share of new writes that ask the slow port."""

    def __init__(self, rng: random.Random, salt: str, slow: float) -> None:
        self._rng = rng
        self._salt = salt
        self._slow = slow
        self._drawn = 0
        self._published: dict[str, list[WrittenMemory]] = {}
        self._makers: tuple[tuple[float, Callable[[str], TrafficRecord]], ...] = (
            (0.31, self._honest),
            (0.30, self._make_doubted),
            (0.12, self._make_derived),
            (0.04, self._exempt),
            (0.05, self._unfit),
            (0.04, self._hostile),
            (0.02, self._nobodys),
            (0.08, self._repeat),
            (0.04, self._conflict),
        )

    def next(self, session: str) -> TrafficRecord:
        """One write more in the session."""
        draw = self._rng.random()
        for share, make in self._makers:
            if draw < share:
                return make(session)
            draw -= share
        return self._honest(session)

    def poison(self, session: str) -> TrafficRecord:
        """A write that kills whoever has it analysed; it brings all that the gate asks for before."""
        value = json.dumps(self._fields(session, mark=POISON_MARK)).encode()
        return TrafficRecord(MEMORY_WRITES, session.encode(), value, POISON)

    def _honest(self, session: str) -> TrafficRecord:
        return self._first(self._fields(session))

    def _make_doubted(self, session: str) -> TrafficRecord:
        """Derived from something that nobody knows: held for a reviewer. For a few the ledger is asked."""
        number = self._rng.getrandbits(48) + 2**40
        unknown = f"memory:{MEMORY_WRITES}:0:{number}" if number % ASKED == 0 else f"elsewhere-{number}"
        return self._first(self._fields(session) | {"derived_from": [unknown]})

    def _make_derived(self, session: str) -> TrafficRecord:
        """From one or two memories, whatever became of them: of the session, or now and then of another."""
        other = self._rng.random() < ELSEWHERE
        placed = self._list_placed(self._rng.choice(list(self._published) or [session]) if other else session)
        if not placed:
            return self._honest(session)
        parents = {self._rng.choice(placed) for _ in range(self._rng.randint(1, 2))}
        return self._first(self._fields(session) | {"derived_from": sorted(parents)})

    def _list_placed(self, session: str) -> list[str]:
        """Ids of the session's last memories, as far as they are known."""
        last = self._published.get(session, [])[-LAST:]
        return [memory.memory_id for memory in last if memory.memory_id is not None]

    def _exempt(self, session: str) -> TrafficRecord:
        fields = self._fields(session) | {"source": {"id": EXEMPT_SOURCE, "type": "external"}}
        return self._first({name: value for name, value in fields.items() if name not in QUALITY})

    def _unfit(self, session: str) -> TrafficRecord:
        fields = self._fields(session)
        del fields[self._rng.choice(list(QUALITY))]
        return self._first(fields)

    def _hostile(self, session: str) -> TrafficRecord:
        fields = self._fields(session)
        return self._first(fields | {"content": f"{fields['content']} {ATTACK}"})

    def _nobodys(self, session: str) -> TrafficRecord:
        return self._first(self._fields(session) | {"agent_id": NOBODY})

    def _repeat(self, session: str) -> TrafficRecord:
        memories = self._published.get(session)
        if not memories:
            return self._honest(session)
        return TrafficRecord(MEMORY_WRITES, session.encode(), self._rng.choice(memories).value, "repeat")

    def _conflict(self, session: str) -> TrafficRecord:
        memories = self._published.get(session)
        if not memories:
            return self._honest(session)
        changed = {**self._rng.choice(memories).fields, "content": f"changed {self._drawn}"}
        return TrafficRecord(MEMORY_WRITES, session.encode(), json.dumps(changed).encode(), "conflict")

    def _fields(self, session: str, mark: str = "") -> dict[str, Any]:
        rng = self._rng
        self._drawn += 1
        source = rng.randrange(SOURCES)
        slow = SLOW_MARK if rng.random() < self._slow else ""
        return {
            "write_id": f"w-{self._salt}-{self._drawn}",
            "agent_id": AGENT,
            "session_id": session,
            "content": " ".join(filter(None, (f"Note {self._salt} {rng.getrandbits(64):016x}", slow, mark))),
            "source": {"id": f"load-source-{source}", "type": TYPES[source % len(TYPES)]},
            **QUALITY,
        }

    def _first(self, fields: dict[str, Any]) -> TrafficRecord:
        write = WrittenMemory(fields, json.dumps(fields).encode())
        self._published.setdefault(fields["session_id"], []).append(write)
        return TrafficRecord(MEMORY_WRITES, fields["session_id"].encode(), write.value, "write", write)


KIND = "review:"
RECENT = 30
"""Memories among which the next subject is drawn: of the last seconds, so some are past their time."""
NEWEST = 6
"""Half of the subjects are drawn among so many: they still wait."""
KINDS = {
    "approve": 0.38,
    "reject": 0.34,
    "again": 0.10,
    "wrong_digest": 0.04,
    "wrong_signature": 0.04,
    "stranger": 0.04,
    "deny": 0.03,
    "unheard_of": 0.03,
}


class ReviewTraffic:
    """Draws from `rng` among what was placed; `reviewer` signs."""

    def __init__(self, rng: random.Random, reviewer: SigningKey, audience: Audience) -> None:
        self._rng = rng
        self._reviewer = reviewer
        self._audience = audience
        self._placed: deque[WrittenMemory] = deque(maxlen=RECENT)
        self._reviewed: deque[WrittenMemory] = deque(maxlen=RECENT)

    def note_placed(self, write: WrittenMemory) -> None:
        """A write whose memory's id is known by now."""
        if "derived_from" in write.fields:
            self._placed.append(write)

    def next(self) -> TrafficRecord | None:
        """A review; None while there is nothing to review."""
        kind = self._rng.choices(list(KINDS), list(KINDS.values()))[0]
        subjects = self._reviewed if kind == "again" and self._reviewed else self._placed
        if not subjects:
            return None
        write = self._rng.choice([*subjects][-self._rng.choice((NEWEST, RECENT)) :])
        self._reviewed.append(write)
        fields = self._fields(write, kind)
        value = json.dumps(fields | {"signature": self._signature(fields, kind)}).encode()
        return TrafficRecord(REVIEWS, fields["session_id"].encode(), value, f"{KIND}{kind}")

    def _fields(self, write: WrittenMemory, kind: str) -> dict[str, Any]:
        content = write.fields["content"] + ("?" if kind == "wrong_digest" else "")
        decision = self._rng.choice(("approve", "reject")) if kind == "again" else kind
        return {
            "subject_id": f"{write.memory_id}0000" if kind == "unheard_of" else write.memory_id,
            "session_id": write.fields["session_id"],
            "decision": decision if decision in {"reject", "deny"} else "approve",
            "approver_id": "load-stranger" if kind == "stranger" else REVIEWER,
            "digest": "sha256:" + hashlib.sha256(content.encode()).hexdigest(),
            "justification": f"a load run's {kind} {self._rng.getrandbits(64):016x}",
        }

    def _signature(self, fields: dict[str, Any], kind: str) -> str:
        signed = fields | ({"justification": "another"} if kind == "wrong_signature" else {})
        message = record_message(self._audience, rfc8785.dumps(signed))
        return base64.b64encode(self._reviewer.sign(message)).decode()
