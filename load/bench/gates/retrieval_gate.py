"""The quality gate on one core, against the libraries' part in it, chunk by chunk in turn by CPU time.

The gate: a request that was read is judged item by item, each item's decision record is made, hashed for its
rerun, brought into canonical form, hashed and chained. The whole: beside that the request's bytes are read,
the session remembers it, and what is served is written. Bare: orjson reads the request, writes the same
decision records with sorted keys, and SHA-256 goes over them.

The quality report: over a million of the gate's events, a month of requests, beside a bare read and parse of
the same export.
"""

from __future__ import annotations

import base64
import os
import random
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from load.bench import measurement
from load.bench.fixtures import bench_policy, yardsticks
from load.bench.fixtures.action_events import AT_MS
from load.bench.fixtures.bench_env import resident_kb_of
from load.bench.fixtures.items import Bodies, Shape, input_records
from load.bench.fixtures.pure import Pipeline
from load.bench.measurement import (
    CpuClock,
    Figures,
    judge,
    report,
    require_at_least,
    require_at_most,
    rounds_of,
)
from sluice.core.decide.kinds import read_input_message
from sluice.core.decide.replay import drive, nobody
from sluice.core.foundation.canonical import canonical
from sluice.core.foundation.chain import Chain
from sluice.core.reports.ledger_values import DECISION, LedgerValues
from sluice.core.reports.report import build_quality_report
from sluice.core.reports.report_tally import QualityTally
from sluice.core.state.decision import Shared
from sluice.core.state.session import SessionState, session_key
from sluice.offline.record_files import read_export
from sluice_topics.catalog import QUALITY_DECISIONS
from sluice_topics.records import ProposedRetrieval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from load.bench.measurement import Extent, Judge, Measurement
    from sluice.core.decide.decision_point import DecisionPoint
    from sluice.core.foundation.chain import OutRecord
    from sluice.core.foundation.input_record import InputRecord

ITEMS = 60_000
READ_ITEMS = 3_000
"""Of each share of fresh texts: these cost milliseconds."""
CHUNK = 250
SESSIONS = 500
ITEMS_S = 20_000
SIZES = {10: "10 items a request", 1: "1 item a request"}
FRESH = (1.0, 0.1, 0.0)


RATES: dict[str, Judge] = {}
for _size, _name in SIZES.items():
    RATES |= {
        f"quality gate with its event, {_name}": partial(require_at_least, goal=ITEMS_S, unit="items/s")
        if _size > 1
        else partial(report, unit="items/s"),
        f"bytes in, served and chained, {_name}": partial(report, unit="items/s"),
        f"bare orjson and SHA-256, {_name}": partial(report, unit="items/s", goal="yardstick"),
        f"gate / bare, {_name}": partial(report, unit="ratio"),
    }
for _share in FRESH:
    RATES[f"bodies of 1 KB, {_share:.0%} fresh, the whole"] = partial(report, unit="items/s")


class JudgingGate:
    """One partition's gate without reading and serving."""

    def __init__(self, point: DecisionPoint) -> None:
        self._point = point
        self._chain = Chain(0)
        self._sessions: dict[bytes, SessionState] = {}
        self._shared = Shared()

    def take(self, read: Sequence[tuple[InputRecord, ProposedRetrieval]]) -> list[dict[str, Any]]:
        """Judge the requests and chain the decisions on their items."""
        decided = [record for pair in read for record in self._decide(*pair)]
        for record in decided:
            self._chain.link(record.body, ordered=record.ordered, alike=record.alike)
        return [record.body for record in decided]

    def _decide(self, input_record: InputRecord, message: ProposedRetrieval) -> list[OutRecord]:
        key = session_key(message.session_id)
        state = self._sessions.get(key)
        if state is None:
            state = self._sessions[key] = SessionState(key)
        decision = drive(self._point.evaluate(input_record, message, state, self._shared), nobody)
        state.apply(decision.session)
        return [record for record in decision.records if record.topic == QUALITY_DECISIONS]


def measure(count: int, seed: int) -> Figures:
    """One round, in a fresh process: without bodies, by size of request; then with them, by fresh texts."""
    under, rates_by_name = bench_policy.policy(), Figures()
    for size, name in SIZES.items():
        rates = _rates(bench_policy.point_of(under), count, seed, Shape(size))
        rates_by_name |= {
            f"quality gate with its event, {name}": rates["gate"],
            f"bytes in, served and chained, {name}": rates["whole"],
            f"bare orjson and SHA-256, {name}": rates["bare"],
            f"gate / bare, {name}": rates["gate"] / rates["bare"],
        }
    for share in FRESH:
        shape = Shape(10, Bodies(share, random.Random(seed)))
        read = max(4 * CHUNK, count * READ_ITEMS // ITEMS)
        rates = _rates(bench_policy.point_of(under), read, seed, shape)
        rates_by_name[f"bodies of 1 KB, {share:.0%} fresh, the whole"] = rates["whole"]
    return rates_by_name


def _rates(point: DecisionPoint, count: int, seed: int, shape: Shape) -> dict[str, float]:
    """Items a second. Gate and whole each take requests that are new to them, so that no cache of texts helps
    the second."""
    inputs = input_records(max(1, count // shape.items), SESSIONS, seed, shape)
    gate, pipeline, clock, taken = JudgingGate(point), Pipeline(point), CpuClock(), 0
    size = max(1, CHUNK // shape.items)
    measurement.settle()
    for start in range(0, len(inputs) - 2 * size + 1, 2 * size):
        first, second = inputs[start : start + size], inputs[start + size : start + 2 * size]
        read = [
            (record, message)
            for record in first
            if isinstance(message := read_input_message(record), ProposedRetrieval)
        ]
        bodies = clock.take("gate", partial(gate.take, read))
        clock.take("whole", partial(pipeline.take, second))
        clock.take("bare", partial(_bare, first, bodies))
        taken += size * shape.items
    return {who: taken / seconds for who, seconds in clock.seconds.items()}


def _bare(requests: Sequence[InputRecord], bodies: Sequence[dict[str, Any]]) -> None:
    for request in requests:
        orjson.loads(request.value or b"")
    for body in bodies:
        yardsticks.hash_record(yardsticks.canonicalize(body))


def figures(extent: Extent) -> list[Measurement]:
    """Rates of the gate, of the whole and of the bare parts."""
    return judge(rounds_of(measure, extent, ITEMS, seeded=True), RATES)


EVENTS = 1_000_000
REQUESTS, OF_ITEMS, DAYS = 7, 10, 28
"""So many requests a day, of so many items."""
DAY_MS = 86_400_000
_SEED = 20260101


REPORT: dict[str, Judge] = {
    "quality report / bare read and parse": partial(require_at_most, goal=2.0),
    "quality report": partial(report, unit="s"),
    "quality report: memory after a tenth of the events": partial(require_at_most, goal=1.0, unit="MiB"),
}


def measure_report(count: int) -> Figures:
    """One round, in a fresh process; the memory is what the process holds more after all events than after
    a tenth of them."""
    decisions = _decisions()
    lines = b"".join(map(_line, decisions))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ledger.jsonl"
        with file.open("wb") as out:
            for _ in range(max(1, count // len(decisions))):
                out.write(lines)
        measurement.settle()
        tenth = _report(file, max(1, count // 10))
        bare_s, whole = _bare_read(file), _report(file, None)
    return dict(zip(REPORT, (whole[0] / bare_s, whole[0], (whole[1] - tenth[1]) / 1024), strict=True))


def _bare_read(file: Path) -> float:
    started = time.process_time()
    with file.open("rb") as lines:
        for line in lines:
            orjson.loads(orjson.loads(line)["value"])
    return time.process_time() - started


def _report(file: Path, most: int | None) -> tuple[float, int]:
    """CPU seconds, and the KiB resident while the tally is still there."""
    started = time.process_time()
    tally = QualityTally()
    with file.open("rb") as lines:
        read_lines = lines if most is None else (line for _, line in zip(range(most), lines, strict=False))
        read_export(read_lines, (QUALITY_DECISIONS,), LedgerValues({DECISION: tally.count_decision}).take)
    build_quality_report(tally).fields()
    return time.process_time() - started, resident_kb_of(os.getpid())


def _decisions() -> list[dict[str, Any]]:
    """A month of decisions on the benchmarks' items."""
    pipeline, bodies = Pipeline(bench_policy.point()), Bodies(0.0, random.Random(_SEED))
    bodies_of_month = []
    for day in range(DAYS):
        at_ms = AT_MS + day * DAY_MS
        read = input_records(REQUESTS, REQUESTS, day, Shape(OF_ITEMS, bodies, at_ms))
        bodies_of_month += pipeline.take([replace(record, timestamp_ms=at_ms) for record in read])
    return [body for body in bodies_of_month if body.get("schema") == DECISION]


def _line(body: dict[str, Any]) -> bytes:
    fields = {
        "topic": QUALITY_DECISIONS,
        "partition": 0,
        "offset": 0,
        "timestamp": AT_MS,
        "key": base64.b64encode(b"session").decode(),
        "value": canonical(body).decode(),
    }
    return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)


def report_figures(extent: Extent) -> list[Measurement]:
    """Report and bare read in the same process, one after the other."""
    return judge(rounds_of(measure_report, extent, EVENTS), REPORT)
