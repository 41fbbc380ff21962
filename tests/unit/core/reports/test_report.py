"""The quality report: figures of a ledger small enough to count by hand, and what holds of every one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.reports.ledger_values import DECISION, LedgerValues
from sluice.core.reports.report import OUTCOMES, Rate, build_quality_report
from sluice.core.reports.report_tally import (
    MAX_CLASSES,
    NO_CLASS,
    OTHER_CLASSES,
    NotADecisionError,
    QualityTally,
    ReportScope,
)
from sluice.core.retrieval.dimensions import UNKNOWN_CLASS
from sluice.core.retrieval.provenance_check import NOT_RESOLVED_YET
from tests.quality_ledger import alarm, decision, flag_only, report
from tests.unit.core.retrieval.scene import OLD, Scene, item

OVERRIDE = {
    "override_id": "override-1",
    "approver_id": "carol",
    "expires_at": "2026-04-01T00:00:00.000Z",
    "justification": "an old source, known to hold",
}


def tally_events(*events: dict[str, object], scope: ReportScope | None = None) -> QualityTally:
    tally = QualityTally(scope)
    for event in events:
        tally.count_decision(event)
    return tally


def test_every_rate_is_of_what_its_definition_says() -> None:
    report = build_quality_report(
        tally_events(
            decision(outcome="pass"),
            decision(outcome="flag", flags_set=["stale", "low_confidence"], override=OVERRIDE),
            decision(outcome="downgrade", flags_set=["stale"]),
            decision(outcome="deny", flags_set=["stale", "provenance_unverified"]),
            decision(outcome="flag", flags_set=["provenance_missing"]),
        )
    )
    assert report.overall.outcomes == {"pass": 1, "flag": 2, "downgrade": 1, "deny": 1}
    assert report.overall.rates == {
        "stale_retrieval": Rate(2, 5),
        "no_usable_time": Rate(0, 5),
        "provenance_failure": Rate(1, 5),
        "not_resolved_yet": Rate(0, 5),
        "confidence_failure": Rate(1, 5),
        "false_deny": Rate(0, 0),
        "overridden": Rate(1, 5),
    }


def list_told(*events: dict[str, object]) -> dict[str, Rate]:
    return build_quality_report(tally_events(*events)).overall.rates


def unknown(**given: Any) -> dict[str, Any]:
    event = decision(outcome="flag", flags_set=["stale", "low_confidence", "provenance_unverified"], **given)
    return {**event, "dimensions": [{**one, "detail": UNKNOWN_CLASS} for one in event["dimensions"]]}


def test_a_fresh_item_of_an_unknown_class_is_not_stale() -> None:
    rates = list_told(unknown(), unknown(freshness_age_seconds=None))
    assert (rates["stale_retrieval"], rates["no_usable_time"]) == (Rate(0, 2), Rate(0, 2))


@pytest.mark.parametrize("age", [None, -1])
def test_an_item_without_a_usable_time_is_told_apart_from_a_stale_one(age: int | None) -> None:
    served = decision(outcome="flag", flags_set=["stale"], freshness_age_seconds=age)
    denied = decision(outcome="deny", flags_set=["stale"], freshness_age_seconds=age)
    rates = list_told(served, denied)
    assert (rates["stale_retrieval"], rates["no_usable_time"]) == (Rate(0, 2), Rate(1, 2))


def test_a_hash_that_verified_is_no_provenance_failure_whatever_the_class() -> None:
    rates = list_told(unknown(provenance_hash_verified=True), unknown())
    assert rates["provenance_failure"] == Rate(1, 2)


def test_a_reference_that_nobody_has_looked_at_is_no_provenance_failure() -> None:
    """Mend 22.14: the report tells first reads of a reference from references that fail."""
    scene = Scene()
    web = {"provenance_uri": "https://new.example/terms", "provenance_hash": "sha256:" + "0" * 64}
    scene.read(item(**web))
    scene.read(item(provenance_uri="ftp://new.example/terms"))
    scene.read(item(provenance_hash="sha256:" + "0" * 64))
    details = [one["dimensions"][2]["detail"] for one in scene.events]
    assert details[0] == NOT_RESOLVED_YET
    rates = list_told(*scene.events)
    assert (rates["not_resolved_yet"], rates["provenance_failure"]) == (Rate(1, 3), Rate(2, 3))


def test_the_gates_own_records_are_told_as_the_definitions_say() -> None:
    scene = Scene()
    scene.read(item(content_class="nobody_knows"))
    for time in (None, "3026-01-01T00:00:00Z", "yesterday", OLD):
        scene.read(item(timestamp=time), autonomy_tier="sandbox", agent_id="sandbox")
    rates = list_told(*scene.events)
    assert {name: rate.part for name, rate in rates.items()} == {
        "stale_retrieval": 1,
        "no_usable_time": 3,
        "provenance_failure": 0,
        "not_resolved_yet": 0,
        "confidence_failure": 1,
        "false_deny": 0,
        "overridden": 0,
    }


def test_a_false_deny_is_an_item_that_only_flag_only_let_through() -> None:
    report = build_quality_report(
        tally_events(
            flag_only(0, "deny"),
            flag_only(0, "downgrade"),
            flag_only(0, "pass"),
            decision(outcome="deny", rollout="flag_only", would_have_been="deny", flags_set=["stale"]),
            decision(outcome="deny", flags_set=["stale"]),
            decision(outcome="flag", enforcement="shadow", would_have_been="deny", flags_set=["stale"]),
        )
    )
    assert report.overall.rates["false_deny"] == Rate(1, 4)
    assert report.overall.would_have_been == {"pass": 1, "flag": 0, "downgrade": 1, "deny": 3}


def test_what_access_denied_says_nothing_of_how_the_rollout_of_its_class_goes() -> None:
    refused = decision(outcome="deny", rollout="flag_only", would_have_been="deny", dimensions=[])
    assert build_quality_report(tally_events(flag_only(0, "deny"), refused)).overall.rates[
        "false_deny"
    ] == Rate(1, 1)


def test_groups_are_the_day_and_the_class_of_the_decision() -> None:
    report = build_quality_report(tally_events(decision(0), decision(1, None), decision(1), decision(1)))
    assert list(report.by_class) == [NO_CLASS, "legal_text"]
    assert {day: one.decisions for day, one in report.by_day.items()} == {"2026-03-01": 1, "2026-03-02": 3}
    assert report.by_day_and_class["2026-03-02", "legal_text"].decisions == 2
    assert report.days == ("2026-03-01", "2026-03-02")


def test_coverage_is_of_the_items_that_stores_report() -> None:
    tally = QualityTally()
    for event in (
        report(0, "bounded", 10, 10),
        report(1, "bounded", 5, 5),
        report(0, "high_privilege", 8, 7),
    ):
        tally.count_report(event)
    sandbox, bounded, high = build_quality_report(tally).coverage
    assert (sandbox.rate.rate, sandbox.short) == (None, False)
    assert (bounded.rate, bounded.short) == (Rate(15, 15), False)
    assert (high.rate, high.target, high.short) == (Rate(7, 8), 1.0, True)


def test_a_tier_that_nobody_reported_for_has_no_figure_rather_than_a_good_one() -> None:
    fields = build_quality_report(QualityTally()).fields()
    assert [one["rate"] for one in fields["coverage"]] == [None, None, None]
    assert fields["overall"]["stale_retrieval"] == {"part": 0, "whole": 0, "rate": None}


@pytest.mark.parametrize(
    ("scope", "counted"),
    [
        (ReportScope(), 4),
        (ReportScope(since="2026-03-02"), 3),
        (ReportScope(until="2026-03-02"), 3),
        (ReportScope(since="2026-03-02", until="2026-03-02"), 2),
        (ReportScope(tenant="zeta"), 1),
        (ReportScope(until="2026-03-01", tenant="zeta"), 0),
    ],
)
def test_a_scope_has_its_first_and_its_last_day_and_one_tenant(scope: ReportScope, counted: int) -> None:
    tally = tally_events(decision(0), decision(1), decision(1, tenant_id="zeta"), decision(2), scope=scope)
    assert build_quality_report(tally).overall.decisions == counted


def test_only_the_newest_alarm_of_a_class_is_told() -> None:
    tally = QualityTally()
    for event in (alarm(16), alarm(30), alarm(20), alarm(18, "legal_text")):
        tally.count_alarm(event)
    told = [(one["subject"], one["raised_at"][:10]) for one in build_quality_report(tally).alarms]
    assert told == [("legal_text", "2026-03-19"), ("product_pricing", "2026-03-31")]


def test_names_longer_than_any_of_a_bundle_are_not_kept() -> None:
    tally = QualityTally()
    base = decision()
    for number in range(3 * MAX_CLASSES):
        tally.count_decision({**base, "content_class": f"class-{number}" + "x" * 1000})
    report = build_quality_report(tally)
    assert list(report.by_class) == [OTHER_CLASSES]
    assert report.overall.decisions == 3 * MAX_CLASSES


def test_the_classes_beyond_the_bound_are_counted_together() -> None:
    tally = QualityTally()
    base = decision()
    for number in range(MAX_CLASSES + 50):
        tally.count_decision({**base, "content_class": f"class-{number:04d}"})
    assert build_quality_report(tally).by_class[OTHER_CLASSES].decisions == 50


@pytest.mark.parametrize(
    "broken",
    [
        {"outcome": "allow"},
        {"would_have_been": "maybe"},
        {"timestamp": 7},
        {"timestamp": "yesterday"},
        {"timestamp": "2026-02-30T00:00:00.000Z"},
        {"content_class": 7},
        {"content_class": ["a"]},
        {"flags_set": None},
        {"flags_set": [["stale"]]},
        {"flags_set": ["stale"], "dimensions": []},
        {"flags_set": ["stale"], "freshness_age_seconds": "old"},
    ],
)
def test_what_is_no_decision_is_refused_and_not_counted(broken: dict[str, object]) -> None:
    tally = QualityTally()
    with pytest.raises(NotADecisionError):
        tally.count_decision({**decision(), **broken})
    assert build_quality_report(tally).overall.decisions == 0


@pytest.mark.parametrize("value", [None, b"", b"[]", b"{}", b"null", b"{", b'{"schema": ["x"]}', b"\xff"])
def test_a_value_that_is_no_record_of_a_ledger_is_refused(value: bytes | None) -> None:
    with pytest.raises(NotADecisionError):
        LedgerValues({DECISION: QualityTally().count_decision}).take(value)


_EVENTS = st.lists(
    st.builds(
        decision,
        st.integers(0, 3),
        st.sampled_from([None, "legal_text", "product_pricing"]),
        st.sampled_from(OUTCOMES),
        flags_set=st.lists(
            st.sampled_from(["stale", "low_confidence", "provenance_unverified"]), unique=True
        ),
        would_have_been=st.sampled_from([None, *OUTCOMES]),
        rollout=st.sampled_from([None, "flag_only", "enforce"]),
    ),
    max_size=20,
)


@given(_EVENTS, st.randoms(use_true_random=False))
def test_groups_add_up_to_the_whole_in_any_order(events: list[dict[str, object]], order: object) -> None:
    report = build_quality_report(tally_events(*events))
    for groups in (report.by_class, report.by_day, report.by_day_and_class):
        assert sum(one.decisions for one in groups.values()) == report.overall.decisions == len(events)
        for name, rate in report.overall.rates.items():
            assert sum(one.rates[name].part for one in groups.values()) == rate.part <= rate.whole
    order.shuffle(events)  # type: ignore[attr-defined]
    assert build_quality_report(tally_events(*events)).fields() == report.fields()
