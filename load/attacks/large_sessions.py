"""Large sessions: make one session's state so large that its every transaction holds up the others.

Ids, counts, sources and flags at their longest, of as many agents as the registry knows. The state must stay
below its bound, and the worker must deny with the reason instead of failing. What a large session costs the
others is measured on a broker: `python -m load.bench large`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from load.attacks.attempt import AttackedSession, Attempt
from load.attacks.strangers import retrieval, write
from sluice.core.state.session_view import SHARES_IN_ALL
from sluice.settings.reader import Settings
from sluice_topics.catalog import ACTIONS, MEMORY_WRITES, OUTCOMES, RETRIEVALS
from sluice_topics.records.base import MAX_COUNT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from load.attacks.attempt import Extent
    from sluice.core.foundation.chain import OutRecord
    from sluice.core.foundation.input_record import InputRecord

AGENTS = ("honest", "sibling", *(f"rival-{number}" for number in range(12)))
FULL: tuple[int, dict[str, int]] = (1100, {})
SHORT: tuple[int, dict[str, int]] = (60, {"max_state_bytes": 16_384})
"""How many inputs of a kind each agent sends, and the bounds that are not the shipped ones."""
LONGEST = "\x01" * 240
ENVELOPE = 4096
"""What the state holds beside what it remembers: totals and times."""


def run(extent: Extent) -> Iterator[Attempt]:
    """The longest of everything, of one agent and of all; then counts of more digits than may be.

    Outcomes that wait may fill as much as one agent, beside what is remembered.
    """
    count, limits = SHORT if extent == "short" else FULL
    most = limits.get("max_state_bytes", Settings().build_limits().max_state_bytes)
    yield _fill_session("one agent", AGENTS[:1], count, limits, most + most)
    yield _fill_session(f"{len(AGENTS)} agents", AGENTS, count, limits, SHARES_IN_ALL * most + most)
    yield from _digits()
    session = AttackedSession("control", **limits)
    word = session.take(session.action("a", 5))["verdict"]
    yield Attempt("an ordinary action", word == "allowed", word, harmless=True)


def _fill_session(
    who: str, agents: tuple[str, ...], count: int, limits: dict[str, int], most: int
) -> Attempt:
    session = AttackedSession(f"large-{who}", **limits)
    reasons: set[str] = set()
    for agent in agents:
        for number in range(count):
            reasons |= set(_flood(session, agent, number))
    size = session.state_bytes
    held = size <= most + ENVELOPE and reasons <= {"session_capacity"}
    return Attempt(f"{count} of everything by {who}", held, f"{size} of {most} bytes, {sorted(reasons)}")


def _flood(session: AttackedSession, agent: str, number: int) -> Iterator[str]:
    """One input of each kind; the faults and denials for want of room that came of them."""
    long = f"{LONGEST}{number}"
    taken = [
        session.replay.take(session.action(f"a{long}", MAX_COUNT, agent=agent, mode="standard")),
        session.replay.take(_outcome(session, f"a{long}")),
        session.replay.take(_outcome(session, f"never{long}", agent)),
        session.replay.take(
            session.input_record(
                MEMORY_WRITES,
                write(session, agent, number)
                | {"write_id": f"w{long}", "source": {"id": f"s{long}", "type": "user"}},
            )
        ),
        session.replay.take(session.input_record(RETRIEVALS, retrieval(session, agent, f"r{long}"))),
    ]
    for record in [record for decision in taken for record in decision.records]:
        yield from _wrong(record)


def _wrong(record: OutRecord) -> Iterator[str]:
    if record.kind == "DeadLetter":
        yield str(record.body["code"])
    if record.kind == "Verdict" and record.body["blockReason"] == "session_capacity":
        yield "session_capacity"


def _outcome(session: AttackedSession, action_id: str, reporter: str = "honest") -> InputRecord:
    fields = {"action_id": action_id, "session_id": session.session, "reported_by": reporter}
    return session.input_record(OUTCOMES, fields | {"rows_affected": MAX_COUNT})


def _digits() -> Iterator[Attempt]:
    for topic, name in ((ACTIONS, "an action"), (OUTCOMES, "an outcome")):
        for digits in (37, 100, 1000):
            session = AttackedSession(f"digits-{digits}")
            action = session.action("a", 1)
            fields = json.loads(action.value or b"")
            if topic == OUTCOMES:
                fields = {"action_id": "a", "session_id": session.session, "reported_by": "honest"}
            input_record = session.input_record(topic, fields | {"rows_affected": 10 ** (digits - 1)})
            kinds = [record.kind for record in session.replay.take(input_record).records]
            yield Attempt(f"{name} of {digits} digits", kinds == ["DeadLetter"], ", ".join(kinds))
