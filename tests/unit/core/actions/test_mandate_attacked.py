"""Ways past mandates that somebody has looked for and that must stay shut."""

from __future__ import annotations

from base64 import b64decode
from dataclasses import replace
from typing import Any

import pytest

from sluice.core.actions.stages import list_shipped_stages
from sluice.core.decide.decision_point import DecisionPoint
from sluice.core.policy.policy import Policy
from sluice_topics.catalog import ACTIONS, MANDATES, OUTCOMES, REVIEWS
from tests.unit.core.actions.context_scene import NAMED, TRANSFER
from tests.unit.core.actions.escalation_scene import Office, answer_to
from tests.unit.core.actions.mandate_scene import ISSUERS, STAGES, Mandated, digest_of, make_mandate
from tests.unit.core.actions.test_agent_grants import grant
from tests.unit.core.actions.test_destinations import ENFORCED, HOSTILE, MASTER, origin_of
from tests.unit.core.actions.test_limits import OURS
from tests.unit.core.actions.test_mandate import DENIES, act, change, detail, scene
from tests.unit.core.actions.test_usual import DAY, Weeks
from tests.unit.core.rerun.reruns import SMALL, document
from tests.unit.core.scene import (
    LIMITS,
    MINUTE,
    START,
    action,
    bundle,
    entry,
    kinds,
    only,
    outcome,
    sign,
    verdict_of,
)

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
ONCE = [{"tool": "change", "count": 1}]


def respell(mandate: dict[str, Any]) -> dict[str, Any]:
    """The same signature in another base64: of its last character four bits say nothing."""
    text = mandate["signature"]
    other = text[:-3] + ALPHABET[ALPHABET.index(text[-3]) ^ 1] + "=="
    assert b64decode(other, validate=True) == b64decode(text, validate=True)
    return {**mandate, "signature": other}


def test_a_respelled_signature_makes_no_second_mandate() -> None:
    mandate = make_mandate(tools=ONCE)
    revoked = entry("mandate_revocation", digest_of(mandate), tenant_id="acme", reason="cancelled")
    again = respell(mandate)
    assert digest_of(again) != digest_of(mandate)
    for case in (scene(), scene(None, revoked)):
        case.issue(mandate)
        act(case, digest_of(mandate), **change(5))
        assert case.issue(again)["reason"] == "bad_signature"
        assert act(case, digest_of(again), **change(5))[0] == "denied"


def test_a_respelled_signature_of_a_parent_makes_no_second_parent() -> None:
    above = respell(make_mandate(mandate_id="m-0"))
    case = scene()
    assert case.issue(make_mandate(parent=above))["reason"] == "bad_signature"


@pytest.mark.parametrize("named", [True, False])
def test_a_standing_grant_is_no_answer_to_an_action_outside_its_mandate(named: bool) -> None:
    part = {"tiers": {"T3": {"need": "needed", "outside": "ask"}}}
    office = Office(
        (*ISSUERS, grant(uses=40)), limits=OURS, policy={"patterns": {}, "stages": STAGES, "mandate": part}
    )
    mandate = make_mandate(tools=[{"tool": "erase", "condition": "action.parameters.id == 7", "count": 2}])
    office.take(MANDATES, mandate)
    names = {"mandate_digest": digest_of(mandate)} if named else {}
    assert only(office.propose("a-1", parameters={"id": 8}, **names), "Verdict")["verdict"] == "needs_human"
    inside = {"mandate_digest": digest_of(mandate), "parameters": {"id": 7}}
    assert only(office.propose("a-2", **inside), "Verdict")["verdict"] == "allowed"


TWICE = [{"tool": "change", "count": 2}, {"tool": "find"}]


def make_child(parent: dict[str, Any], name: str, **given: Any) -> dict[str, Any]:
    return make_mandate(mandate_id=name, parent=parent, **{"tools": TWICE, **given})


def test_siblings_and_their_parent_have_its_count_together() -> None:
    parent = make_mandate(mandate_id="m-0", tools=TWICE)
    first, second = make_child(parent, "m-1"), make_child(parent, "m-2")
    case = scene()
    for one in (parent, first, second):
        case.issue(one)
    assert act(case, digest_of(first), **change(5))[0] == "allowed"
    assert act(case, digest_of(second), **change(5))[0] == "allowed"
    assert act(case, digest_of(first), **change(5))[0] == "denied"
    assert (detail(case)["outside"], detail(case)["above"]) == ("count", 1)
    assert act(case, digest_of(parent), **change(5))[0] == "denied"
    assert (detail(case)["outside"], "above" in detail(case)) == ("count", False)
    assert act(case, digest_of(second), toolName="find")[0] == "allowed"


def test_a_count_is_one_for_all_agents_of_the_session() -> None:
    parent = make_mandate(mandate_id="m-0", agent_id="chief", tools=TWICE)
    child = make_child(parent, "m-1")
    case = scene()
    case.issue(parent)
    case.issue(child)
    assert act(case, digest_of(parent), **change(5), agent_id="chief")[0] == "allowed"
    assert act(case, digest_of(child), **change(5))[0] == "allowed"
    assert act(case, digest_of(child), **change(5))[0] == "denied"
    assert act(case, digest_of(parent), **change(5), agent_id="chief")[0] == "denied"
    used = case.verdicts[-1]["session"]["mandate"]["used_by_others"]
    assert used == {digest_of(parent): {"0.0": 1}}


def test_a_count_above_lasts_longer_than_a_child_that_used_it() -> None:
    parent = make_mandate(mandate_id="m-0", tools=ONCE, until_ms=START + 60 * MINUTE)
    case = scene()
    short = make_child(parent, "m-1", tools=ONCE, until_ms=START + MINUTE)
    case.issue(short)
    assert act(case, digest_of(short), **change(5))[0] == "allowed"
    case.now += 5 * MINUTE
    later = make_child(parent, "m-2", tools=ONCE)
    case.issue(later)
    assert act(case, digest_of(later), **change(5))[0] == "denied"
    assert detail(case)["above"] == 1


def test_no_count_above_outlives_the_session_that_keeps_it() -> None:
    case = scene()
    long = make_mandate(mandate_id="m-0", until_ms=START + LIMITS.idle_timeout_ms + MINUTE)
    assert case.issue(make_mandate(parent=long))["reason"] == "mandate_too_long"


@pytest.mark.parametrize("by", ["chief", "operator"])
def test_calls_of_siblings_that_wait_share_the_count_above(by: str) -> None:
    part = {"tiers": {"T3": {"need": "needed", "outside": "deny"}}}
    office = Office(ISSUERS, policy={"patterns": {}, "stages": STAGES, "mandate": part})
    tools = [{"tool": "erase", "count": 1}]
    parent = make_mandate(mandate_id="m-0", agent_id="chief", tools=tools)
    first, second = (
        make_child(parent, "m-1", tools=tools),
        make_child(parent, "m-2", tools=tools, agent_id=by),
    )
    for one in (first, second):
        office.take(MANDATES, one)
    opened = office.open_escalation(mandate_digest=digest_of(first))
    again = office.propose("a-2", agent_id=by, mandate_digest=digest_of(second)).records[0].body
    assert again["blockReason"].startswith("outside_mandate: erase was used 1 times already")
    assert only(office.answer(opened, "ann"), "ResolvedVerdict")["verdict"] == "allowed"
    again = office.propose("a-3", agent_id=by, mandate_digest=digest_of(second)).records[0].body
    assert again["verdict"] == "denied"


def test_the_counts_of_too_many_mandates_are_not_kept_and_so_not_granted() -> None:
    case = scene(limits=replace(LIMITS, max_recent_actions=64))
    found = []
    for number in range(20):
        parent = make_mandate(mandate_id=f"p-{number}", tools=ONCE, until_ms=START + 60 * MINUTE)
        child = make_child(parent, f"m-{number}", tools=ONCE, until_ms=case.now + 1000)
        case.issue(child)
        found.append(act(case, digest_of(child), **change(5))[0])
        case.now += 2000
    assert found == ["allowed"] * 15 + ["denied"] * 5
    assert "counts of 16 mandates" in case.verdicts[-1]["blockReason"]


@pytest.mark.parametrize("mode", ["standard", "shadow"])
def test_a_call_that_is_carried_out_without_room_in_the_session_uses_its_count(mode: str) -> None:
    more = (entry("org", "acme", enforcement="shadow"),) if mode == "shadow" else ()
    case = scene(DENIES, *more, limits=replace(LIMITS, max_recent_actions=1))
    mandate = make_mandate(tools=ONCE)
    case.issue(mandate)
    told = {"mode": "high_stakes" if mode == "shadow" else mode}
    act(case, toolName="find", **told)
    act(case, digest_of(mandate), **change(5), **told)
    assert "session_capacity" in (case.verdicts[-1]["shadowOutcome"], case.verdicts[-1]["blockReason"])
    act(case, digest_of(mandate), **change(5), **told)
    uses = case.verdicts[-1]["session"]["remembered"]["mandate"]["uses"]
    assert uses[digest_of(mandate)]["used"] == {"0.0": 1}


def test_a_call_that_lies_outside_only_above_uses_its_own_count_where_it_is_let_pass() -> None:
    small = [{"tool": "change", "condition": "action.parameters.amount < 10"}]
    parent = make_mandate(mandate_id="m-0", tools=small)
    child = make_child(parent, "m-1", tools=[{"tool": "change", "count": 1}])
    assert scene().issue(child)["schema"] == "sluice/mandate_recorded/v1"
    case = scene({"T2": {"need": "needed", "outside": "observe"}})
    case.issue(child)
    assert act(case, digest_of(child), **change(500))[0] == "allowed"
    assert (detail(case)["outside"], detail(case)["above"]) == ("condition", 1)
    assert act(case, digest_of(child), **change(5))[0] == "allowed"
    assert detail(case)["outside"] == "count"


def test_a_call_that_states_another_task_uses_the_count_where_it_is_let_pass() -> None:
    case = scene({"T2": {"need": "needed", "outside": "observe"}})
    mandate = make_mandate(tools=ONCE)
    case.issue(mandate)
    other = {"originalIntentHash": "sha256:" + 64 * "1"}
    assert act(case, digest_of(mandate), **change(5), governanceContext=other)[0] == "allowed"
    assert detail(case)["outside"] == "other_intent"
    act(case, digest_of(mandate), **change(5))
    assert detail(case)["outside"] == "count"


def test_a_clock_that_goes_back_brings_no_mandate_back() -> None:
    case = scene()
    mandate = make_mandate(tools=ONCE, destinations=["a@b.c"])
    case.issue(mandate)
    assert act(case, digest_of(mandate), **change(5))[0] == "allowed"
    case.now += 11 * MINUTE
    assert act(case, digest_of(mandate), **change(5))[0] == "denied"
    case.now -= 8 * MINUTE
    assert case.issue(mandate)["reason"] == "mandate_over"
    assert act(case, digest_of(mandate), **change(5))[0] == "denied"
    assert detail(case)["outside"] == "ended"
    assert "the session has been later" in case.verdicts[-1]["blockReason"]


def test_an_approval_under_a_clock_that_went_back_finds_no_mandate_that_was_over() -> None:
    part = {"tiers": {"T3": {"need": "needed", "outside": "deny"}}}
    office = Office(ISSUERS, policy={"patterns": {}, "stages": STAGES, "mandate": part})
    mandate = make_mandate(tools=[{"tool": "erase", "count": 1}], until_ms=START + MINUTE)
    office.take(MANDATES, mandate)
    opened = office.open_escalation(mandate_digest=digest_of(mandate))
    office.now += 2 * MINUTE
    office.propose("a-2", toolName="find")
    office.now -= 2 * MINUTE
    assert only(office.answer(opened, "ann"), "ResolvedVerdict")["outcome"] == "BLOCK"


LOOKS = ["controls", "fast_reject", "rules", "destinations", "consequence", "topology", "tier_auth"]
MANDATED = [*LOOKS[:3], "mandate", *LOOKS[3:]]
OBSERVES = {"T2": {"need": "counted", "outside": "observe"}}
WAYS = pytest.mark.parametrize(
    ("stages", "tiers"),
    [(LOOKS, {}), (MANDATED, {}), (MANDATED, OBSERVES)],
    ids=["no gate", "not needed", "observe"],
)
SMALL_SUMS = {"tool": "transfer", "condition": "action.parameters.amount <= 10"}


def find_origin(case: Mandated, mandate: dict[str, Any], amount: int = 5, **more: Any) -> str:
    """Where the account of a payment under a mandate comes from; every verdict so far reruns the same."""
    parameters = {"iban": NAMED, "amount": amount}
    named = {"action_id": f"a-{len(case.verdicts)}", "toolName": "transfer", "parameters": parameters}
    verdict = case.propose(**named, mandate_digest=digest_of(mandate), **more)
    assert case.rerun_states() == {"identical"}
    (origin,) = origin_of(verdict)
    return origin


def make_looking(stages: list[str], tiers: dict[str, Any], *mandates: dict[str, Any]) -> Mandated:
    """A case whose gate `destinations` observes, with mandates of its session."""
    parts = {"stages": stages, "destinations": {"mode": "observe"}, "mandate": {"tiers": tiers}}
    case = Mandated(entries=(*ISSUERS, TRANSFER), bundle=document(**SMALL, **parts))
    for one in mandates:
        assert case.issue(one)["schema"] == "sluice/mandate_recorded/v1"
    return case


@WAYS
@pytest.mark.parametrize(
    "tools", [[], [{"tool": "find"}], [{"tool": "find"}, SMALL_SUMS]], ids=["none", "other", "condition"]
)
def test_a_mandate_names_no_destination_for_what_lies_outside_it(
    stages: list[str], tiers: dict[str, Any], tools: list[dict[str, Any]]
) -> None:
    mandate = make_mandate(tools=tools, destinations=[NAMED])
    assert find_origin(make_looking(stages, tiers, mandate), mandate, 500) != "task"


@WAYS
def test_a_mandate_names_its_destinations_within_all_above_it_and_its_task(
    stages: list[str], tiers: dict[str, Any]
) -> None:
    parent = make_mandate(mandate_id="m-0", tools=[SMALL_SUMS], destinations=[NAMED])
    child = make_child(parent, "m-1", tools=[{"tool": "transfer"}], destinations=[NAMED])
    case = make_looking(stages, tiers, child)
    assert find_origin(case, child) == "task"
    assert find_origin(case, child, 500) != "task"
    other = {"originalIntentHash": "sha256:" + 64 * "1"}
    assert find_origin(case, child, governanceContext=other) != "task"


@pytest.mark.parametrize("tiers", [{}, OBSERVES], ids=["not needed", "observe"])
def test_a_mandate_whose_count_is_used_up_names_no_destination(tiers: dict[str, Any]) -> None:
    mandate = make_mandate(tools=[{"tool": "transfer", "count": 1}], destinations=[NAMED])
    case = make_looking(MANDATED, tiers, mandate)
    assert find_origin(case, mandate) == "task"
    assert find_origin(case, mandate) != "task"


@pytest.mark.control
@WAYS
def test_a_mandate_for_every_tool_names_its_destinations(stages: list[str], tiers: dict[str, Any]) -> None:
    mandate = make_mandate(destinations=[NAMED])
    assert find_origin(make_looking(stages, tiers, mandate), mandate, 500) == "task"


def begin_weeks(stages: list[str], tiers: dict[str, Any], *more: dict[str, Any]) -> Weeks:
    """Sessions with mandates, under a bundle with these stages."""
    weeks = Weeks(*ISSUERS, *more)
    judging = bundle(destinations=ENFORCED, stages=stages, mandate={"tiers": tiers})
    policy = Policy({judging.id: judging}, weeks.point.policy.registry, judging.id)
    weeks.point = weeks.replay.point = DecisionPoint(
        policy, list_shipped_stages(), LIMITS, stopwatch=lambda: 0, environment="t", values_key=MASTER
    )
    return weeks


def pay_under(weeks: Weeks, tools: list[dict[str, Any]]) -> str:
    """A payment under a mandate of these tools, approved where it waits, and its signed outcome. Returns the
    first verdict's outcome."""
    mandate = make_mandate(tools=tools, destinations=[HOSTILE])
    weeks.take(MANDATES, mandate)
    parameters = {"payee": {"iban": HOSTILE}, "amount": 500}
    proposed = action(action_id="a", toolName="transfer", parameters=parameters)
    input_record, decision = weeks.take(ACTIONS, {**proposed, "mandate_digest": digest_of(mandate)})
    if "EscalationOpened" in kinds(decision):
        _, end = weeks.take(REVIEWS, answer_to(only(decision, "EscalationOpened"), "ann"))
        assert only(end, "ResolvedVerdict")["outcome"] == "ALLOW"
    report = {**outcome(action_id="a"), "reported_by": "door", "action_digest": input_record.digest}
    weeks.take(OUTCOMES, sign({**report, "input": input_record.coordinates()}))
    weeks.now += DAY
    first: str = verdict_of(decision)["outcome"]
    return first


@pytest.mark.parametrize("outside", ["observe", "ask"])
@pytest.mark.parametrize("tools", [[{"tool": "find"}], [SMALL_SUMS]], ids=["other", "condition"])
def test_what_lies_outside_its_mandate_teaches_none_of_its_destinations(
    tools: list[dict[str, Any]], outside: str
) -> None:
    weeks = begin_weeks(MANDATED, {"T2": {"need": "counted", "outside": outside}})
    pay_under(weeks, tools)
    assert "history" not in origin_of(weeks.pay(HOSTILE))


@pytest.mark.control
@pytest.mark.parametrize(("tier", "first"), [("T2", "ALLOW"), ("T3", "ESCALATE")])
def test_the_call_that_uses_the_last_of_a_count_teaches_also_where_it_waited(tier: str, first: str) -> None:
    roles = {"destination": ["$.payee.iban"]}
    tool = entry("tool", "transfer", 2, tier=tier, action_type="PAYMENT", reversible=True, roles=roles)
    weeks = begin_weeks(MANDATED, {tier: {"need": "counted", "outside": "deny"}}, tool)
    assert pay_under(weeks, [{"tool": "transfer", "count": 1}]) == first
    assert origin_of(weeks.pay(HOSTILE)) == {"history": 1}


@pytest.mark.control
def test_what_was_asked_for_is_done_once_under_each_of_two_mandates() -> None:
    parent = make_mandate(mandate_id="m-0", tools=TWICE)
    first, second = make_child(parent, "m-1", tools=ONCE), make_child(parent, "m-2", tools=ONCE)
    other = make_mandate(mandate_id="m-3", tools=ONCE)
    case = scene()
    for one in (first, second, other):
        case.issue(one)
        assert act(case, digest_of(one), **change(5)) == ("allowed", None)
