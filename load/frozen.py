"""Many inputs of every kind with the records that they led to, kept in a file, and compared with today's.

`python -m load.frozen freeze FILE` draws the inputs, decides them by the pure core, and writes both, with the
policy and the public keys in it. `compare FILE` decides the same inputs under the same policy again, says how
many of the records are byte for byte the same, and shows the first that are not. A change of the core that is
meant to change no record is held by this: freeze with the commit before it, compare with it.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import json
import random
import sys
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import rfc8785

from load.bench.fixtures import action_events, bench_policy, items, memory_writes
from load.bench.fixtures.pure import Pipeline
from load.inputs.malformed_inputs import kinds_by_topic
from load.inputs.traffic import Traffic
from load.installations import neutral_policy, quality_policy
from load.installations.installation import Mix
from load.installations.neutral_policy import TENANT
from sluice.core.actions.stages import list_shipped_stages, load_bundle
from sluice.core.decide.decision_point import DecisionPoint
from sluice.core.foundation.input_record import InputRecord
from sluice.core.policy.policy import Policy
from sluice.core.quality_bundle.quality_bundle import load_quality_bundle
from sluice.core.registry.loading import load_registry
from sluice.settings.reader import Settings
from sluice_demo.throwaway_trust import OWNER, REVIEWER, ThrowawayTrust
from sluice_topics.catalog import ACTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sluice.core.foundation.limits import SessionLimits

COUNT = 20_000
SESSIONS = 800
CHUNK = 200
STEP_MS = 37
"""Between two inputs: so that windows, escalations and idle sessions end within a set."""
SHOWN = 3
POLICY = ("bundle", "registry", "quality")
SEED = 1


@dataclass(frozen=True, slots=True)
class FrozenSet:
    """One policy, and inputs that are decided under it in their order."""

    name: str
    bundle: bytes
    registry: bytes
    quality: bytes
    input_records: list[InputRecord]

    def point(self, limits: SessionLimits) -> DecisionPoint:
        """A decision point over the set's policy, whose stopwatch stands still."""
        bundle, quality = load_bundle(self.bundle), load_quality_bundle(self.quality)
        registry = load_registry(self.registry)
        policy = Policy({bundle.id: bundle}, registry, bundle.id, {quality.id: quality}, quality.id)
        return DecisionPoint(policy, list_shipped_stages(), limits, stopwatch=lambda: 0, environment=TENANT)

    def decide(self) -> Iterator[list[bytes]]:
        """The records of each input, in their canonical form, chained as a partition chains them."""
        pipeline = Pipeline(self.point(Settings().build_limits()))
        for input_record in self.input_records:
            yield [rfc8785.dumps(body) for body in pipeline.take([input_record])]


def draw(count: int) -> Iterator[FrozenSet]:
    """The sets, `count` inputs each: actions, memory writes and items as the benchmarks have them under the
    shipped bundles, and the traffic of the fault runs, with all that goes wrong in it."""
    shipped = bench_policy.document(), bench_policy.registry(), items.QUALITY.read_bytes()
    messages = action_events.events(count, SESSIONS, SEED)
    yield FrozenSet(
        "actions",
        *shipped,
        [_make_input_record(ACTIONS, number, *message) for number, message in enumerate(messages)],
    )
    texts = list(memory_writes.texts("mixed", count, random.Random(SEED), 256))
    yield FrozenSet("memory writes", *shipped, memory_writes.input_records(texts, SESSIONS))
    bodies = items.Bodies(0.1, random.Random(SEED))
    shape = items.Shape(4, bodies)
    yield FrozenSet("items", *shipped, items.input_records(count // shape.items, SESSIONS, SEED, shape))
    yield _traffic(count)


def _traffic(count: int) -> FrozenSet:
    trust, began_ms = ThrowawayTrust(), action_events.AT_MS
    stages = tuple(name for name in neutral_policy.STAGES if name not in {"poison", "slow_probe"})
    standing = [
        *neutral_policy.entries(),
        *quality_policy.make_standing(trust, TENANT, began_ms),
        *_approvers(trust),
    ]
    traffic = Traffic(
        random.Random(SEED),
        "frozen",
        Mix(SESSIONS, 0.0, malformed_every=97),
        trust.reviewer,
        kinds_by_topic(),
    )
    input_records, offsets = [], dict[str, int]()
    for number, event in enumerate(islice(traffic, count)):
        offset = offsets.setdefault(event.topic, 0)
        offsets[event.topic] += 1
        at_ms = began_ms + number * STEP_MS
        traffic.note_placed(event, 0, offset, at_ms)
        input_records.append(InputRecord(event.topic, 0, offset, at_ms, event.key, event.value))
    return FrozenSet(
        "traffic of the fault runs",
        json.dumps(neutral_policy.bundle(stages=stages)).encode(),
        json.dumps({"entries": standing}).encode(),
        json.dumps(quality_policy.document()).encode(),
        input_records,
    )


def _approvers(trust: ThrowawayTrust) -> list[dict[str, Any]]:
    keys = {OWNER: trust.owner, REVIEWER: trust.reviewer}
    return [
        {
            "kind": "approver",
            "id": name,
            "revision": 1,
            "spec": {"public_key": key.public.text, "signs": [], "roles": ["approver", "reviewer"]},
        }
        for name, key in keys.items()
    ]


def _make_input_record(topic: str, number: int, key: bytes, value: bytes) -> InputRecord:
    return InputRecord(topic, 0, number, action_events.AT_MS + number * STEP_MS, key, value)


def freeze(path: Path, count: int) -> None:
    """Draw, decide and write."""
    with gzip.open(path, "wb", compresslevel=1) as file:
        for frozen_set in draw(count):
            kinds = Counter[str]()
            policy = {name: getattr(frozen_set, name).decode() for name in POLICY}
            file.write(
                orjson.dumps({"set": frozen_set.name, "inputs": len(frozen_set.input_records), **policy})
                + b"\n"
            )
            for input_record, records in zip(frozen_set.input_records, frozen_set.decide(), strict=True):
                written = [record.decode() for record in records]
                file.write(orjson.dumps({**_write_input_record(input_record), "records": written}) + b"\n")
                kinds.update(json.loads(record).get("schema", input_record.topic) for record in written)
            print(
                f"{frozen_set.name}: {len(frozen_set.input_records)} inputs frozen, with {dict(kinds)}",
                flush=True,
            )


def _write_input_record(input_record: InputRecord) -> dict[str, Any]:
    return {
        "topic": input_record.topic,
        "offset": input_record.offset,
        "timestamp_ms": input_record.timestamp_ms,
        "key": _encode(input_record.key),
        "value": _encode(input_record.value),
    }


def _encode(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _decode(value: str | None) -> bytes | None:
    return None if value is None else base64.b64decode(value)


def compare(path: Path) -> int:
    """How many inputs have other records than when they were frozen; the first ones are shown."""
    different = 0
    with gzip.open(path, "rb") as file:
        while head := file.readline():
            header = orjson.loads(head)
            lines = [orjson.loads(file.readline()) for _ in range(header["inputs"])]
            input_records = [
                InputRecord(
                    line["topic"],
                    0,
                    line["offset"],
                    line["timestamp_ms"],
                    _decode(line["key"]),
                    _decode(line["value"]),
                )
                for line in lines
            ]
            bundle, registry, quality = (header[name].encode() for name in POLICY)
            frozen = FrozenSet(header["set"], bundle, registry, quality, input_records)
            different += _compare(frozen, [line["records"] for line in lines])
    return different


def _compare(frozen: FrozenSet, before: Iterable[list[str]]) -> int:
    different = 0
    for input_record, was, now in zip(frozen.input_records, before, frozen.decide(), strict=True):
        written = [record.decode() for record in now]
        if written == was:
            continue
        different += 1
        if different <= SHOWN:
            print(f"{input_record.topic}:{input_record.offset}")
            print(f"  was {_apart(was, written)}\n  is  {_apart(written, was)}")
    same = len(frozen.input_records) - different
    print(f"{frozen.name}: {same} of {len(frozen.input_records)} inputs have the same records", flush=True)
    return different


def _apart(records: list[str], others: list[str]) -> list[str]:
    """What these records have that the others do not: members, or schemas where there are more or fewer."""
    if len(records) != len(others):
        return [json.loads(record)["schema"] for record in records]
    differences = []
    for fields, other in zip(map(json.loads, records), map(json.loads, others), strict=True):
        differences += [
            f"{name}: {value!r}" for name, value in fields.items() if other.get(name, ...) != value
        ]
    return differences


def main() -> None:
    """Freeze or compare."""
    parser = argparse.ArgumentParser(prog="python -m load.frozen", description=__doc__)
    parser.add_argument("what", choices=["freeze", "compare"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--count", type=int, default=COUNT, help="inputs a set")
    options = parser.parse_args()
    if options.what == "freeze":
        freeze(options.file, options.count)
    elif compare(options.file):
        sys.exit(1)


if __name__ == "__main__":
    main()
