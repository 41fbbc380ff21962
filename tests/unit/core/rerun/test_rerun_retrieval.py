"""A decision on an item, executed again from what it names, comes out the same; what was altered shows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from sluice.core.foundation.canonical import digest
from sluice.core.metadata.provenance import Resolution
from sluice.core.rerun.evidence import PolicyEvidence
from sluice.core.retrieval.quality_record import RERUN_FIELDS
from tests.unit.core.retrieval.scene import (
    HASH,
    OLD,
    OTHER_HASH,
    POISONED,
    SUSPECT,
    TIERS,
    Scene,
    flag_only,
    item,
    quality,
)
from tests.unit.core.scene import START, entry

if TYPE_CHECKING:
    from sluice.core.rerun.rerun_result import Difference, Rerun

NEWS = "https://news.example/1"
RECORDED = {
    ("acme", NEWS): Resolution("resolved", HASH, "http", START - 1000, ""),
    ("acme", NEWS + "2"): Resolution("resolved", OTHER_HASH, "http", START - 1000, ""),
    ("acme", NEWS + "3"): Resolution("unresolvable", None, "http", START - 1000, "host not allowed"),
    ("acme", NEWS + "4"): Resolution("resolved", HASH, "http", START - 30 * 86_400_000, ""),
}
ITEMS = [
    item(),
    item(item_id="i-2", timestamp=OLD, body=SUSPECT),
    item(item_id="i-3", body=[POISONED, 1e20, -0.0, 2**60]),
    *(item(item_id=f"n-{end}", provenance_uri=NEWS + end) for end in ("", "2", "3", "4", "5")),
    item(item_id="i-4", content_class=7, timestamp=[], confidence_score="x", provenance_uri={}),
    item(item_id="i-5", provenance_uri="gate-source://crm/1"),
]
SOURCE = entry("source", "acme/crm", tenant_id="acme", source_id="crm", type="external")


def fields(rerun: Rerun) -> dict[str, Difference]:
    return {one.field: one for one in rerun.differences}


@pytest.mark.parametrize("judged_by", [quality(), quality(rollout=flag_only("legal_text"))])
@pytest.mark.parametrize("tier", [*TIERS, "trial", "nobody"])
def test_every_kind_of_decision_comes_out_the_same(tier: str, judged_by: bytes) -> None:
    scene = Scene(entries=(SOURCE,), quality=judged_by, provenance=RECORDED)
    found = scene.read(*ITEMS, agent_id=tier, tool_category="payment")
    assert len(found.events) == len(ITEMS)
    assert scene.statuses() == {"identical"}


def test_a_source_that_changed_since_does_not_change_a_decision_of_then() -> None:
    scene = Scene(provenance=dict(RECORDED))
    scene.read(item(provenance_uri=NEWS))
    scene.provenance = {("acme", NEWS): RECORDED[("acme", NEWS + "2")]}
    assert scene.statuses() == {"identical"}
    assert scene.read(item(provenance_uri=NEWS)).event["flags_set"] == ["provenance_unverified"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("outcome", "pass"),
        ("flags_set", []),
        ("reason_codes", []),
        ("provenance_hash_verified", False),
        ("freshness_age_seconds", 1),
        ("body_released", True),
        ("quality_bundle_hash", "sha256:" + "00" * 32),
    ],
)
def test_a_decision_that_was_written_otherwise_shows(field: str, value: Any) -> None:
    scene = Scene()
    scene.read(item(timestamp=OLD))
    found = scene.rerun({**scene.events[0], field: value})
    assert found.status != "identical"
    assert found.missing or field in fields(found)


def test_another_quality_bundle_under_the_same_hash_is_not_taken_for_it() -> None:
    scene = Scene()
    scene.read()
    other = quality(min_confidence_by_class={**dict.fromkeys(flag_only(), 0.99)})
    gone = scene.rerun(scene.events[0], scene.rerunner(scene.evidence(other)))
    assert gone.missing == (f"quality bundle {scene.events[0]['quality_bundle_hash']}",)


@pytest.mark.parametrize("place", [20, 150, 300])
def test_a_changed_byte_of_the_input_shows(place: int) -> None:
    scene = Scene()
    scene.read()
    (event,) = scene.events
    input_record = scene.input_records[event["ledger_event_id"]]
    value = bytearray(input_record.value or b"")
    value[place] ^= 1
    found = scene.rerunner().rerun(event, replace(input_record, value=bytes(value)))
    assert found.status == "evidence_gone"
    assert "another record lies there now" in found.missing[0]


def test_everything_that_is_gone_is_named() -> None:
    scene = Scene()
    scene.read()
    missing = scene.rerun(scene.events[0], scene.rerunner(PolicyEvidence())).missing
    assert {name.split(" ")[0] for name in missing} == {"bundle", "quality", "registry"}
    assert scene.rerunner().rerun(scene.events[0], None).missing == (
        "input gate.memory.retrievals.proposed:3:1",
    )


def test_the_hash_of_a_rerun_is_over_the_place_in_the_request() -> None:
    scene = Scene()
    one, other = scene.read(item(), item()).events
    assert one["rerun_hash"] != other["rerun_hash"]
    assert scene.statuses() == {"identical"}


def test_the_rerun_hash_is_over_the_canonical_list_of_its_fields() -> None:
    for event in Scene().read(item(), item(item_id="i-2", timestamp=OLD), agent_id="sandbox").events:
        assert event["rerun_hash"] == digest([event[name] for name in RERUN_FIELDS if name in event])
