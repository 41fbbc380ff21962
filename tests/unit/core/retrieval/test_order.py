"""Controls, access, poisoning, quality, content: a stage that denies ends the order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sluice.core.retrieval.item_texts import Body
from sluice.core.retrieval.judgement import Judged
from tests.unit.core.retrieval.scene import OLD, POISONED, SUSPECT, Scene, item, quality
from tests.unit.core.scene import entry

if TYPE_CHECKING:
    from sluice_topics.records.retrievals import QualityOutcome

FROZEN = entry("freeze", "f1", subject="agent", subject_id="bounded", reason="an incident")
CLOSED = quality(access={"legal_text": {"tenants": ["globex"]}})
BAD = entry("known_bad", "k1", tenant_id=None, subject="item", value="i-1", reason="written by an attacker")
ORDER = ["controls", "access", "poisoning", "quality", "content"]
CODES = ["FROZEN", "ACCESS_DENIED", "KNOWN_BAD", "FRESHNESS_TTL_EXCEEDED", "CONTENT_UNSAFE"]


@pytest.mark.parametrize("first", range(5))
def test_the_first_stage_that_denies_is_the_last_that_runs(first: int) -> None:
    """Everything from `first` on is wrong with the item."""
    wrong = [stage >= first for stage in range(5)]
    entries = [one for one, is_wrong in ((FROZEN, wrong[0]), (BAD, wrong[2])) if is_wrong]
    scene = Scene(entries=tuple(entries), quality=CLOSED if wrong[1] else quality())
    fields: dict[str, Any] = {"timestamp": OLD} if wrong[3] else {}
    found = scene.read(item(body=POISONED, **fields))
    assert found.stages == ORDER[: first + 1]
    assert found.event["reason_codes"] == [CODES[first]]
    assert [one["outcome"] for one in found.event["stages"]] == ["pass"] * first + ["deny"]
    assert scene.statuses() == {"identical"}


def test_a_downgrade_for_quality_goes_out_without_a_body_so_none_is_read() -> None:
    found = Scene().read(item(confidence_score=0.1, content_class="internal_policy", body=POISONED))
    assert (found.event["outcome"], found.stages) == ("downgrade", ORDER[:4])
    assert found.event["findings"] == []


def test_a_flagged_item_is_read_and_the_most_severe_stage_wins() -> None:
    found = Scene().read(item(provenance_uri=None, body=SUSPECT))
    assert [one["outcome"] for one in found.event["stages"]][3:] == ["flag", "downgrade"]
    assert (found.event["outcome"], found.event["flags_set"]) == (
        "downgrade",
        ["provenance_missing", "content_suspect"],
    )
    assert found.event["reason"] == "test.strong: a test"


def test_the_milder_stage_s_reason_stands_behind_the_graver_one_s() -> None:
    found = Scene().read(item(timestamp=OLD, body=SUSPECT), agent_id="sandbox")
    assert found.event["outcome"] == "flag"
    assert found.event["reason_codes"] == ["FRESHNESS_TTL_EXCEEDED", "CONTENT_UNSAFE"]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"agent_id": "nobody"}, "unknown_agent: nobody"),
        ({"agent_id": "bounded", "entries": (FROZEN,)}, "frozen_agent: an incident"),
        ({"agent_id": "bounded", "quality": None}, "no_quality_bundle: sluice.quality is not in force"),
    ],
)
def test_controls_deny_every_item_of_a_request(fields: dict[str, Any], reason: str) -> None:
    agent = fields.pop("agent_id")
    scene = Scene(**fields)
    found = scene.read(item(), item(item_id="i-2"), agent_id=agent)
    assert found.outcomes == ["deny", "deny"]
    assert {one["reason"] for one in found.events} == {reason}
    assert [one["stage"] for one in found.events[0]["stages"]] == ["controls"]
    assert scene.statuses() == {"identical"}


@pytest.mark.parametrize(("subject", "named"), [("tenant", "acme"), ("agent", "bounded"), ("session", "s-1")])
def test_a_freeze_of_tenant_agent_or_session_stops_reading(subject: str, named: str) -> None:
    frozen = entry("freeze", "f1", subject=subject, subject_id=named, reason="an incident")
    event = Scene(entries=(frozen,)).read().event
    assert (event["outcome"], event["reason_codes"]) == ("deny", ["FROZEN"])
    assert "freeze/f1@1" in event["registry_hashes"]


def test_a_tenant_is_judged_by_its_own_quality_bundle_or_by_none() -> None:
    own = entry("org", "acme", quality_bundle_id="acme.quality")
    found = Scene(entries=(own,)).read()
    assert found.event["reason"] == "no_quality_bundle: acme.quality is not in force"
    served = Scene(entries=(own,), quality=quality(id="acme.quality")).read()
    assert (served.outcomes, served.event["quality_bundle_id"]) == (["pass"], "acme.quality")


def test_the_reason_is_that_of_the_most_severe_outcome_and_of_equals_the_first() -> None:
    judged = Judged(0, Body("ok"))
    told: list[tuple[str, str | None]] = []
    came: list[tuple[QualityOutcome, str]] = [
        ("flag", "a"), ("flag", "b"), ("deny", "c"), ("flag", "d"), ("deny", "e"),
    ]  # fmt: skip
    for outcome, reason in came:
        judged.comes_to(outcome, reason)
        told.append((judged.outcome, judged.reason))
    assert told == [("flag", "a"), ("flag", "a"), ("deny", "c"), ("deny", "c"), ("deny", "c")]
