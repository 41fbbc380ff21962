"""Whatever one does to the records of live topics is found by the verifier that is given the heads kept
elsewhere; a short run of what `python -m load.packages --topics` does at length."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pytest

from load.packages import topics
from load.packages.__main__ import TopicsRun
from load.packages.made_ledger import HEADS, make_ledger
from sluice.verifier.export import Located, write_line

if TYPE_CHECKING:
    from pathlib import Path

CHANGES = {**topics.SINGLE, **topics.COMBINED}


@pytest.mark.parametrize("kind", CHANGES)
def test_each_kind_of_change_to_live_topics_is_found(kind: str, tmp_path: Path) -> None:
    assert not TopicsRun(tmp_path, 5, None, []).count_unseen({kind: CHANGES[kind]}, 12)


def test_nothing_is_found_in_untouched_topics_however_they_are_read(tmp_path: Path) -> None:
    assert not TopicsRun(tmp_path, 5, None, []).count_false(20)


def test_an_export_of_topics_is_tampered_with_as_the_topics_are(tmp_path: Path) -> None:
    export = tmp_path / "ledger.jsonl"
    made = topics.open_made(make_ledger(3))
    export.write_text(
        "".join(
            write_line(
                Located(each.topic, each.partition, each.offset, each.key, each.value), each.timestamp_ms
            )
            + "\n"
            for records in made.records.values()
            for each in records
        ),
        encoding="utf-8",
    )
    run = TopicsRun(tmp_path, 1, export, [HEADS.public.text])
    assert not run.count_false(3)
    assert not run.count_unseen(topics.SINGLE, 28)
    assert topics.read_export(export).records == made.records


def test_a_change_is_one_of_the_copy_alone() -> None:
    made = topics.open_made(make_ledger(3))
    before = json.dumps({str(part): len(records) for part, records in made.records.items()})
    topics.SINGLE["delete"](topics.copy_topics(made), random.Random(1))  # noqa: S311 - seeded, not secret
    assert json.dumps({str(part): len(records) for part, records in made.records.items()}) == before
