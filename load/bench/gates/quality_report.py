"""The quality report over a million events beside a bare read and parse of the same file, and its memory.

The events are the gate's own, under the shipped quality bundle: a month of the benchmarks' retrievals. Both
read the same export: a line, and the record in it. The memory is what the report's process holds more after
all events than after a tenth of them.
"""

from __future__ import annotations

import base64
import os
import random
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from app.core.foundation.canonical import canonical
from app.core.reports.ledger_values import DECISION, LedgerValues
from app.core.reports.report import quality_report
from app.core.reports.report_tally import QualityTally
from app.offline.record_files import read_export
from load.bench import measurement
from load.bench.given import bench_policy
from load.bench.given.actions import AT_MS
from load.bench.given.growth import resident_kb_of
from load.bench.given.items import Bodies, Shape, arrivals
from load.bench.given.pure import Pipeline
from load.bench.measurement import Measurement, at_most, reported, rounds_of
from topics.catalog import QUALITY_DECISIONS

if TYPE_CHECKING:
    from load.bench.measurement import Extent

EVENTS = 1_000_000
REQUESTS, ITEMS, DAYS = 7, 10, 28
"""So many requests a day, of so many items."""
DAY_MS = 86_400_000
AT_MOST = 2.0
GROWN_MIB = 1.0
_SEED = 20260101


@dataclass(slots=True)
class Compared:
    """CPU seconds for all events, and MiB that the report's process grew by after the first tenth of them."""

    bare_s: float
    report_s: float
    grown_mib: float


def measure(count: int) -> Compared:
    """One round, in a fresh process."""
    decisions = _decisions()
    lines = b"".join(map(_line, decisions))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ledger.jsonl"
        with file.open("wb") as out:
            for _ in range(max(1, count // len(decisions))):
                out.write(lines)
        measurement.settle()
        tenth = _report(file, max(1, count // 10))
        bare_s, whole = _bare(file), _report(file, None)
        return Compared(bare_s, whole[0], (whole[1] - tenth[1]) / 1024)


def _bare(file: Path) -> float:
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
        read_export(read_lines, (QUALITY_DECISIONS,), LedgerValues({DECISION: tally.decision}).take)
    quality_report(tally).fields()
    return time.process_time() - started, resident_kb_of(os.getpid())


def _decisions() -> list[dict[str, Any]]:
    """A month of decisions on the benchmarks' items."""
    pipeline, bodies = Pipeline(bench_policy.point()), Bodies(0.0, random.Random(_SEED))
    found = []
    for day in range(DAYS):
        at_ms = AT_MS + day * DAY_MS
        read = arrivals(REQUESTS, REQUESTS, day, Shape(ITEMS, bodies, at_ms))
        found += pipeline.take([replace(one, timestamp_ms=at_ms) for one in read])
    return [body for body in found if body.get("schema") == DECISION]


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


def figures(extent: Extent) -> list[Measurement]:
    """Both in the same process, one after the other."""
    rounds = rounds_of(measure, extent, EVENTS)
    ratios = [one.report_s / one.bare_s for one in rounds]
    return [
        at_most("quality report / bare read and parse", ratios, AT_MOST),
        reported("quality report", [one.report_s for one in rounds], "s"),
        at_most(
            "quality report: memory after a tenth of the events",
            [one.grown_mib for one in rounds],
            GROWN_MIB,
            "MiB",
        ),
    ]
