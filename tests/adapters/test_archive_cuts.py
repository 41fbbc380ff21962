"""Which records a restoration leaves out, since inputs behind the cuts write them again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sluice.adapters.archive.archive_store import FolderStore
from sluice.adapters.archive.archived_records import Archive
from sluice.adapters.archive.restore import Cut, DecidedInputs, find_repeated
from sluice.adapters.kafka.kafka_read import StoredRecord
from sluice.core.foundation.clock import rfc3339
from sluice_topics.catalog import DESTINATION_USES, OUTCOMES, REVIEWS, SOURCE_FEEDBACK
from sluice_topics.layout import TopicLayout
from tests.adapters.archives import add_entry, build_segment

if TYPE_CHECKING:
    from pathlib import Path

LAYOUT = TopicLayout(prefix="t.", app_id="app", partitions=2)


def archive_of(
    folder: Path, records: dict[tuple[str, int], list[tuple[int, dict[str, Any] | bytes]]]
) -> Archive:
    """By topic (base name) and partition each record's time and fields."""
    store = FolderStore(folder / "archive")
    built = []
    for (base, number), written in records.items():
        stored = [
            StoredRecord(
                f"t.{base}" if base in {OUTCOMES, REVIEWS} else f"app-{base}",
                number,
                offset,
                at_ms,
                None,
                fields if isinstance(fields, bytes) else orjson.dumps(fields),
                (),
            )
            for offset, (at_ms, fields) in enumerate(written)
        ]
        built.append(build_segment(stored, 0, len(stored)))
    add_entry(store, *built)
    return Archive(store)


def use(action_id: str, at_ms: int) -> tuple[int, dict[str, Any]]:
    return at_ms, {"action_id": action_id, "decided_at": rfc3339(at_ms)}


def learn(memory_id: str, verdict: str, at_ms: int) -> tuple[int, dict[str, Any]]:
    return at_ms, {"memory_id": memory_id, "verdict": verdict, "decided_at": rfc3339(at_ms)}


def test_uses_and_feedback_of_inputs_behind_the_cut_alone_are_left_out(tmp_path: Path) -> None:
    outcomes = [(at, {"action_id": name}) for at, name in ((10, "a"), (20, "b"), (30, "c"), (40, "a"))]
    reviews: list[tuple[int, dict[str, Any] | bytes]] = [
        (10, {"subject_id": "m"}),
        (20, b"no JSON"),
        (30, b"[]"),
    ]
    archive = archive_of(
        tmp_path,
        {
            (OUTCOMES, 1): [*outcomes],
            (REVIEWS, 0): [*reviews],
            (DESTINATION_USES, 0): [use("a", 10), use("b", 20), use("c", 30), use("d", 30), (0, b"{}")],
            (SOURCE_FEEDBACK, 1): [
                learn("m", "seen", 10),
                learn("m", "positive", 10),
                learn("n", "seen", 99),
            ],
        },
    )
    cuts = {0: Cut(decided={REVIEWS: DecidedInputs(0)}), 1: Cut(decided={OUTCOMES: DecidedInputs(3, (1,))})}
    assert find_repeated(archive, LAYOUT, cuts) == {(DESTINATION_USES, 0): {1}, (SOURCE_FEEDBACK, 1): {1}}
    decided = {0: Cut(decided={REVIEWS: DecidedInputs(3)}), 1: Cut(decided={OUTCOMES: DecidedInputs(4)})}
    assert find_repeated(archive, LAYOUT, decided) == {}
