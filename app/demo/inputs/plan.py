"""Everything that the demo publishes, in order, as values: made before anything is sent."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any, Literal

from app.adapters.kafka.kafka_publish import Outgoing
from app.demo.inputs.panel_sessions import REPEATING
from topics.catalog import ACTIONS, BY_NAME, MAX_INPUT_VALUE_BYTES, MEMORY_WRITES, RETRIEVALS
from topics.headers import input_headers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from app.demo.inputs.panel_sessions import PlannedSession


def to_bytes(fields: dict[str, Any]) -> bytes:
    """The same fields in the same order give the same bytes."""
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


_TOO_DEEP = 65


def unreadable_values(action: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    """What is wrong and the bytes, of at least ten kinds. `action`: a ProposedAction by wire name."""
    whole = to_bytes(action)
    yield "cut off in the middle", whole[: len(whole) // 2]
    yield "no value at all", b""
    yield "not UTF-8", _with(action, '"\xff"'.encode("latin-1"))
    yield "a key given twice", whole[:-1] + b',"mode":"standard"' * 2 + b"}"
    yield "NaN for a number", _with(action, b'{"limit":NaN}')
    yield "half a surrogate pair", _with(action, rb'{"text":"\ud800"}')
    yield "nested too deep", _with(action, b"[" * _TOO_DEEP + b"]" * _TOO_DEEP)
    yield "over the size limit", _with(action, b'"' + b"x" * MAX_INPUT_VALUE_BYTES + b'"')
    yield "an unknown field", to_bytes({**action, "priority": "urgent"})
    yield "a field missing", to_bytes({name: value for name, value in action.items() if name != "toolName"})
    yield "a number as text", to_bytes({**action, "rows_affected": "12"})
    yield "another session's key", to_bytes({**action, "session_id": f"{action['session_id']}-other"})


def _with(action: dict[str, Any], parameters: bytes) -> bytes:
    """The action with these bytes for its `parameters`, which a JSON writer would not write."""
    rest = {name: value for name, value in action.items() if name != "parameters"}
    return to_bytes(rest)[:-1] + b',"parameters":' + parameters + b"}"


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


def make_plan(sessions: Sequence[PlannedSession], time: str) -> list[Planned]:
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


def _column(session: PlannedSession, time: str) -> list[Planned]:
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


def _spoilt(sessions: Sequence[PlannedSession]) -> list[Planned]:
    """One unreadable record for each of the last sessions, under that session's key."""
    count = len(list(unreadable_values(sessions[-1].actions[0])))
    return [_unreadable(session, place) for place, session in enumerate(sessions[-count:])]


def _unreadable(session: PlannedSession, place: int) -> Planned:
    what, value = list(unreadable_values(session.actions[0]))[place]
    return Planned(
        "unreadable", ACTIONS, session.id, {"what": what}, Outgoing(session.id.encode(), value, ())
    )
