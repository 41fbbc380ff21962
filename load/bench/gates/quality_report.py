"""The quality report over a million events beside a bare read and parse of the same file, and its memory.

The events are the gate's own, under the shipped quality bundle: a month of retrievals of four classes, of
which some are old, unsure or without a source. Both read the same export: a line, and the record in it. The
memory is what the report's process holds more after all events than after a tenth of them.
"""

from __future__ import annotations

import base64
import random
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from app.core.foundation.arrival import Arrival
from app.core.foundation.canonical import canonical
from app.core.foundation.clock import rfc3339
from app.core.quality_bundle.quality_bundle import load_quality_bundle
from app.core.reports.ledger_values import DECISION, LedgerValues
from app.core.reports.report import quality_report
from app.core.reports.report_tally import QualityTally
from app.offline.record_files import read_export
from app.settings import ROOT
from load.bench import measurement
from load.bench.given import bench_policy
from load.bench.given.actions import AGENT, AT_MS
from load.bench.given.growth import PAGE_KB
from load.bench.given.pure import Pipeline
from load.bench.measurement import Measurement, at_most, reported
from topics.catalog import QUALITY_DECISIONS, RETRIEVALS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from load.bench.measurement import Extent

EVENTS = 1_000_000
DISTINCT = 2_000
ITEMS = 10
DAYS = 28
DAY_MS = 86_400_000
CLASSES = ("legal_text", "product_pricing", "internal_policy", "public_reference")
QUALITY = ROOT / "config" / "quality" / "default.json"
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
    lines = b"".join(_line(body) for body in _decisions())
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ledger.jsonl"
        with file.open("wb") as out:
            for _ in range(max(1, count // DISTINCT)):
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
    return time.process_time() - started, _resident_kb()


def _resident_kb() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_KB


def _decisions() -> Iterator[dict[str, Any]]:
    bundle = load_quality_bundle(QUALITY.read_bytes())
    under = replace(bench_policy.policy(), quality={bundle.id: bundle}, default_quality=bundle.id)
    pipeline, chance = Pipeline(bench_policy.point_of(under)), random.Random(_SEED)
    for number in range(DISTINCT // ITEMS):
        for body in pipeline.take([_retrieval(number, chance)]):
            if body.get("schema") == DECISION:
                yield body


def _retrieval(number: int, chance: random.Random) -> Arrival:
    at_ms, session = AT_MS + number % DAYS * DAY_MS, f"session-{number}"
    value = {
        "request_id": f"request-{number}",
        "agent_id": AGENT,
        "session_id": session,
        "items": [_item(f"item-{number}-{place}", at_ms, chance) for place in range(ITEMS)],
    }
    return Arrival(RETRIEVALS, 0, number, at_ms, session.encode(), orjson.dumps(value))


def _item(name: str, at_ms: int, chance: random.Random) -> dict[str, Any]:
    return {
        "item_id": name,
        "content_class": chance.choice(CLASSES),
        "timestamp": rfc3339(at_ms - chance.randrange(120) * DAY_MS),
        "confidence_score": round(chance.uniform(0.4, 1.0), 2),
        "provenance_uri": f"https://source.example/{name}" if chance.random() < 0.9 else None,
        "provenance_hash": f"sha256:{chance.randrange(2**256):064x}",
        "body": "What an agent wants to read.",
    }


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
    rounds = [
        Compared(**measurement.in_fresh_process(__name__, extent.of(EVENTS))) for _ in range(extent.rounds)
    ]
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


if __name__ == "__main__":
    measurement.send_result(measure(int(sys.argv[1])))
