"""What a sealed value costs: the same actions with it and with the value plain, chunk by chunk in turn, and
each first in every second chunk: what runs second finds the other's data in the processor's cache."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from load.bench import measurement
from load.bench.fixtures import bench_env, bench_policy
from load.bench.fixtures.action_events import AT_MS, events
from load.bench.fixtures.pure import Pipeline
from load.bench.measurement import CpuClock, judge, report, require_at_most, run_in_fresh_process
from sluice.bootstrap.sealing import build_subject_keys
from sluice.core.foundation.input_record import InputRecord
from sluice.core.foundation.sealed_input import Keys, find_keys
from sluice.secrets.redis_seal import make_seal_key, write_seal_keys
from sluice.settings.reader import load_settings
from sluice_topics.catalog import ACTIONS
from sluice_topics.sealing import PersonalField, Subject, SubjectKey, seal_document

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from load.bench.fixtures.bench_env import Round
    from load.bench.measurement import Extent, Figures, Judge, Measurement
    from sluice.core.foundation.requests import Answer, Request

EVENTS = 12_000
CHUNK = 256
SESSIONS = 2_000
PEOPLE = 500
WORKER_EVENTS, WORKER_PEOPLE, WORKER_PAIRS = 5_000, 100, 4
GOAL = 1.1
NAMED, UNMARKED = "customer_name", "customer_nick"
"""Where the name stands: sealed at the one, which is marked, and plain at the other."""
MARK = {"kind": "action", "path": f"/parameters/{NAMED}", "subject": "/parameters/customer"}
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
WORKER: dict[str, Judge] = {
    "plain, worker": partial(report, unit="CPU us/action"),
    "sealed, worker": partial(report, unit="CPU us/action"),
    "sealed / plain, worker": partial(require_at_most, goal=GOAL),
}


def answer(request: Request) -> Answer:
    """The keys, at hand."""
    return find_keys(Keys(KEYS), request)


def name_customers(
    messages: Iterator[tuple[bytes, bytes]], name_field: str, people: int = PEOPLE
) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """The same actions, each about one of the people, whose name it has."""
    for number, (key, value) in enumerate(messages):
        document = json.loads(value)
        person = number % people
        document["parameters"] |= {"customer": f"{person:032x}", name_field: f"Person Number {person}"}
        yield key, document


def measure(count: int, seed: int) -> Figures:
    """One round of the pure core, in a fresh process."""
    under = bench_policy.policy(personal=[MARK])
    plain = Pipeline(bench_policy.point_of(under))
    opening = Pipeline(bench_policy.point_of(under), answer)
    documents, others = (name_customers(events(count, SESSIONS, seed), at) for at in (UNMARKED, NAMED))
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


def _seal(document: dict[str, Any], keys: Mapping[str, SubjectKey] = KEYS) -> dict[str, Any]:
    return seal_document(document, "action", FIELDS, lambda subject: keys[subject.name])


async def measure_worker(round_: Round, count: int, pairs: int = WORKER_PAIRS) -> Figures:
    """CPU time of one worker an action, of many with a sealed value and of as many without, in turn: what
    else the machine does meets both."""
    path = round_.work / f"{round_.name}.keys"
    write_seal_keys(path, (make_seal_key(),))
    settings = {"SLUICE_SEALING__MASTER_KEY_FILE": str(path)}
    await round_.create_topics(personal=[MARK])
    keys = build_subject_keys(load_settings(environment=round_.environment(**settings)))
    assert keys is not None  # noqa: S101 - the settings name a master key
    await keys.start()
    people = {
        f"{number:032x}": await keys.choose(bench_policy.TENANT, Subject("subject", f"{number:032x}"))
        for number in range(WORKER_PEOPLE)
    }
    await keys.close()
    turns = (_make_turn(number, count, people) for number in range(2 * pairs + 2))
    with bench_env.worker(round_, **settings) as child:
        await bench_env.wait_until_ready(round_, child)
        each = await bench_env.measure_turns_us(round_, child, turns)
    rates = each["plain"], each["sealed"], each["sealed"] / each["plain"]
    return dict(zip(WORKER, rates, strict=True))


def _make_turn(number: int, count: int, people: Mapping[str, SubjectKey]) -> bench_env.Turn:
    what = ("plain", "sealed", "sealed", "plain")[number % 4]
    name_field = UNMARKED if what == "plain" else NAMED
    documents = name_customers(events(count, SESSIONS, number), name_field, WORKER_PEOPLE)
    messages = [
        (key, json.dumps(document if what == "plain" else _seal(document, people)).encode())
        for key, document in documents
    ]
    return bench_env.Turn(what, messages)


def figures(extent: Extent) -> list[Measurement]:
    """What an action with a sealed value costs in the pure core."""
    rounds = [run_in_fresh_process(measure, extent.scale(EVENTS), seed) for seed in range(extent.rounds)]
    return judge(rounds, PURE)
