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
            place = AttackedSession(f"{what}-{flooder}", **limits)
            for number in range(count):
                flood(place, flooder, number)
            yield from _victim(place, f"{count} {what} of {flooder}")
    yield from _many_agents(count, limits)
    yield _fill_waiting(count, limits)
    yield _quarantine()
    yield _own(count, limits)


def _act(place: AttackedSession, flooder: str, number: int) -> None:
    place.take(place.action(f"x{number}", 0, agent=flooder, mode="standard" if number % 2 else "high_stakes"))


def _write(place: AttackedSession, flooder: str, number: int) -> None:
    place.replay.take(place.input_record(MEMORY_WRITES, write(place, flooder, number)))


def _read(place: AttackedSession, flooder: str, number: int) -> None:
    place.replay.take(place.input_record(RETRIEVALS, retrieval(place, flooder, f"x{number}")))


def _report(place: AttackedSession, flooder: str, number: int) -> None:
    place.report(fields(f"x{number}", place.session, 1) | {"reported_by": flooder})


FLOODS: dict[str, Callable[[AttackedSession, str, int], None]] = {
    "actions": _act,
    "memory writes": _write,
    "retrievals": _read,
    "early outcomes": _report,
}


def _victim(place: AttackedSession, after: str) -> Iterator[Attempt]:
    verdict = place.take(place.action("mine", 5))
    yield Attempt(f"{after}, then an action", verdict["verdict"] == "allowed", str(verdict["blockReason"]))
    decided = place.replay.take(place.input_record(MEMORY_WRITES, write(place, "honest", 0))).records
    reason = next(one.body["reason"] for one in decided if one.kind == "MemoryDecision")
    yield Attempt(f"{after}, then a memory write", reason != "session_capacity", reason)
    action = place.action("settled", 400)
    place.report(sign_outcome(action, 3, action_id="settled"))
    place.take(action)
    total = place.rows
    yield Attempt(f"{after}, then an early signed outcome", total == 8, f"total {total}")


def _many_agents(count: int, limits: dict[str, int]) -> Iterator[Attempt]:
    """Twelve tenants at once, then one more agent that comes for the first time."""
    place = AttackedSession("many", **limits)
    for number in range(count * 2):
        place.take(place.action(f"x{number}", 0, agent=f"rival-{number % 12}"))
    yield from _victim(place, f"{count * 2} actions of agents of twelve tenants")


def _fill_waiting(count: int, limits: dict[str, int]) -> Attempt:
    """Signed outcomes that are sent again fill no room of the point that signed them."""
    place = AttackedSession("waiting", **limits)
    old = [place.action("settled", 400, reasoning=str(number)) for number in range(min(count, 70))]
    outcomes = [sign_outcome(one, 3, action_id="settled") for one in old]
    for one in old:
        place.take(one)
    place.later(61)
    for outcome in outcomes:
        place.report(outcome)
    action = place.action("settled", 400)
    before = place.rows
    place.report(sign_outcome(action, 3, action_id="settled"))
    place.take(action)
    return Attempt(
        "old signed outcomes, then an early one", place.rows == before + 3, f"total {place.rows - before}"
    )


def _quarantine() -> Attempt:
    """A thousand held memories of one agent evict none of another's."""
    book, most = Book({}), 100
    for offset in range(most + 50):
        agent = "honest" if offset < 5 else "sibling"
        held = _make_held(agent, offset)
        book.apply([*map(Left, book.select_crowding(max(0, len(book) + 1 - most))), Entered(held)])
    left = sum(one.agent_id == "honest" for one in book.all_held)
    return Attempt("a flood of held memories", left == 5, f"{left} of 5 of the victim's are still held")


def _own(count: int, limits: dict[str, int]) -> Attempt:
    """The control: who is alone has all the room that the settings give."""
    place = AttackedSession("own", **limits)
    room = limits.get("max_recent_actions", 1024)
    words = [place.take(place.action(f"mine-{number}", 0))["verdict"] for number in range(min(room, count))]
    return Attempt("an agent's own actions", set(words) == {"allowed"}, str(set(words)), harmless=True)


def write(place: AttackedSession, agent: str, number: int) -> dict[str, Any]:
    """A memory write that is nothing special."""
    return {
        "write_id": f"w-{agent}-{number}",
        "agent_id": agent,
        "session_id": place.session,
        "content": f"The order {number} was delivered on Tuesday.",
        "source": {"id": f"mail-{agent}-{number}", "type": "user"},
    }


def retrieval(place: AttackedSession, agent: str, request: str) -> dict[str, Any]:
    """A retrieval of items without metadata, all flagged or denied."""
    return {
        "request_id": request,
        "agent_id": agent,
        "session_id": place.session,
        "items": [{"item_id": f"{request}-{number}", "body": "text"} for number in range(20)],
    }


def _make_held(agent: str, offset: int) -> QuarantinedMemory:
    digest = "sha256:" + base64.b16encode(bytes(32)).decode()
    names = (f"memory:t:3:{offset}", f"w{offset}", agent, "s", "acme", "mail", "user", digest, digest)
    return QuarantinedMemory(*names, "t", 3, offset, 0.5, 0.7, offset, 10**9)
