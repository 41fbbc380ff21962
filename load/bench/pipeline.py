"""The pure pipeline on one core: bytes in, chained ledger records out, against the libraries' part in it.

Both are measured on the same actions in the same process, chunk by chunk in turn, by the process's CPU time:
the machine's other work is not in it. A chunk holds actions of one kind, so that each kind has its own figures.
"""

from __future__ import annotations

import json
import random
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from app.core.arrival import Arrival
from app.core.inbound import message_of
from app.core.ledger.chain import Chain
from app.core.replay import drive, nobody
from app.core.session import SessionState, session_key
from load.bench import bare_parts, fresh, policy
from load.bench.events import of_rows, panel
from load.bench.figures import ROUNDS, Figure, at_least, reported
from load.bench.kinds import by_kind, texts_of
from topics.catalog import ACTIONS
from topics.unreadable import Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from app.core.decide import DecisionPoint
    from load.bench.kinds import Kind
    from topics.records import ProposedAction

MODULE = "load.bench.pipeline"
EVENTS = 24_000
CHUNK = 256
SESSIONS = 2_000
AT_MS = 1_764_000_000_000
PARTS = ("read", "rules", "parsers", "canonical", "hash")
DECISIONS_S = 6_000
SHARE = 0.5


@dataclass(slots=True)
class Measured:
    """CPU seconds for `events` actions of a kind: the pipeline's, and each bare part's."""

    events: int = 0
    pipeline_s: float = 0.0
    parts_s: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))

    @property
    def bare_s(self) -> float:
        """All bare parts together."""
        return sum(self.parts_s.values())


@dataclass(slots=True)
class Result:
    """By kind."""

    kinds: dict[Kind, Measured]


class Pipeline:
    """One partition of a worker without its shell; sessions in memory."""

    def __init__(self, point: DecisionPoint) -> None:
        self._point = point
        self._chain = Chain(0)
        self._sessions: dict[bytes, SessionState] = {}

    def take(self, arrivals: Sequence[Arrival]) -> list[dict[str, Any]]:
        """Decide a chunk in the worker's order: read all, decide all, link all. The records."""
        messages = [message_of(arrival) for arrival in arrivals]
        decided = [self._decide(*one) for one in zip(arrivals, messages, strict=True)]
        bodies = [record.body for records in decided for record in records]
        for body in bodies:
            self._chain.link(body)
        return bodies

    def _decide(self, arrival: Arrival, message: Any) -> list[Any]:
        if isinstance(message, Unreadable):
            return self._point.unreadable(arrival, message).records
        key = session_key(message.session_id)
        state = self._sessions.setdefault(key, SessionState(key))
        decision = drive(self._point.evaluate(arrival, message, state), nobody)
        state.apply(decision.transition)
        return decision.records


class Bare:
    """The bare parts, each over a whole chunk."""

    def __init__(self) -> None:
        self._rules = bare_parts.BareRules(json.loads(policy.RULES.read_bytes()))
        self._parsers = bare_parts.BareParsers()

    def take(self, kind: Kind, arrivals: Sequence[Arrival], bodies: Sequence[Any], into: Measured) -> None:
        """Measure each part on a chunk and on the records that the pipeline made of it."""
        messages: list[ProposedAction] = []
        _timed(lambda: messages.extend(bare_parts.read(one.value or b"") for one in arrivals), into, "read")
        values = [self._rules.values(one) for one in messages]
        _timed(lambda: [self._rules.evaluate(one) for one in values], into, "rules")
        texts = [text for one in messages for text in texts_of(one.tool_name, kind, one.parameters)]
        _timed(lambda: self._parsers.parse(texts), into, "parsers")
        written: list[bytes] = []
        _timed(lambda: written.extend(map(bare_parts.written, bodies)), into, "canonical")
        _timed(lambda: [bare_parts.hashed(one) for one in written], into, "hash")


def _timed(step: Callable[[], object], into: Measured, part: str) -> None:
    began = time.process_time()
    step()
    into.parts_s[part] += time.process_time() - began


def measure(events: int, seed: int) -> Result:
    """One round, in a fresh process: everything is cold at its start."""
    chunks = _chunks(events, seed)
    pipeline, bare = Pipeline(policy.point()), Bare()
    kinds: dict[Kind, Measured] = {kind: Measured() for kind, _ in chunks}
    fresh.settle()
    for kind, arrivals in chunks:
        into = kinds[kind]
        began = time.process_time()
        bodies = pipeline.take(arrivals)
        into.pipeline_s += time.process_time() - began
        into.events += len(arrivals)
        bare.take(kind, arrivals, bodies, into)
    return Result(kinds)


def _chunks(events: int, seed: int) -> list[tuple[Kind, list[Arrival]]]:
    """Chunks of one kind each, as many of a kind as the panel has of it, in random order."""
    rows, chunks = panel(), []
    for kind, own in by_kind(rows).items():
        count = round(events * len(own) / len(rows))
        messages = list(enumerate(of_rows(own, count, SESSIONS, seed)))
        arrivals = [Arrival(ACTIONS, 0, offset, AT_MS, key, value) for offset, (key, value) in messages]
        chunks += [(kind, arrivals[start : start + CHUNK]) for start in range(0, count, CHUNK)]
    random.Random(seed).shuffle(chunks)
    return chunks
