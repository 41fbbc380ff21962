"""What the judgement of a memory write takes from state: read from it, or from the decision that records it.

The two are one value, so that a rerun judges on exactly what the decision says and needs no session, no
quarantine and no history.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.core.foundation.arrival import memory_id
from sluice.core.foundation.canonical import hex_of
from sluice.core.state.history import UNSEEN, History, SourceName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.core.foundation.arrival import Arrival
    from sluice.core.state.decision import Shared
    from sluice.core.state.session import Who
    from sluice.core.state.session_view import SessionView
    from sluice_topics.records import ProposedMemoryWrite


class Parent(NamedTuple):
    """A memory that the write derives from; `trust` is None if the memory is not known."""

    memory_id: str
    trust: float | None


class RememberedWrite(NamedTuple):
    """What is remembered under a write's id: the hex digest and the offset of the first input, its action and
    the one that shadow mode hid."""

    digest: str
    offset: int
    action: str
    shadow: str | None


class WriteSeen(NamedTuple):
    """`room`: whether one more write can be remembered, or one is `known` under its id. `history`: of its
    source; `session_type` and `last_at` (ms): what the session knows of the source. `parents`: each once, in
    the order in which the write names them."""

    known: RememberedWrite | None
    room: bool
    history: History
    session_type: str | None
    last_at: int | None
    parents: tuple[Parent, ...]


NOTHING_SEEN = WriteSeen(None, room=True, history=UNSEEN, session_type=None, last_at=None, parents=())


def observe(
    owner: Who, arrival: Arrival, write: ProposedMemoryWrite, view: SessionView, shared: Shared
) -> WriteSeen:
    """What a write finds in its session, and in what the partition keeps beside it; `owner` has the room that
    it uses."""
    tenant, source_id = owner.tenant, write.source.id
    known = view.write(owner, write.write_id)
    session_type, last_at = view.source(tenant, source_id)
    return WriteSeen(
        None if known is None else RememberedWrite(known.digest, known.offset, known.action, known.shadow),
        known is not None or view.has_room_for_write(owner),
        shared.histories.get(SourceName(tenant, source_id), UNSEEN),
        session_type,
        last_at,
        _parents(arrival, write, view, shared, tenant) if write.derived_from else (),
    )


def recorded(seen: WriteSeen) -> dict[str, Any]:
    """The decision's `seen`."""
    known, history = seen.known, seen.history
    return {
        "known": None
        if known is None
        else {
            "digest": f"sha256:{known.digest}",
            "offset": known.offset,
            "action": known.action,
            "shadow": known.shadow,
        },
        "room": seen.room,
        "source": {
            "type": history.type,
            "positive": history.positive,
            "negative": history.negative,
            "revision": history.revision,
            "session_type": seen.session_type,
            "last_at": seen.last_at,
        },
        "parents": [{"memory_id": one.memory_id, "trust": one.trust} for one in seen.parents]
        if seen.parents
        else [],
    }


def recorded_seen(decision: Mapping[str, Any], write: ProposedMemoryWrite) -> WriteSeen:
    """From a decision on this write: the way back of `recorded`. Which parents there are says the write."""
    seen = decision["seen"]
    known, trust = seen["known"], recorded_trust(decision)
    return WriteSeen(
        None
        if known is None
        else RememberedWrite(hex_of(known["digest"]), known["offset"], known["action"], known["shadow"]),
        known is not None or seen["room"],
        recorded_history(decision),
        seen["source"]["session_type"],
        seen["source"]["last_at"],
        tuple(Parent(one, trust.get(one)) for one in dict.fromkeys(write.derived_from or ())),
    )


def recorded_history(decision: Mapping[str, Any]) -> History:
    """The history of its source as a decision saw it."""
    source = decision["seen"]["source"]
    return History(source["type"], source["positive"], source["negative"], source["revision"])


def recorded_trust(decision: Mapping[str, Any]) -> dict[str, float | None]:
    """The trust of its parents, by their ids, as a decision saw it."""
    return {one["memory_id"]: one["trust"] for one in decision["seen"]["parents"]}


def _parents(
    arrival: Arrival, write: ProposedMemoryWrite, view: SessionView, shared: Shared, tenant: str
) -> tuple[Parent, ...]:
    """Parents are looked for in the session, and among what the partition holds for the tenant."""
    place = f"{arrival.topic}:{arrival.partition}:"
    trust = {memory_id(f"{place}{one.offset}"): one.trust for one in view.writes(tenant)}
    return tuple(
        Parent(one, trust[one] if one in trust else shared.book.trust_of(tenant, one))
        for one in dict.fromkeys(write.derived_from or ())
    )
