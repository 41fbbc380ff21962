"""Strangers: fill the session of another agent, so that what it does next is denied for want of room.

The attacker knows the session's id and floods it with actions, memory writes, retrievals and outcomes, under
names that nobody registered, of another tenant and of a sibling. The victim must get on as if it were alone.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from load.attacks.attempt import AttackedSession, Attempt
from load.attacks.false_outcomes import fields, sign_outcome
from sluice.core.state.book import Book, Entered, Left
from sluice.core.state.quarantined import QuarantinedMemory
from sluice_topics.catalog import MEMORY_WRITES, RETRIEVALS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from load.attacks.attempt import Extent

FLOODERS = ("nobody-knows-me", "rival-0", "sibling")
FULL, SHORT = 1100, 150
SHORT_LIMITS = {"max_recent_actions": 128, "max_recent_writes": 128, "max_recent_retrievals": 8}
"""In the short form a room is smaller, and so is the flood."""


def run(extent: Extent) -> Iterator[Attempt]:
    """Every kind of flood by every kind of stranger, then the victim."""
    count = SHORT if extent == "short" else FULL
    limits = SHORT_LIMITS if extent == "short" else {}
    for flooder in FLOODERS:
        for what, flood in FLOODS.items():
            session = AttackedSession(f"{what}-{flooder}", **limits)
            for number in range(count):
                flood(session, flooder, number)
            yield from _victim(session, f"{count} {what} of {flooder}")
    yield from _many_agents(count, limits)
    yield _fill_waiting(count, limits)
    yield _quarantine()
    yield _own(count, limits)


def _act(session: AttackedSession, flooder: str, number: int) -> None:
    session.take(
        session.action(f"x{number}", 0, agent=flooder, mode="standard" if number % 2 else "high_stakes")
    )


def _write(session: AttackedSession, flooder: str, number: int) -> None:
    session.replay.take(session.input_record(MEMORY_WRITES, write(session, flooder, number)))


def _read(session: AttackedSession, flooder: str, number: int) -> None:
    session.replay.take(session.input_record(RETRIEVALS, retrieval(session, flooder, f"x{number}")))


def _report(session: AttackedSession, flooder: str, number: int) -> None:
    session.report(fields(f"x{number}", session.session, 1) | {"reported_by": flooder})


FLOODS: dict[str, Callable[[AttackedSession, str, int], None]] = {
    "actions": _act,
    "memory writes": _write,
    "retrievals": _read,
    "early outcomes": _report,
}


def _victim(session: AttackedSession, after: str) -> Iterator[Attempt]:
    verdict = session.take(session.action("mine", 5))
    yield Attempt(f"{after}, then an action", verdict["verdict"] == "allowed", str(verdict["blockReason"]))
    decided = session.replay.take(session.input_record(MEMORY_WRITES, write(session, "honest", 0))).records
    reason = next(record.body["reason"] for record in decided if record.kind == "MemoryDecision")
    yield Attempt(f"{after}, then a memory write", reason != "session_capacity", reason)
    action = session.action("settled", 400)
    session.report(sign_outcome(action, 3, action_id="settled"))
    session.take(action)
    total = session.rows
    yield Attempt(f"{after}, then an early signed outcome", total == 8, f"total {total}")


def _many_agents(count: int, limits: dict[str, int]) -> Iterator[Attempt]:
    """Twelve tenants at once, then one more agent that comes for the first time."""
    session = AttackedSession("many", **limits)
    for number in range(count * 2):
        session.take(session.action(f"x{number}", 0, agent=f"rival-{number % 12}"))
    yield from _victim(session, f"{count * 2} actions of agents of twelve tenants")


def _fill_waiting(count: int, limits: dict[str, int]) -> Attempt:
    """Signed outcomes that are sent again fill no room of the point that signed them."""
    session = AttackedSession("waiting", **limits)
    old = [session.action("settled", 400, reasoning=str(number)) for number in range(min(count, 70))]
    outcomes = [sign_outcome(record, 3, action_id="settled") for record in old]
    for input_record in old:
        session.take(input_record)
    session.later(61)
    for outcome in outcomes:
        session.report(outcome)
    action = session.action("settled", 400)
    before = session.rows
    session.report(sign_outcome(action, 3, action_id="settled"))
    session.take(action)
    return Attempt(
        "old signed outcomes, then an early one", session.rows == before + 3, f"total {session.rows - before}"
    )


def _quarantine() -> Attempt:
    """A thousand held memories of one agent evict none of another's."""
    book, most = Book({}), 100
    for offset in range(most + 50):
        agent = "honest" if offset < 5 else "sibling"
        memory = _make_held(agent, offset)
        book.apply([*map(Left, book.select_crowding(max(0, len(book) + 1 - most))), Entered(memory)])
    left = sum(quarantined.agent_id == "honest" for quarantined in book.all_held)
    return Attempt("a flood of held memories", left == 5, f"{left} of 5 of the victim's are still held")


def _own(count: int, limits: dict[str, int]) -> Attempt:
    """The control: who is alone has all the room that the settings give."""
    session = AttackedSession("own", **limits)
    room = limits.get("max_recent_actions", 1024)
    words = [
        session.take(session.action(f"mine-{number}", 0))["verdict"] for number in range(min(room, count))
    ]
    return Attempt("an agent's own actions", set(words) == {"allowed"}, str(set(words)), harmless=True)


def write(session: AttackedSession, agent: str, number: int) -> dict[str, Any]:
    """A memory write that is nothing special."""
    return {
        "write_id": f"w-{agent}-{number}",
        "agent_id": agent,
        "session_id": session.session,
        "content": f"The order {number} was delivered on Tuesday.",
        "source": {"id": f"mail-{agent}-{number}", "type": "user"},
    }


def retrieval(session: AttackedSession, agent: str, request: str) -> dict[str, Any]:
    """A retrieval of items without metadata, all flagged or denied."""
    return {
        "request_id": request,
        "agent_id": agent,
        "session_id": session.session,
        "items": [{"item_id": f"{request}-{number}", "body": "text"} for number in range(20)],
    }


def _make_held(agent: str, offset: int) -> QuarantinedMemory:
    digest = "sha256:" + base64.b16encode(bytes(32)).decode()
    names = (f"memory:t:3:{offset}", f"w{offset}", agent, "s", "acme", "mail", "user", digest, digest)
    return QuarantinedMemory(*names, "t", 3, offset, 0.5, 0.7, offset, 10**9)
