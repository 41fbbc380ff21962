"""The checks on mandates, limits and values in the fault runs: silent on an honest run, and each finds what
it is there for."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import pytest

from load.installations import task_policy
from load.installations.task_policy import CONTACTS, PAY
from load.recomputation.task_recount import task_figures
from sluice_topics.catalog import VERDICTS
from tests.unit.load.decided import PREFIX, change_record, decide, execute_again

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from load.installations.installation import Evidence
    from sluice.adapters.kafka.kafka_read import StoredRecord

EVENTS = 700


@cache
def _honest() -> Evidence:
    return decide(20, EVENTS, 1.0)


def _find_wrong(evidence: Evidence) -> set[str]:
    return {one.name.removeprefix("task_") for one in task_figures(evidence) if not one.holds}


def test_an_honest_run_has_nothing_to_find_and_everything_in_it() -> None:
    found = {one.name.removeprefix("task_"): one for one in task_figures(_honest())}
    assert {name for name, one in found.items() if not one.holds} == set()
    bites = ("mandates_within_others", "outside_count", "outside_condition", "lessons")
    origins = [
        f"origin_{one}" for one in ("task", "registry", "history", "peers", "trusted_result", "nowhere")
    ]
    assert {name: found[name].value for name in (*bites, *origins) if not found[name].value} == {}


@pytest.mark.parametrize("limit", task_policy.LIMITS)
def test_a_limit_that_is_exceeded_is_found(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same run, judged by a smaller limit than the one under which it was decided."""
    smaller = {**task_policy.LIMITS[limit], "most": 3}
    monkeypatch.setitem(task_policy.LIMITS, limit, smaller)
    assert _find_wrong(_honest()) == {"limits_exceeded"}


def test_what_a_partition_forgot_of_a_limit_is_found() -> None:
    def forget(body: dict[str, Any]) -> dict[str, Any]:
        limits = {name: {**one, "used": 0} for name, one in body["session"]["limits"].items()}
        return {"session": {**body["session"], "limits": limits}}

    assert _find_wrong(_change_all(forget, _is_allowed(PAY))) == {"limits_forgotten"}


def test_the_rerun_finds_what_mandates_and_origins_do_not_allow() -> None:
    """Of these the recount has no rules of its own."""
    assert [rerun for rerun in execute_again(_honest()) if rerun.status != "identical"] == []
    outside = _is_verdict(lambda body: _outside(body) in {"count", "condition", "absent"})
    allow = {"outcome": "ALLOW", "verdict": "allowed"}
    assert "outcome" in _find_differing(_change_all(lambda _: allow, outside))
    assert "outcome" in _find_differing(_change_all(_revoke, _is_allowed(PAY)))
    revocation = task_policy.make_revocation(_name_used_mandate())
    missed = [rerun for rerun in execute_again(_honest(), revocation) if rerun.status != "identical"]
    assert "session" in {difference.field for rerun in missed for difference in rerun.differences}
    for origin in ("task", "registry", "history", "peers", "trusted_result", "nowhere"):
        claimed = _change_all(partial(_claim, origin), _is_verdict(_is_of(PAY)))
        assert f"gateResults.detail.origins.{origin}" in _find_differing(claimed)


def test_a_mandate_that_counts_again_after_an_action_found_it_revoked_is_found() -> None:
    """The rerun takes either side of a revocation as long as workers may lag behind."""
    first = next(
        record
        for record in _honest().ledger
        if (body := json.loads(record.value or b"null"))["schema"] == "sluice/verdict/v1"
        and (body["session"].get("mandate") or {}).get("digest") == _name_used_mandate()
    )
    session = json.loads(first.value or b"null")["session"]
    void = {**session["mandate"], "void": "revoked by mandate_revocation/m@1: left"}
    revoked = change_record(first, session={**session, "mandate": void})
    ledger = [revoked if record is first else record for record in _honest().ledger]
    assert "revoked_mandates_back" in _find_wrong(replace(_honest(), ledger=ledger))


def _name_used_mandate() -> str:
    is_allowed = _is_allowed(PAY)
    bodies = (json.loads(record.value or b"null") for record in _honest().ledger)
    return str(next(body["session"]["mandate"]["digest"] for body in bodies if is_allowed(body)))


def _find_differing(evidence: Evidence) -> set[str]:
    """The fields that differ, without their places in lists."""
    named = (difference.field for rerun in execute_again(evidence) for difference in rerun.differences)
    return {re.sub(r"\[\d+\]", "", name) for name in named}


def _revoke(body: dict[str, Any]) -> dict[str, Any]:
    return {"session": {**body["session"], "mandate": {**body["session"]["mandate"], "void": "revoked"}}}


def _claim(origin: str, body: dict[str, Any]) -> dict[str, Any]:
    gates = [
        {**result, "detail": {"origins": {origin: 1}}} if result["gate"] == "destinations" else result
        for result in body["gateResults"]
    ]
    return {"gateResults": gates}


def test_a_lesson_of_an_outcome_that_nobody_signed_is_found() -> None:
    settled = "sluice/reservation_settled/v1"
    unsigned = _change_all(lambda _: {"signed": False}, lambda body: body["schema"] == settled)
    assert _find_wrong(unsigned) == {"wrong_lessons"}


def test_a_lesson_that_is_missing_doubled_or_not_counted_is_found() -> None:
    honest = _honest()
    assert _find_wrong(replace(honest, uses=honest.uses[1:])) == {"wrong_lessons", "wrong_usual"}
    doubled = replace(honest, uses=[*honest.uses, honest.uses[-1]])
    assert _find_wrong(doubled) == {"wrong_lessons", "wrong_usual"}
    assert _find_wrong(replace(honest, usual=honest.usual[:-1])) == {"wrong_usual"}


def test_an_index_that_is_too_large_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("load.recomputation.task_recount.MOST_INDEX_BYTES", 100)
    assert _find_wrong(_honest()) == {"index_bytes"}


def _outside(body: dict[str, Any]) -> str | None:
    gates = (one["detail"].get("outside") for one in body["gateResults"] if one["gate"] == "mandate")
    return next(gates, None)


def _is_verdict(holds: Callable[[dict[str, Any]], bool]) -> Callable[[dict[str, Any]], bool]:
    return lambda body: body["schema"] == "sluice/verdict/v1" and not body["duplicate_of"] and holds(body)


def _is_of(tool: str) -> Callable[[dict[str, Any]], bool]:
    return lambda body: _tool_of(body["action_id"]) == tool


def _is_allowed(tool: str) -> Callable[[dict[str, Any]], bool]:
    return _is_verdict(lambda body: body["outcome"] == "ALLOW" and _is_of(tool)(body))


@cache
def _tools() -> dict[str, str]:
    messages = (json.loads(one.value or b"null") for one in _honest().inputs)
    return {one["action_id"]: one["toolName"] for one in messages if "toolName" in one}


def _tool_of(action_id: str) -> str:
    return _tools().get(action_id, CONTACTS)


def _change_all(
    change: Callable[[dict[str, Any]], dict[str, Any]], which: Callable[[dict[str, Any]], bool]
) -> Evidence:
    return replace(_honest(), ledger=[*_list_changed(change, which)])


def _list_changed(
    change: Callable[[dict[str, Any]], dict[str, Any]], which: Callable[[dict[str, Any]], bool]
) -> Iterable[StoredRecord]:
    for record in _honest().ledger:
        body = json.loads(record.value or b"null")
        yield change_record(record, **change(body)) if which(body) else record


def test_verdicts_are_among_what_is_changed() -> None:
    assert any(one.topic == PREFIX + VERDICTS for one in _honest().ledger)
