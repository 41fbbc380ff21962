"""Limits above the session: each partition allows its own share over all sessions, and then asks."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.actions.authority import TierAuth
from sluice.core.actions.limits import Limits, find_at, sum_numbers
from sluice.core.actions.stage import PASSED
from sluice.core.decide.kinds import read_input_message
from sluice.core.decide.replay import drive, nobody
from sluice.core.foundation.errors import RegistryError
from sluice.core.foundation.requests import PAUSE, READY, Answer, Request
from sluice.core.registry.limits import Limit, LimitSpec
from sluice.core.registry.loading import load_registry
from sluice.core.rerun.evidence import restore_shared
from sluice.core.state import limit_usage
from sluice.core.state.book import Book
from sluice.core.state.decision import Shared
from sluice.core.state.limit_usage import LimitSeen, Meter
from sluice.core.state.session import SessionState, session_key
from sluice.core.trust.signing import check_entries
from sluice_topics.catalog import ACTIONS, OUTCOMES
from sluice_topics.records import ProposedAction
from tests.unit.core.actions.escalation_scene import TTL_MS, Office
from tests.unit.core.actions.test_agent_grants import grant
from tests.unit.core.scene import LIMITS, START, action, entry, make_counted, only, outcome, sign

if TYPE_CHECKING:
    from collections.abc import Generator

    from sluice.core.actions.stage import ActionContext, StageResult
    from sluice.core.decide.decision_point import DecisionPoint
    from sluice.core.state.decision import Decision

DAY_MS = 86_400_000
OURS = replace(LIMITS, partitions=4, max_recent_actions=512)
ROLES = {"destination": ["$.to"], "amount": ["$.amount"]}
TRANSFER = make_counted("transfer", tier="T2", action_type="PAYMENT", reversible=True, roles=ROLES)


def limit(name: str = "l-1", revision: int = 1, **spec: Any) -> dict[str, Any]:
    """A limit of 4000 rows a day for each agent: in each of four partitions 1000."""
    base = {"tenant_id": "acme", "per": "agent", "most": 4000, "window_ms": DAY_MS}
    if not {"count", "distinct", "sum"} & spec.keys():
        base["sum"] = "rows"
    return entry("limit", name, revision, **{**base, **spec})


def office(*entries: dict[str, Any], **more: Any) -> Office:
    """An installation with these entries; the scene's partition is number 3 of four."""
    policy = {"stages": ["controls", "limits", "fast_reject", "rules", "tier_auth"], **more}
    return Office((TRANSFER, *entries), limits=OURS, policy=policy)


def change(of: Office, rows: int = 400, session: str = "s-1", **fields: Any) -> dict[str, Any]:
    """The verdict on a change that nothing else speaks against; it is judged again to the same."""
    verdict, _ = decide(of, rows, session, **fields)
    return verdict


def decide(of: Office, rows: int, session: str, **fields: Any) -> tuple[dict[str, Any], Decision]:
    name = f"a-{of.now}"
    record = {"agent_id": "operator", "toolName": "change", "rows_affected": rows, "session_id": session}
    of.now += 1000
    input_record = of.input_record(ACTIONS, action(**{"action_id": name, **record, **fields}))
    decision = of.replay.take(input_record)
    verdict = only(decision, "Verdict")
    message = read_input_message(input_record)
    assert isinstance(message, ProposedAction)
    again = drive(of.replay.point.judge_again(input_record, message, verdict), nobody)
    assert again[0].body["rerun_hash"] == verdict["rerun_hash"]
    return verdict, decision


def words(verdicts: list[dict[str, Any]]) -> list[str]:
    return [one["verdict"] for one in verdicts]


def pay(of: Office, amount: Any = 100, to: Any = "ann@example.com", **fields: Any) -> dict[str, Any]:
    parameters = {"amount": amount, "to": to}
    return change(of, 1, toolName="transfer", parameters=parameters, **fields)


def restart(of: Office) -> None:
    """Another worker takes the partition over, with what is in its table."""
    table: dict[bytes, bytes] = getattr(of, "table", {})
    for key, value in of.replay.book.flush().items():
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value
    of.table = table  # type: ignore[attr-defined]
    of.replay.book = Book(table)


def test_three_new_sessions_of_400_rows_do_not_pass_a_share_of_1000() -> None:
    of = office(limit())
    found = [change(of, 400, f"s-{number}") for number in range(3)]
    assert words(found) == ["allowed", "allowed", "needs_human"]
    assert [one["session"]["limits"] for one in found] == [
        {"l-1": {"used": used, "share": 1000}} for used in (0, 400, 800)
    ]
    assert found[2]["blockReason"] == (
        "limit_share_spent: l-1: agent operator has used 800 of the 1000 that this partition may allow of "
        "4000 within 1 d, and this adds 400"
    )
    assert "limit/l-1@1" in found[0]["registry_hashes"]
    assert change(of, 200, "s-9")["verdict"] == "allowed"
    assert change(of, 1, "s-10")["verdict"] == "needs_human"


def test_without_a_limit_nothing_is_said_of_it() -> None:
    of = office(limit(tenant_id="globex"), limit("l-2", active=False), limit("l-3", tools=["erase"]))
    verdict = change(of, 5000)
    assert verdict["verdict"] == "allowed"
    assert "limits" not in verdict["session"]
    assert of.replay.book.flush() == {}
    unnamed = office(limit(), stages=["controls", "fast_reject", "tier_auth"])
    assert "limits" not in change(unnamed, 5000)["session"]


def test_a_bucket_counts_as_long_as_any_of_it_is_in_the_window() -> None:
    of = office(limit(window_ms=63_000))
    began = of.now = START // 1000 * 1000
    assert change(of, 1000)["verdict"] == "allowed"
    of.now = began + 62_000
    assert change(of, 1)["verdict"] == "needs_human"
    of.now = began + 64_000
    assert change(of, 1000)["verdict"] == "allowed"
    assert of.replay.book.limits.subjects == 1


def test_what_is_over_is_let_go_also_of_others() -> None:
    of = office(limit(window_ms=1000), entry("agent", "second", tenant_id="acme", tier="T3"))
    change(of, 1)
    restart(of)
    of.now += 10_000_000
    change(of, 1, agent_id="second")
    assert of.replay.book.limits.subjects == 1
    restart(of)
    assert sum(key.startswith(b"l:") for key in of.table) == 1  # type: ignore[attr-defined]
    assert sum(key.startswith(b"c:") for key in of.table) == 1  # type: ignore[attr-defined]


def test_a_spent_share_is_spent_after_a_takeover_too() -> None:
    of = office(limit(), limit("l-2", distinct="$.to", tools=["transfer"], most=4))
    assert words([change(of, 400), change(of, 400), pay(of)]) == ["allowed"] * 3
    for _ in range(2):
        restart(of)
        assert change(of, 400, "s-9")["verdict"] == "needs_human"
        assert pay(of, to="other@example.com")["verdict"] == "needs_human"
        assert pay(of)["verdict"] == "allowed"


def test_agents_have_each_their_own_and_a_tenant_has_one() -> None:
    second = entry("agent", "second", tenant_id="acme", tier="T3")
    of = office(limit(), second)
    assert words([change(of, 900), change(of, 900, agent_id="second")]) == ["allowed"] * 2
    of = office(limit(per="tenant"), second)
    assert words([change(of, 900), change(of, 900, agent_id="second")]) == ["allowed", "needs_human"]
    of = office(limit(agent_ids=["second"]), second)
    assert words([change(of, 2000), change(of, 2000, agent_id="second")]) == ["allowed", "needs_human"]
    clerks = [entry("agent", one, tenant_id="acme", tier="T3", roles=["clerk"]) for one in ("one", "two")]
    of = office(limit(per="tenant", roles=["clerk"]), *clerks)
    found = [change(of, 900, agent_id=one) for one in ("one", "operator", "two")]
    assert words(found) == ["allowed", "allowed", "needs_human"]
    assert change(office(limit()), 2000, agent_id="stranger")["blockReason"] == "unknown_agent: stranger"


def test_actions_of_some_types_and_of_a_condition_count() -> None:
    of = office(limit(action_types=["PAYMENT"], count=True, most=4))
    assert words([change(of), change(of), pay(of), pay(of)]) == ["allowed"] * 3 + ["needs_human"]
    of = office(limit(when="action.parameters.amount > 10", tools=["transfer"], count=True, most=4))
    assert words([pay(of, 5), pay(of, 5), pay(of, 50), pay(of, 50)]) == ["allowed"] * 3 + ["needs_human"]
    assert pay(of, None)["verdict"] == "needs_human", "a condition that cannot be decided is not false"
    of = office(limit(when="no condition (", count=True, most=4))
    assert words([change(of), change(of)]) == ["allowed", "needs_human"]


def test_a_limit_may_deny() -> None:
    verdicts = [change(office(limit(outcome="deny"), limit("l-2", most=0)), rows) for rows in (1001, 1)]
    assert [(one["verdict"], one["blockReason"][:23]) for one in verdicts] == [
        ("denied", "limit_share_spent: l-1:"),
        ("needs_human", "limit_share_spent: l-2:"),
    ]


@pytest.mark.parametrize("amount", [None, "12", True, -1, -0.5, {"value": 5}, [5]])
def test_an_amount_that_is_no_number_is_not_known_and_asks(amount: Any) -> None:
    for path in ("$.amount", "amount"):
        of = office(limit(sum=path, tools=["transfer"]))
        verdict = pay(of, amount)
        assert verdict["verdict"] == "needs_human"
        assert verdict["blockReason"] == f"limit_unknown: l-1: what the action adds (sum {path}) is not known"


def test_sums_of_a_parameter_are_exact_to_a_thousandth_and_rounded_up() -> None:
    of = office(limit(sum="$.amount", tools=["transfer"], most=4))
    assert words([pay(of, 0.1) for _ in range(10)]) == ["allowed"] * 10
    assert words([pay(of, 0), pay(of, 0.0001)]) == ["allowed", "needs_human"]
    detail = next(one["detail"] for one in pay(of, 0.25)["gateResults"] if one["gate"] == "limits")
    assert detail == {"counted": ["l-1"], "spent": [{"limit": "l-1", "used": 1, "share": 1, "adds": 0.25}]}


@given(st.lists(st.integers(0, 10**9)))
def test_a_sum_of_whole_numbers_is_their_sum(numbers: list[int]) -> None:
    assert sum_numbers(numbers) == 1000 * sum(numbers)
    assert sum_numbers([*numbers, "1"]) is None


def test_paths_lead_to_every_entry_and_what_is_not_there_is_not_known() -> None:
    parameters = {"lines": [{"sum": 1}, {"sum": 2}], "none": []}
    assert find_at(parameters, "$.lines[*].sum") == [1, 2]
    assert find_at(parameters, "$.none[*].sum") == []
    for path in ("$.lines.sum", "$.lines[*].other", "$.none.a", "$.gone", "$[*]"):
        assert find_at(parameters, path) is None
    assert find_at({"many": [[0] * 40, [0] * 40]}, "$.many[*][*]") is None


def test_distinct_values_count_once_in_their_normal_form() -> None:
    for path in ("$.to", "destination"):
        of = office(limit(distinct=path, tools=["transfer"], most=8))
        found = [pay(of, to=to) for to in ("a@x.org", "b@x.org", "A@X.ORG", "c@x.org", "b@x.org")]
        assert words(found) == ["allowed"] * 3 + ["needs_human", "allowed"]
        assert found[3]["session"]["limits"] == {"l-1": {"used": 2, "share": 2, "new": 1}}
        assert pay(of, to={"address": "d@x.org"})["verdict"] == "needs_human"


def test_distinct_values_are_bounded_however_many_people_approve() -> None:
    of = office(limit(distinct="$.to", tools=["transfer"], most=1024))
    book = of.replay.book
    for number in range(400):
        of.now += 1000
        _, decision = decide(
            of, 1, f"s-{number}", toolName="transfer", parameters={"amount": 1, "to": f"u{number}@x.org"}
        )
        if number >= 256:
            assert of.answer(only(decision, "EscalationOpened"), "ann").book
    table = book.flush()
    (usage,) = [value for key, value in table.items() if key.startswith(b"l:") and value is not None]
    assert len(usage) < 64 * 1024


def test_where_there_is_no_room_to_count_a_person_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit_usage, "MOST_SUBJECTS", 1)
    of = office(limit(window_ms=DAY_MS), entry("agent", "second", tenant_id="acme", tier="T3"))
    assert change(of, 1)["verdict"] == "allowed"
    verdict = change(of, 1, agent_id="second")
    assert verdict["blockReason"] == "limit_unknown: l-1: there is no room to count for second"
    assert verdict["session"]["limits"] == {"l-1": {"used": None, "share": 1000}}
    of.now += 2 * DAY_MS
    assert change(of, 1, agent_id="second")["verdict"] == "allowed"


def test_what_so_many_actions_counted_is_kept_and_older_ones_are_not_corrected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limit_usage, "MOST_CHARGED", 3)
    of = office(limit())
    for number in range(5):
        change(of, 100, action_id=f"a-{number}")
    assert len(of.replay.book.limits) == 3
    for number in (0, 4):
        of.take(OUTCOMES, outcome(action_id=f"a-{number}", rows_affected=200))
    assert change(of, 401)["session"]["limits"]["l-1"]["used"] == 600


def test_what_waits_is_reserved_and_given_back_when_nobody_agrees() -> None:
    of = office(limit())
    waits = of.open_escalation("w-1", rows_affected=800)
    assert change(of, 400)["verdict"] == "needs_human"
    assert change(of, 200)["verdict"] == "allowed"
    of.answer(waits, "ann", "deny")
    restart(of)
    assert change(of, 400)["verdict"] == "allowed"
    of.open_escalation("w-2", rows_affected=400)
    assert change(of, 100)["verdict"] == "needs_human"
    of.now += TTL_MS
    assert change(of, 100)["verdict"] == "allowed", "its time was over"


def test_what_a_person_approves_counts_once() -> None:
    of = office(limit())
    waits = of.open_escalation("w-1", rows_affected=800)
    resolved = only(of.answer(waits, "ann"), "ResolvedVerdict")
    assert resolved["outcome"] == "ALLOW"
    assert resolved["session"]["limits"] == {"l-1": {"used": 0, "share": 1000}}
    assert change(of, 200)["verdict"] == "allowed"
    assert change(of, 1)["verdict"] == "needs_human"


def test_a_persons_answer_lets_one_action_through_and_it_counts() -> None:
    of = office(limit())
    change(of, 900)
    _, decision = decide(of, 400, "s-2")
    assert change(of, 100, "s-3")["verdict"] == "allowed", "what does not fit reserves nothing"
    opened = only(decision, "EscalationOpened")
    resolved = only(of.answer(opened, "ann"), "ResolvedVerdict")
    assert (resolved["outcome"], resolved["session"]["limits"]["l-1"]["used"]) == ("ALLOW", 1000)
    verdict = change(of, 1, "s-4")
    assert (verdict["verdict"], verdict["session"]["limits"]["l-1"]["used"]) == ("needs_human", 1400)


def test_a_person_cannot_agree_to_what_a_limit_denies() -> None:
    of = office(limit(outcome="deny"))
    waits = of.open_escalation("w-1", rows_affected=800, session_id="s-2")
    change(of, 200)
    resolved = only(of.answer(waits, "ann"), "ResolvedVerdict")
    assert resolved["outcome"] == "ALLOW", "its own 800 are reserved"
    of = office(limit(outcome="deny"))
    waits = of.open_escalation("w-1", rows_affected=800, session_id="s-2")
    of.replay.point = of.point(TRANSFER, limit(revision=2, outcome="deny", most=400))
    resolved = only(of.answer(waits, "ann"), "ResolvedVerdict")
    assert (resolved["outcome"], resolved["session"]["limits"]["l-1"]["share"]) == ("BLOCK", 100)
    assert change(of, 100)["verdict"] == "allowed", "and what it had reserved is given back"


def test_a_standing_grant_is_no_answer_to_a_spent_share() -> None:
    of = office(grant(uses=40), limit())
    assert [only(of.propose(f"a-{n}", rows_affected=400), "Verdict")["verdict"] for n in range(3)] == [
        "allowed",
        "allowed",
        "needs_human",
    ]


def test_a_signed_outcome_corrects_what_counted_and_an_unsigned_one_raises_it_alone() -> None:
    of = office(limit(), limit("l-2", count=True))
    for rows, signed, left in ((100, True, 900), (100, False, 200), (900, True, 100)):
        of.replay.book, name = Book({}), f"o-{rows}-{signed}"
        record = {"agent_id": "operator", "toolName": "change", "rows_affected": 800}
        input_record = of.input_record(ACTIONS, action(action_id=name, **record))
        of.replay.take(input_record)
        report = outcome(action_id=name, rows_affected=rows)
        if signed:
            bound = {"action_digest": input_record.digest, "input": input_record.coordinates()}
            report = sign({**report, "reported_by": "door", **bound})
        of.take(OUTCOMES, report)
        verdict = change(of, left + 1)
        assert verdict["verdict"] == "needs_human", (rows, signed)
        assert verdict["session"]["limits"]["l-2"]["used"] == 1
        restart(of)
        assert change(of, left)["verdict"] == "allowed"


def test_an_outcome_before_its_action_counts_and_so_does_an_action_that_was_denied() -> None:
    of = office(limit())
    of.take(OUTCOMES, outcome(action_id="early", rows_affected=700))
    change(of, 500, action_id="early")
    assert change(of, 301)["session"]["limits"]["l-1"]["used"] == 700
    of = office(
        limit(),
        limit("l-2", count=True),
        entry("freeze", "f", subject="session", subject_id="s-1", reason="x"),
    )
    assert change(of, 300, action_id="denied")["verdict"] == "denied"
    of.take(OUTCOMES, outcome(action_id="denied", rows_affected=300))
    assert change(of, 800, "s-2")["session"]["limits"] == {
        "l-1": {"used": 300, "share": 1000},
        "l-2": {"used": 1, "share": 1000},
    }


def test_a_repeat_counts_once() -> None:
    of = office(limit())
    verdicts = [change(of, 600, action_id="same") for _ in range(3)]
    assert words(verdicts) == ["allowed"] * 3
    assert change(of, 400)["verdict"] == "allowed"


def test_in_shadow_and_standard_mode_what_is_carried_out_counts() -> None:
    shadowed = limit(tenant_id="shadowed")
    of = office(shadowed)
    found = [change(of, 600, agent_id="trial") for _ in range(2)]
    assert words(found) == ["allowed"] * 2
    assert [one["shadowOutcome"] for one in found] == ["ALLOW", "ESCALATE"]
    assert change(of, 1, agent_id="trial")["session"]["limits"]["l-1"]["used"] == 1200
    of = office(limit())
    change(of, 1200, mode="standard")
    assert change(of, 1)["session"]["limits"]["l-1"]["used"] == 1200


def test_another_window_takes_over_what_was_counted_and_another_measure_begins_anew() -> None:
    of = office(limit())
    change(of, 900)
    for window_ms in (DAY_MS // 10, 10 * DAY_MS):
        of.replay.point = of.point(TRANSFER, limit(revision=2, window_ms=window_ms))
        assert change(of, 101)["verdict"] == "needs_human"
    of.replay.point = of.point(TRANSFER, limit(revision=3, count=True, most=4))
    assert words([change(of), change(of)]) == ["allowed", "needs_human"]


@given(st.text(min_size=1, max_size=8), st.integers(0, 10**12), st.integers(1, 64))
def test_the_shares_of_all_partitions_are_the_limit(name: str, most: int, partitions: int) -> None:
    spec = LimitSpec(tenant_id="acme", per="agent", count=True, most=most, window_ms=DAY_MS)
    one = Limit(name, "k", "h", "acme", spec)
    shares = [one.share(partition, partitions) for partition in range(partitions)]
    assert sum(shares) == most
    assert max(shares) - min(shares) <= 1
    assert one.share(partitions, partitions) == 0


@pytest.mark.parametrize(
    "spec",
    [
        {"count": True, "sum": "rows"},
        {"sum": None},
        {"sum": "amounts"},
        {"distinct": "$.to", "most": 1025},
        {"window_ms": 31 * DAY_MS + 1},
        {"window_ms": 999},
        {"most": -1},
        {"most": 10**12 + 1},
        {"tenant_id": "unregistered"},
        {"tools": []},
    ],
)
def test_entries_that_say_nothing_clear_are_refused(spec: dict[str, Any]) -> None:
    with pytest.raises(RegistryError):
        load_registry(json.dumps({"entries": [limit(**spec)]}).encode())


def test_a_condition_that_does_not_compile_is_refused_before_it_is_signed() -> None:
    def check(when: str) -> list[Any]:
        return check_entries(json.dumps({"entries": [limit(when=when)]}).encode())

    assert len(check("action.rows > 3")) == 1
    with pytest.raises(RegistryError, match=r"^\$\.entries: limit/l-1@1: when: "):
        check("action.row > 3")


def test_rules_see_what_the_partition_has_left() -> None:
    rule = {"id": "half", "type": "invariant", "reason": "half is used", "when": "'l-1' in limits"}
    halves = {**rule, "condition": "limits['l-1'].used * 2 <= limits['l-1'].share && limits['l-1'].left > 1"}
    of = office(limit(), rules=[halves])
    assert words([change(of, 500), change(of, 1), change(of, 1)]) == ["allowed", "allowed", "denied"]
    of = office(
        limit(sum="$.amount", tools=["transfer"]), rules=[{**rule, "condition": "limits['l-1'].left > 0.5"}]
    )
    assert words([change(of), pay(of, 999.5), pay(of, 0.1)]) == ["allowed", "allowed", "denied"]
    other = {**rule, "when": "true", "condition": "limits['gone'].used == 0"}
    verdict = change(office(limit(), rules=[other]))
    assert (verdict["verdict"], verdict["blockReason"][:23]) == ("needs_human", "inconclusive: rule half")


def test_a_decision_is_recounted_from_what_its_verdict_says() -> None:
    of = office(limit(), limit("l-2", distinct="$.to", tools=["transfer"], most=4))
    pay(of)
    verdict = pay(of, to="other@example.com", session="s-2")
    assert verdict["verdict"] == "needs_human"
    book = restore_shared([verdict], of.input_record(ACTIONS, action())).book
    meter = Meter(("acme", "l-2", "operator"), "distinct $.to", DAY_MS)
    assert book.limits.see(meter, 0, 0, (), None) == LimitSeen(1, 1, 1)


class Waits:
    """A gate that waits for an answer, as those that ask a model."""

    name = "waits"

    def evaluate(self, context: ActionContext) -> Generator[Request, Answer, StageResult]:
        yield Request("waits", {"action": context.action.action_id}, 1000)
        return PASSED


def begin(of: Office, point: DecisionPoint, *, pauses: bool) -> list[Any]:
    """Evaluations of actions of 400 rows in four sessions, each begun before another is decided."""
    evaluations = []
    for name in ("s-1", "s-2", "s-3", "s-4"):
        record = action(action_id="a", session_id=name, toolName="change", rows_affected=400)
        input_record = of.input_record(ACTIONS, record)
        message = read_input_message(input_record)
        assert isinstance(message, ProposedAction)
        state, shared = SessionState(session_key(name)), Shared(of.replay.book, {})
        evaluation: Any = point.evaluate(input_record, message, state, shared, pauses=pauses)
        request = evaluation.send(None)
        while request is PAUSE:
            request = evaluation.send(READY)
        evaluations.append(evaluation)
    return evaluations


def finish(of: Office, evaluations: list[Any]) -> list[tuple[str, int]]:
    """The verdicts, and what each says was used, of evaluations that are decided one after the other."""
    found = []
    for evaluation in evaluations:
        decision = drive(_resume(evaluation), lambda _: Answer("answered", {}))
        of.replay.book.apply(decision.book)
        verdict = only(decision, "Verdict")
        found.append((verdict["verdict"], verdict["session"]["limits"]["l-1"]["used"]))
    return found


def _resume(evaluation: Generator[Request, Answer, Any]) -> Generator[Request, Answer, Any]:
    try:
        request = evaluation.send(Answer("answered", {}))
        while True:
            request = evaluation.send((yield request))
    except StopIteration as decided:
        return decided.value


def test_sessions_that_are_decided_together_use_no_more_of_a_limit_than_is_left() -> None:
    of = office(limit())
    found = finish(of, begin(of, of.point(TRANSFER, limit()), pauses=True))
    assert found == [("allowed", 0), ("allowed", 400), ("needs_human", 800), ("needs_human", 800)]


@pytest.mark.parametrize(("rules", "second"), [([], 0), ([{"condition": "!('l-9' in limits)"}], 400)])
def test_sessions_that_wait_for_a_model_use_no_more_of_a_limit_than_is_left(
    rules: list[dict[str, Any]], second: int
) -> None:
    """A model is asked once more only where it makes a difference that others have counted meanwhile, or
    where a rule reads what they have."""
    written = [{"id": "r", "type": "invariant", "reason": "x", **one} for one in rules]
    of = office(limit(), rules=written)
    of.stages = (Limits(), Waits(), TierAuth())
    found = finish(of, begin(of, of.point(TRANSFER, limit()), pauses=False))
    assert found == [("allowed", 0), ("allowed", second), ("needs_human", 800), ("needs_human", 800)]
