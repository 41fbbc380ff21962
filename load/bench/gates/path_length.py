"""How many files one input enters on its way through a worker: `python -m load.bench.gates.path_length`.

Counted from `Partition.start` to the staged batch, in a session and a process that have seen such inputs
before: files of app/ and topics/ whose functions run, how often the call goes from one of them to another,
the calls themselves, and the types that carry it. docs/architecture.md has them.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from statistics import median_low
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from load import ROOT
from load.bench.fixtures import action_events, bench_policy, items, memory_writes
from sluice.core.decide.kinds import BY_TOPIC
from sluice.core.foundation.input_record import InputRecord
from sluice.stream.engine.engine_settings import EngineSettings
from sluice.stream.engine.evaluation import Ports, WorkerContext
from sluice.stream.engine.outbox import home_of
from sluice.stream.engine.partition import Partition
from sluice_topics.catalog import ACTIONS, CATALOG

if TYPE_CHECKING:
    from types import FrameType

    from sluice.core.decide.decision_point import DecisionPoint

INPUTS = 24
TEXT = "The meeting about order {} is on Friday."
_PARTITIONS = 8
_COUNTED = tuple(f"{ROOT / name}/" for name in ("app", "topics"))
_SETTINGS = EngineSettings(
    input_topics=tuple(BY_TOPIC),
    real_names={topic.name: topic.name for topic in CATALOG},
    source="/bench",
    partitions=_PARTITIONS,
    max_batch=INPUTS,
    max_in_flight=INPUTS,
    offsets_interval_s=1.0,
    linger_low_s=0.0,
    linger_high_s=0.0,
    timer_interval_s=1.0,
    close_timeout_s=1.0,
    halt_on_offset_gap=True,
)


class PathLength(NamedTuple):
    """Files entered, goings from one file to another, calls, and the types of app/ and topics/ of which an
    object of this input alone is handed to a function, as an argument or as its `self`."""

    files: int
    switches: int
    calls: int
    types: int


class _Profile:
    """Counts the calls of functions in app/ and topics/."""

    def __init__(self, there: dict[int, Any]) -> None:
        """`there`: what functions were handed at earlier inputs, by id, so it serves this one and does not
        carry it; held there, so that no object that is made for this input takes its id. What this one's
        functions are handed is added."""
        self._there = there
        self._carriers: dict[int, Any] = {}
        self._files: set[str] = set()
        self._last = ""
        self._switches = 0
        self._calls = 0

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        del arg
        name = frame.f_code.co_filename
        if event != "call" or not name.startswith(_COUNTED):
            return
        self._calls += 1
        self._files.add(name)
        self._switches += name != self._last
        self._last = name
        code = frame.f_code
        for argument in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
            value = frame.f_locals.get(argument)
            if _is_counted(value) and id(value) not in self._there:
                self._carriers[id(value)] = value

    def finish(self) -> PathLength:
        """Return the length of the input's way."""
        self._there |= self._carriers
        types = {type(carrier) for carrier in self._carriers.values()}
        return PathLength(len(self._files), self._switches, self._calls, len(types))


def _is_counted(value: object) -> bool:
    """Whether its type is defined in app/ or topics/."""
    return str(type(value).__module__).startswith(("sluice.", "sluice_topics."))


def path_lengths(point: DecisionPoint) -> dict[str, PathLength]:
    """By kind of input the median of some harmless ones of one session, once the first half has warmed it up;
    retrievals are of one item."""
    contents = [TEXT.format(number) for number in range(INPUTS)]
    inputs_by_kind = {
        "action": [_plain(at, *pair) for at, pair in enumerate(action_events.events(INPUTS, 1, 1))],
        "memory write": memory_writes.input_records(contents, 1),
        "item": items.input_records(INPUTS, 1, 1, items.Shape(1)),
    }
    return {kind: _median(point, input_records) for kind, input_records in inputs_by_kind.items()}


def _plain(offset: int, key: bytes, value: bytes) -> InputRecord:
    """An action of the panel's tool, with little to read in it."""
    fields = orjson.loads(value) | {"parameters": {"q": "open orders"}}
    return InputRecord(ACTIONS, 0, offset, action_events.AT_MS, key, orjson.dumps(fields))


def _median(point: DecisionPoint, input_records: list[InputRecord]) -> PathLength:
    number = home_of(input_records[0].key or b"", _PARTITIONS)
    owner = Partition(number, WorkerContext(point, Ports({}), _SETTINGS, {}), {}, {}, _fail)
    at_home = [replace(record, partition=number) for record in input_records]
    for input_record in at_home:
        owner.intakes[input_record.topic].admit(input_record.offset)
    there: dict[int, Any] = {}
    lengths = [_length(owner, input_record, there) for input_record in at_home]
    return median_low(lengths[len(lengths) // 2 :])


def _length(owner: Partition, input_record: InputRecord, there: dict[int, Any]) -> PathLength:
    profile = _Profile(there)
    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        owner.start([input_record])
        owner.take(open_=True)
    finally:
        sys.setprofile(before)
    return profile.finish()


def _fail(fault: BaseException) -> None:
    raise fault


if __name__ == "__main__":
    for kind, length in path_lengths(bench_policy.point()).items():
        files, switches, calls, types = length
        print(f"{kind:<13} {files} files, {switches} switches, {calls} calls, {types} types")
