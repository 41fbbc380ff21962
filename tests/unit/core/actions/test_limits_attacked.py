"""Ways past a limit that an adversary has gone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from sluice.core.actions.resolution import read_recorded_resolving
from sluice_topics.catalog import ACTIONS, OUTCOMES
from tests.unit.core.actions.escalation_scene import Office
from tests.unit.core.actions.test_limits import DAY_MS, OURS, TRANSFER, change, limit, office, pay, restart
from tests.unit.core.scene import action, entry, make_counted, only, outcome, sign

if TYPE_CHECKING:
    from sluice.core.foundation.input_record import InputRecord


def test_an_unsigned_outcome_does_not_lower_what_a_waiting_action_reserved() -> None:
    of = office(limit())
    of.open_escalation("w-1", rows_affected=800)
    assert change(of, 400, "s-2")["session"]["limits"]["l-1"]["used"] == 800
    of.take(OUTCOMES, outcome(action_id="w-1", rows_affected=1))
    assert change(of, 400, "s-3")["session"]["limits"]["l-1"]["used"] == 800


def test_an_unsigned_outcome_before_an_approval_does_not_make_the_action_count_less() -> None:
    of = office(limit())
    waits = of.open_escalation("w-1", rows_affected=800)
    of.take(OUTCOMES, outcome(action_id="w-1", rows_affected=1))
    resolved = only(of.answer(waits, "ann"), "ResolvedVerdict")
    assert resolved["outcome"] == "ALLOW"
    assert change(of, 1, "s-3")["session"]["limits"]["l-1"]["used"] == 800


def test_an_early_unsigned_outcome_does_not_lower_what_a_waiting_action_reserves() -> None:
    of = office(limit())
    of.take(OUTCOMES, outcome(action_id="w-1", rows_affected=1))
    waits = of.open_escalation("w-1", rows_affected=800)
    of.answer(waits, "ann")
    assert change(of, 1, "s-3")["session"]["limits"]["l-1"]["used"] == 800


TWO = make_counted(
    "transfer",
    tier="T2",
    action_type="PAYMENT",
    reversible=True,
    roles={"destination": ["$.to"], "amount": ["$.fee", "$.lines[*].amount"]},
)


def pays(of: Office, parameters: dict[str, Any], **f: Any) -> dict[str, Any]:
    return change(of, 1, toolName="transfer", parameters=parameters, **f)


def custom(*entries: dict[str, Any], tool: dict[str, Any] = TWO, **more: Any) -> Office:
    policy = {"stages": ["controls", "limits", "fast_reject", "rules", "tier_auth"], **more}
    return Office((tool, *entries), limits=OURS, policy=policy)


@pytest.mark.parametrize(
    "lines",
    [
        [{"amount": 5000}, {}],
        [{"amount": 100}] * 65,
        {"0": {"amount": 5000}},
        [{"amount": 5000}, None],
    ],
)
def test_amounts_of_a_role_of_which_one_path_is_broken_are_not_known(lines: Any) -> None:
    of = custom(limit(sum="amount", tools=["transfer"]))
    assert pays(of, {"to": "a@x.org", "fee": 0, "lines": lines})["verdict"] == "needs_human"


@pytest.mark.parametrize("more", [{"Amount": 5000}, {"AMOUNT": "5000"}])
@pytest.mark.parametrize("path", ["$.amount", "amount"])
def test_a_second_amount_in_another_case_is_not_known(path: str, more: Any) -> None:
    of = office(limit(sum=path, tools=["transfer"]))
    assert pays(of, {"to": "a@x.org", "amount": 0, **more})["verdict"] == "needs_human"


def test_a_star_means_no_member_of_that_name() -> None:
    of = office(limit(sum="$.lines[*].amount", tools=["transfer"]))
    lines = {"*": {"amount": 0}, "0": {"amount": 5000}}
    assert pays(of, {"to": "a@x.org", "lines": lines})["verdict"] == "needs_human"


@pytest.mark.parametrize(
    "parameters",
    [
        {"amount": 1},
        {"amount": 1, "to": None},
        {"amount": 1, "to": []},
        {"amount": 1, "to": True},
        {"amount": 1, "too": "bob"},
        {"amount": 1, "to": {}},
    ],
)
def test_an_action_without_a_destination_adds_what_nobody_knows(parameters: Any) -> None:
    of = office(limit(distinct="destination", tools=["transfer"], most=8))
    assert pays(of, parameters)["verdict"] == "needs_human"


def put_standard(of: Office, name: str, rows: int) -> InputRecord:
    """An action that its caller carries out whatever the verdict says."""
    record = {
        "action_id": name,
        "agent_id": "operator",
        "toolName": "change",
        "rows_affected": rows,
        "mode": "standard",
    }
    input_record = of.input_record(ACTIONS, action(**record))
    of.replay.take(input_record)
    return input_record


def report_signed(of: Office, input_record: InputRecord, name: str, rows: int) -> None:
    bound = {"action_digest": input_record.digest, "input": input_record.coordinates()}
    of.take(OUTCOMES, sign({**outcome(action_id=name, rows_affected=rows), "reported_by": "door", **bound}))


def test_a_huge_claim_that_an_honest_outcome_settles_takes_nothing_of_others_away() -> None:
    of = office(limit())
    change(of, 900)
    report_signed(of, put_standard(of, "big", 2**53 - 1), "big", 0)
    assert change(of, 1, "s-9")["session"]["limits"]["l-1"]["used"] == 900


def test_of_a_huge_claim_the_rows_of_a_signed_outcome_count() -> None:
    of = office(limit())
    report_signed(of, put_standard(of, "big", 10**20), "big", 1_000_000)
    assert of.rows() == 1_000_000
    assert change(of, 1, "s-9")["session"]["limits"]["l-1"]["used"] == 1_000_000


def test_an_outcome_of_an_action_before_a_revision_does_not_shorten_the_window() -> None:
    hour = 3_600_000
    of = office(limit(window_ms=hour))
    change(of, 10, action_id="old")
    of.replay.point = of.point(TRANSFER, limit(revision=2, window_ms=30 * DAY_MS))
    change(of, 900, "s-2")
    of.take(OUTCOMES, outcome(action_id="old", rows_affected=11))
    of.now += 14 * hour
    change(of, 1, "s-3", agent_id="chief")
    assert change(of, 1, "s-2")["session"]["limits"]["l-1"]["used"] >= 900


PEOPLE = [f"u{n}@evil{n}.org" for n in range(300)]


@pytest.mark.parametrize(
    ("path", "to"),
    [
        ("destination", ", ".join(PEOPLE)),
        ("destination", ",".join(PEOPLE)),
        ("destination", " ".join(PEOPLE)),
        ("destination", "\n".join(PEOPLE)),
        ("destination", "\uff0c".join(PEOPLE[:9])),
        ("destination", "/".join(PEOPLE[:9])),
        ("destination", "DE02120300000000202051/DE02500105170137075030"),
        ("$.to", ", ".join(PEOPLE[:9])),
        ("$.to", json.dumps(PEOPLE[:9])),
    ],
)
def test_a_text_that_names_many_does_not_count_as_one(path: str, to: str) -> None:
    of = office(limit(distinct=path, tools=["transfer"], most=8))
    assert pay(of, 1, to=to)["verdict"] == "needs_human"


def test_a_name_in_another_case_beside_a_counted_path_is_not_known() -> None:
    of = office(limit(distinct="$.to", tools=["transfer"], most=4))
    found = [
        pays(of, {"amount": 1, "to": "ann@example.com", "To": f"{n}@evil.org"})["verdict"] for n in range(3)
    ]
    assert "needs_human" in found


def test_a_sessions_total_has_all_rows_of_an_action_that_was_approved_after_an_unsigned_outcome() -> None:
    of = office(limit())
    waits = of.open_escalation("w-1", rows_affected=800)
    of.take(OUTCOMES, outcome(action_id="w-1", rows_affected=1, reported_by="nobody"))
    resolved = only(of.answer(waits, "ann"), "ResolvedVerdict")
    assert (resolved["outcome"], resolved["rows_reserved"], of.rows()) == ("ALLOW", 799, 800)
    assert resolved["session"]["after"] == {"aggregateRowsAffected": 800, "aggregateActionCount": 1}
    assert read_recorded_resolving(resolved).find_missing(800) == 799


def test_values_of_a_denied_action_that_was_carried_out_all_the_same_count() -> None:
    of = office(
        limit(distinct="$.to", tools=["transfer"], most=8),
        entry("freeze", "f", subject="session", subject_id="s-1", reason="x"),
    )
    pay(of, 1, to="b@x.org", session="s-2")
    of.now += 1000
    change(of, 1, action_id="d", toolName="transfer", parameters={"amount": 1, "to": "evil@x.org"})
    of.take(OUTCOMES, outcome(action_id="d", rows_affected=1))
    assert pay(of, 1, to="c@x.org", session="s-2")["session"]["limits"]["l-1"]["used"] == 2


def test_an_approval_takes_nothing_away_that_was_counted_of_something_else() -> None:
    of = office(limit(outcome="deny"))
    waits = of.open_escalation("w-1", rows_affected=800)
    of.replay.point = of.point(TRANSFER, limit(revision=2, count=True, most=16, outcome="deny"))
    for n in range(4):
        assert change(of, 1, f"s-{n + 2}")["verdict"] == "allowed"
    resolved = only(of.answer(waits, "ann"), "ResolvedVerdict")
    assert (resolved["outcome"], resolved["session"]["limits"]["l-1"]["used"]) == ("BLOCK", 4)


@pytest.mark.control
@pytest.mark.parametrize("more", [{}, {"lines": []}, {"lines": [{"text": "no amount here"}]}])
def test_an_amount_that_is_not_there_adds_nothing_beside_one_that_is(more: Any) -> None:
    of = custom(limit(sum="amount", tools=["transfer"]))
    assert pays(of, {"to": "a@x.org", "fee": 300, **more})["verdict"] == "allowed"
    assert pays(of, {"to": "a@x.org", "fee": 0})["session"]["limits"]["l-1"]["used"] == 300_000


@pytest.mark.control
def test_a_text_that_lists_values_counts_as_each_of_them() -> None:
    of = office(limit(distinct="$.to", tools=["transfer"], most=16))
    assert pay(of, 1, to="ann@example.com, bob@example.com")["verdict"] == "allowed"
    assert pay(of, 1, to="ann@example.com")["session"]["limits"]["l-1"]["used"] == 2


def test_a_takeover_keeps_what_a_huge_claim_counts() -> None:
    of = office(limit())
    change(of, 900)
    input_record = put_standard(of, "big", 10**30)
    restart(of)
    assert change(of, 1, "s-8")["session"]["limits"]["l-1"]["used"] == 2**53 - 1
    report_signed(of, input_record, "big", 7)
    restart(of)
    assert change(of, 1, "s-9")["session"]["limits"]["l-1"]["used"] == 907


@pytest.mark.control
def test_a_signed_outcome_settles_what_an_unsigned_one_left_reserved() -> None:
    of = office(limit())
    waits = of.input_record(ACTIONS, action(action_id="w-1", toolName="erase", rows_affected=800))
    of.replay.take(waits)
    of.take(OUTCOMES, outcome(action_id="w-1", rows_affected=1))
    report_signed(of, waits, "w-1", 500)
    assert change(of, 1, "s-3")["session"]["limits"]["l-1"]["used"] == 500


def test_a_signed_outcome_of_nothing_leaves_reserved_what_still_waits() -> None:
    of = office(limit())
    waits = of.input_record(ACTIONS, action(action_id="w-1", toolName="erase", rows_affected=800))
    of.replay.take(waits)
    report_signed(of, waits, "w-1", 0)
    assert change(of, 400, "s-3")["session"]["limits"]["l-1"]["used"] == 800


def test_another_action_with_its_id_does_not_count_for_one_that_is_approved() -> None:
    of = office(limit())
    waits = of.open_escalation("w-1", rows_affected=800)
    put_standard(of, "w-1", 1)
    resolved = only(of.answer(waits, "ann"), "ResolvedVerdict")
    assert (resolved["outcome"], resolved["rows_reserved"], of.rows()) == ("ALLOW", 800, 801)
    assert change(of, 1, "s-9")["session"]["limits"]["l-1"]["used"] == 801


@pytest.mark.parametrize("restarts", [False, True])
def test_a_clock_that_goes_back_opens_no_window_again(restarts: bool) -> None:
    of = office(limit(window_ms=3_600_000))
    change(of, 900, "s-1")
    of.now += 2 * 3_600_000
    change(of, 900, "s-2", agent_id="chief")
    of.now -= 2 * 3_600_000
    if restarts:
        restart(of)
    assert change(of, 900, "s-3")["verdict"] == "allowed"
    of.now += 3_600_000 + 120_000
    if restarts:
        restart(of)
    assert change(of, 900, "s-4")["verdict"] == "needs_human", "the hour is not over on the latest clock"
    of.now += 2 * 3_600_000
    assert change(of, 900, "s-5")["verdict"] == "allowed"


def test_an_outcome_still_corrects_what_was_counted_while_the_clock_was_behind() -> None:
    of = office(limit())
    of.now += OURS.action_window_ms
    change(of, 1, "s-1")
    of.now -= OURS.action_window_ms - 1000
    change(of, 100, "s-2", action_id="late")
    of.now += 2000
    change(of, 1, "s-1")
    of.take(OUTCOMES, {**outcome(action_id="late", rows_affected=500), "session_id": "s-2"})
    assert change(of, 1, "s-3")["session"]["limits"]["l-1"]["used"] > 500
