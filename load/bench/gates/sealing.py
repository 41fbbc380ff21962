"""What a sealed value costs: the same actions with it and with the value plain, chunk by chunk in turn, and
each first in every second chunk: what runs second finds the other's data in the processor's cache."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from load.bench import measurement
from load.bench.fixtures import bench_policy
from load.bench.fixtures.action_events import AT_MS, events
from load.bench.fixtures.pure import Pipeline
from load.bench.measurement import CpuClock, judge, report, require_at_most, run_in_fresh_process
from sluice.core.foundation.input_record import InputRecord
from sluice.core.foundation.sealed_input import Keys, find_keys
from sluice_topics.catalog import ACTIONS
from sluice_topics.sealing import PersonalField, SubjectKey, seal_document

if TYPE_CHECKING:
    from collections.abc import Iterator

    from load.bench.measurement import Extent, Figures, Judge, Measurement
    from sluice.core.foundation.requests import Answer, Request

EVENTS = 12_000
CHUNK = 256
SESSIONS = 2_000
PEOPLE = 500
GOAL = 1.1
NAMED = "customer_name"
FIELDS = [PersonalField("action", ("parameters", NAMED), ("parameters", "customer"))]
KEYS = {
    f"{number:032x}": SubjectKey(f"{number:032x}", number.to_bytes(64), bench_policy.TENANT)
    for number in range(PEOPLE)
}
PURE: dict[str, Judge] = {
    "plain, pure core": partial(report, unit="us/action"),
    "sealed, pure core": partial(report, unit="us/action"),
    "sealed / plain, pure core": partial(require_at_most, goal=GOAL),
}


def answer(request: Request) -> Answer:
    """The keys, at hand."""
    return find_keys(Keys(KEYS), request)


def name_customers(messages: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """The same actions, each about one of the people, whose name it has."""
    for number, (key, value) in enumerate(messages):
        document = json.loads(value)
        person = number % PEOPLE
        document["parameters"] |= {"customer": f"{person:032x}", NAMED: f"Person Number {person}"}
        yield key, document


def measure(count: int, seed: int) -> Figures:
    """One round of the pure core, in a fresh process."""
    under = bench_policy.policy()
    plain = Pipeline(bench_policy.point_of(under))
    opening = Pipeline(bench_policy.point_of(under), answer)
    documents, others = (name_customers(events(count, SESSIONS, seed)) for _ in range(2))
    as_they_are = [
        InputRecord(ACTIONS, 0, n, AT_MS, key, json.dumps(document).encode())
        for n, (key, document) in enumerate(documents)
    ]
    sealed = [
        InputRecord(ACTIONS, 0, n, AT_MS, key, json.dumps(_seal(document)).encode())
        for n, (key, document) in enumerate(others)
    ]
    clock = CpuClock()
    measurement.settle()
    for number, start in enumerate(range(0, count, CHUNK)):
        steps = [
            ("plain", partial(plain.take, as_they_are[start : start + CHUNK])),
            ("sealed", partial(opening.take, sealed[start : start + CHUNK])),
        ]
        for what, step in steps[:: 1 if number % 2 else -1]:
            bodies = clock.take(what, step)
            assert all(body["schema"] != "sluice/dead_letter/v1" for body in bodies)  # noqa: S101
    each = {what: seconds / count * 1e6 for what, seconds in clock.seconds.items()}
    rates = each["plain"], each["sealed"], each["sealed"] / each["plain"]
    return dict(zip(PURE, rates, strict=True))


def _seal(document: dict[str, Any]) -> dict[str, Any]:
    return seal_document(document, "action", FIELDS, lambda subject: KEYS[subject.name])


def figures(extent: Extent) -> list[Measurement]:
    """What an action with a sealed value costs in the pure core."""
    rounds = [run_in_fresh_process(measure, extent.scale(EVENTS), seed) for seed in range(extent.rounds)]
    return judge(rounds, PURE)
