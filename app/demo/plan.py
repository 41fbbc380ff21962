"""Everything that the demo publishes, in order, as values: made before anything is sent."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any, Literal

from app.adapters.kafka_publish import Outgoing
from app.demo.encoding import to_bytes
from app.demo.sessions import REPEATING
from app.demo.unreadable import unreadable_values
from topics.catalog import ACTIONS, BY_NAME, MEMORY_WRITES, RETRIEVALS
from topics.headers import input_headers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.demo.sessions import Session

SOURCE = "/sluice/demo"
"""ce_source of what the demo publishes."""
Kind = Literal[
    "action", "repeat", "conflict", "unreadable", "outcome", "write", "review", "retrieval", "report"
]


@dataclass(frozen=True, slots=True)
class Planned:
    """One input. `fields` are the record's by wire name; an unreadable one has only `what`, what is wrong."""

    kind: Kind
    topic: str
    session_id: str
    fields: dict[str, Any]
    outgoing: Outgoing


def make_plan(sessions: Sequence[Session], time: str) -> list[Planned]:
    """The sessions' actions, memory writes and retrievals in turn, each session's in its order; then repeats
    and unreadable records among them. `time` is RFC 3339, for the headers.
    """
    columns = [_column(session, time) for session in sessions]
    for session, column in zip(sessions, columns, strict=True):
        if session.id == REPEATING:
            column.extend(_again(session.actions[0], time))
    spoilt = _spoilt(sessions)
    for column, one in zip(columns[-len(spoilt) :], spoilt, strict=True):
        column.insert(len(column) // 2, one)
    return [one for one in chain.from_iterable(zip_longest(*columns)) if one is not None]


def _column(session: Session, time: str) -> list[Planned]:
    """Actions, writes and retrievals by turns, as long as there are any of each."""
    actions = [_action(fields, "action", time) for fields in session.actions]
    writes = [input_of("write", MEMORY_WRITES, one["write_id"], one, time) for one in session.writes]
    reads = [retrieval_of(fields, time) for fields in session.reads]
    return [one for one in chain.from_iterable(zip_longest(actions, writes, reads)) if one is not None]


def retrieval_of(fields: dict[str, Any], time: str) -> Planned:
    """A ProposedRetrieval."""
    return input_of("retrieval", RETRIEVALS, fields["request_id"], fields, time)


def input_of(kind: Kind, topic: str, record_id: str, fields: dict[str, Any], time: str) -> Planned:
    """A readable input record, keyed by its session."""
    headers = input_headers(record_id, BY_NAME[topic].records[0].__name__, SOURCE, time)
    session: str = fields["session_id"]
    return Planned(kind, topic, session, fields, Outgoing(session.encode(), to_bytes(fields), tuple(headers)))


def _action(fields: dict[str, Any], kind: Kind, time: str) -> Planned:
    return input_of(kind, ACTIONS, fields["action_id"], fields, time)


def _again(fields: dict[str, Any], time: str) -> list[Planned]:
    """The same bytes once more, then another action under the same id."""
    other = {**fields, "rows_affected": fields["rows_affected"] + 1}
    return [_action(fields, "repeat", time), _action(other, "conflict", time)]


def _spoilt(sessions: Sequence[Session]) -> list[Planned]:
    """One unreadable record for each of the last sessions, under that session's key."""
    count = len(list(unreadable_values(sessions[-1].actions[0])))
    return [_unreadable(session, place) for place, session in enumerate(sessions[-count:])]


def _unreadable(session: Session, place: int) -> Planned:
    what, value = list(unreadable_values(session.actions[0]))[place]
    return Planned(
        "unreadable", ACTIONS, session.id, {"what": what}, Outgoing(session.id.encode(), value, ())
    )
