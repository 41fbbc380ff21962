"""The gate `mandate`: what an action needs by tier and agent, and what lies outside a mandate."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.core.actions.stages import load_bundle
from sluice.core.foundation.errors import BundleError
from sluice.core.state.session import SessionState, session_key
from sluice_topics.catalog import ACTIONS, MANDATES
from tests.unit.core.actions.escalation_scene import Office
from tests.unit.core.actions.mandate_scene import (
    ISSUERS,
    REFUND,
    STAGES,
    Mandated,
    digest_of,
    make_bundle,
    make_mandate,
)
from tests.unit.core.rerun.reruns import document
from tests.unit.core.scene import LIMITS, MINUTE, START, action, entry, only, relaxations

if TYPE_CHECKING:
    from sluice.core.foundation.limits import SessionLimits

DENIES = {tier: {"need": "needed", "outside": "deny"} for tier in ("T1", "T2", "T3", "T4")}
COUNTED = {tier: {"need": "counted", "outside": "deny"} for tier in ("T1", "T2", "T3", "T4")}
TASK = make_mandate(
    tools=[
        {"tool": "find"},
        {"tool": "change", "condition": "action.parameters.amount < 100", "count": 2},
        {"tool": "change", "condition": "action.parameters.amount < 10"},
    ]
)
TASK_DIGEST = digest_of(TASK)


def scene(
    tiers: dict[str, Any] | None = None,
    *more: dict[str, Any],
    limits: SessionLimits | None = None,
    **bundle: Any,
) -> Mandated:
    made = make_bundle(tiers=DENIES if tiers is None else tiers, **bundle)
    case = Mandated(entries=(*ISSUERS, REFUND, *more), bundle=made)
    return case if limits is None else Mandated(entries=case.entries, bundle=made, limits=limits)


def act(case: Mandated, mandate: str | None = TASK_DIGEST, **fields: Any) -> tuple[str, str | None]:
    """Verdict and reason of an action that names a mandate; every verdict so far reruns the same."""
    named = {"action_id": f"a-{len(case.verdicts)}", "mandate_digest": mandate, **fields}
    found = case.propose(**named)
    assert case.rerun_states() == {"identical"}
    reason = found["shadowOutcome"] or found["blockReason"]
    return found["verdict"], reason


def change(amount: Any, **more: Any) -> dict[str, Any]:
    return {"toolName": "change", "parameters": {"amount": amount}, **more}


def detail(case: Mandated) -> Any:
    return next(one["detail"] for one in case.verdicts[-1]["gateResults"] if one["gate"] == "mandate")


def test_inside_a_mandate_the_other_gates_decide() -> None:
    case = scene()
    case.issue(TASK)
    assert act(case) == ("allowed", None)
    assert detail(case) == {"mandate": TASK_DIGEST, "issuer_id": "console"}
    assert {"issuer/console@1"} <= case.verdicts[-1]["registry_hashes"].keys()
    assert act(case, **change(99)) == ("allowed", None)
    assert act(case, toolName="anything", parameters={"cmd": "rm -rf /"})[0] == "denied"
    assert case.verdicts[-1]["blockReason"].startswith("forbidden_pattern")


@pytest.mark.parametrize(
    ("fields", "why", "text"),
    [
        ({"mandate": None}, "none_named", "it names none of the session's 1"),
        ({"mandate": "sha256:" + 64 * "0"}, "absent", "the session has no mandate"),
        ({"toolName": "erase"}, "tool", "does not need the tool erase"),
        (change(100), "condition", "change is for calls of which"),
        (change("much"), "condition", "change is for calls of which"),
        (change(None, parameters={}), "condition", "change is for calls of which"),
        ({"agent_id": "chief"}, "absent", "the session has no mandate"),
        ({"session_id": "s-2"}, "absent", "the session has no mandate"),
        (
            {"governanceContext": {"originalIntentHash": "sha256:" + 64 * "1"}},
            "other_intent",
            "originalIntentHash",
        ),
    ],
)
def test_what_lies_outside_is_denied_with_its_reason(fields: dict[str, Any], why: str, text: str) -> None:
    case = scene()
    case.issue(TASK)
    verdict, reason = act(case, **fields)
    assert (verdict, detail(case)["outside"]) == ("denied", why)
    assert reason is not None
    assert reason.startswith("outside_mandate: ")
    assert text in reason


def test_the_hash_of_the_task_may_stand_in_the_chain_of_delegation() -> None:
    case = scene()
    recorded = case.issue(TASK)["mandate"]
    told = {"originalIntentHash": recorded["task_hash"]}
    assert act(case, governanceContext=told) == ("allowed", None)


@pytest.mark.parametrize(
    ("outside", "verdict"), [("observe", "allowed"), ("ask", "needs_human"), ("deny", "denied")]
)
def test_the_bundle_says_what_comes_of_it(outside: str, verdict: str) -> None:
    case = scene({"T2": {"need": "needed", "outside": outside}})
    case.issue(TASK)
    assert act(case, **change(500))[0] == verdict
    assert detail(case)["outside"] == "condition"
    assert ("objection" in detail(case)) is (outside == "observe")
    assert act(case, **change(5)) == ("allowed", None)
    assert act(case, None, toolName="find") == ("allowed", None), (
        "a tier that the bundle leaves out needs none"
    )


def test_where_it_is_counted_only_a_mandate_that_is_there_counts() -> None:
    case = scene(COUNTED)
    assert act(case, None, **change(500)) == ("allowed", None)
    case.issue(TASK)
    assert act(case, None)[0] == "denied"
    assert detail(case)["outside"] == "none_named"
    assert act(case, **change(500))[0] == "denied"
    assert act(case)[0] == "allowed"
    assert act(case, None, agent_id="chief")[0] == "allowed", "another agent's mandate is none of its own"
    case.now += 11 * MINUTE
    assert act(case, None, **change(500))[0] == "allowed", "its time is over"
    assert act(case)[0] == "denied"
    assert detail(case)["outside"] == "over"


def test_an_agents_entry_asks_for_more_than_the_bundle_and_never_for_less() -> None:
    careful = entry("agent", "operator", 2, tenant_id="acme", tier="T3", mandate="needed")
    case = scene({}, careful)
    assert act(case, None)[0] == "needs_human"
    case.issue(TASK)
    assert act(case)[0] == "allowed"
    easy = entry("agent", "operator", 2, tenant_id="acme", tier="T3", mandate="counted")
    assert act(scene(DENIES, easy), None)[0] == "denied"


def test_a_bundle_says_for_single_agents_what_they_need_instead() -> None:
    own = {
        "operator": {"tiers": {"T2": {"need": "needed", "outside": "deny"}}},
        "chief": {"tiers": {"T2": {"need": "not_needed"}}},
    }
    made = make_bundle(tiers={"T1": {"need": "needed"}, "T2": {"need": "needed"}}, agents=own)
    case = Mandated(entries=ISSUERS, bundle=made)
    told = {"mandate": None, **change(5)}
    found = {agent: act(case, agent_id=agent, **told)[0] for agent in ("operator", "chief", "reader")}
    assert found == {"operator": "denied", "chief": "allowed", "reader": "needs_human"}
    assert act(case, None, toolName="find")[0] == "needs_human", "a tier that is left out is as for all"
    careful = entry("agent", "chief", 2, tenant_id="acme", tier="T4", mandate="needed")
    case = Mandated(entries=(*ISSUERS, careful), bundle=made)
    assert act(case, agent_id="chief", **told)[0] == "needs_human", "the stricter of bundle and entry counts"


def test_a_bundle_without_the_gate_is_as_before() -> None:
    case = Mandated(entries=ISSUERS, bundle=document())
    case.issue(TASK)
    assert act(case, toolName="change") == ("allowed", None)


def test_a_count_is_used_up_by_calls_that_happen_or_may() -> None:
    case = scene()
    case.issue(TASK)
    assert act(case, **change(200))[0] == "denied"
    assert [act(case, **change(50))[0] for _ in range(3)] == ["allowed", "allowed", "denied"]
    assert detail(case)["outside"] == "count"
    assert act(case, **change(5))[0] == "allowed", "another line of the same tool has no count"
    assert case.verdicts[-1]["session"]["remembered"]["mandate"]["uses"][TASK_DIGEST]["used"] == {"0.1": 2}
    again = make_mandate(mandate_id="m-2", tools=[{"tool": "change", "count": 1}])
    case.issue(again)
    assert [act(case, digest_of(again), **change(50))[0] for _ in range(2)] == ["allowed", "denied"]
    case.now += 11 * MINUTE
    assert act(case, None, toolName="find")[0] == "denied"


def test_a_repeat_of_an_action_uses_nothing() -> None:
    case = scene()
    case.issue(TASK)
    for _ in range(4):
        assert act(case, action_id="same", **change(50))[0] == "allowed"
    assert act(case, **change(50))[0] == "allowed"
    assert act(case, **change(50))[0] == "denied"


def test_the_conditions_of_the_mandates_above_hold_too() -> None:
    above = make_mandate(
        agent_id="chief",
        session_id="s-0",
        mandate_id="m-0",
        tools=[
            {"tool": "change", "condition": "action.parameters.amount < 100", "count": 2},
            {"tool": "find"},
        ],
    )
    below = make_mandate(tools=[{"tool": "change", "count": 2}], parent=above)
    case = scene()
    assert case.issue(below)["schema"] == "sluice/mandate_recorded/v1"
    named = digest_of(below)
    assert act(case, named, **change(99))[0] == "allowed"
    assert act(case, named, **change(100))[0] == "denied"
    assert (detail(case)["outside"], detail(case)["above"]) == ("condition", 1)
    assert act(case, named)[0] == "denied"
    assert "above" not in detail(case)
    assert act(case, digest_of(above), **change(1))[0] == "denied"


def test_a_templates_condition_reads_the_values_as_data() -> None:
    account = "DE1' || true || '"
    mandate = make_mandate(
        agent_id="chief", template={"id": "refund", "values": {"order": "7", "account": account}}
    )
    case = scene()
    case.issue(mandate)
    told = {"agent_id": "chief", "toolName": "pay"}
    named = digest_of(mandate)
    assert act(case, named, **told, parameters={"to": "DE2"})[1] is not None
    assert detail(case)["outside"] == "condition"
    act(case, named, **told, parameters={"to": account})
    assert "outside" not in detail(case)


def test_what_ended_a_mandate_is_said() -> None:
    revoked = entry("mandate_revocation", TASK_DIGEST, tenant_id="acme", reason="cancelled")
    case = scene()
    case.issue(TASK)
    later = scene(None, revoked)
    later._replay._sessions = case._replay._sessions  # noqa: SLF001 - the same session under a new policy
    assert act(later)[1] == f"outside_mandate: revoked by mandate_revocation/{TASK_DIGEST}@1: cancelled"


def test_rules_read_the_mandate_that_is_in_force() -> None:
    rule = {
        "id": "named",
        "type": "invariant",
        "reason": "nobody asked for it",
        "condition": "mandate.present && action.parameters.to in mandate.destinations",
    }
    mandate = make_mandate(destinations=["a@b.c"])
    made = document(rules=[rule], stages=[one for one in STAGES if one != "mandate"])
    case = Mandated(entries=ISSUERS, bundle=made)
    case.issue(mandate)
    assert act(case, digest_of(mandate), parameters={"to": "a@b.c"}) == ("allowed", None)
    assert act(case, digest_of(mandate), parameters={"to": "x@y.z"})[0] == "denied"
    assert act(case, None, parameters={"to": "a@b.c"})[0] == "denied"
    case.now += 11 * MINUTE
    assert act(case, digest_of(mandate), parameters={"to": "a@b.c"})[0] == "denied"


def test_what_relaxes_the_part_is_found() -> None:
    def load(**tiers: Any) -> Any:
        return load_bundle(make_bundle(tiers=tiers))

    strict = load(T3={"need": "needed", "outside": "deny"})
    for looser in (
        load(),
        load(T3={"need": "counted", "outside": "deny"}),
        load(T3={"need": "needed", "outside": "ask"}),
    ):
        assert len(relaxations(strict, looser)) == 1
        assert relaxations(looser, strict) == []
    with pytest.raises(BundleError, match="mandate"):
        load(T9={"need": "needed"})


@pytest.mark.parametrize(
    ("before", "after", "paths"),
    [
        ({}, {"T3": {"need": "needed", "outside": "deny"}}, []),
        ({}, {"T3": {"need": "needed", "outside": "observe"}}, ["T3.outside"]),
        ({}, {"T3": {"need": "counted", "outside": "deny"}}, ["T3.need"]),
        ({"T3": {"need": "needed", "outside": "deny"}}, {}, ["T3.outside"]),
        ({"T4": {"need": "needed"}}, {}, ["T4.need"]),
        ({"T4": {"need": "needed"}}, {"T4": {"need": "not_needed"}}, ["T4.need"]),
        ({}, {"T4": {"need": "counted"}}, []),
    ],
)
def test_what_relaxes_the_terms_of_an_agent_is_found(
    before: dict[str, Any], after: dict[str, Any], paths: list[str]
) -> None:
    def load(own: dict[str, Any]) -> Any:
        agents = {"operator": {"tiers": own}} if own else {}
        return load_bundle(make_bundle(tiers={"T3": {"need": "needed", "outside": "ask"}}, agents=agents))

    found = [one.path for one in relaxations(load(before), load(after))]
    assert found == [f"mandate.agents[operator].tiers.{one}" for one in paths]


@pytest.mark.parametrize("outside", ["ask", "deny"])
def test_a_call_that_waits_for_a_person_has_used_its_count_and_uses_it_once(outside: str) -> None:
    part = {"tiers": {"T3": {"need": "needed", "outside": outside}}}
    office = Office(ISSUERS, policy={"patterns": {}, "stages": STAGES, "mandate": part})
    mandate = make_mandate(tools=[{"tool": "erase", "count": 1}])
    named = {"mandate_digest": digest_of(mandate)}
    office.take(MANDATES, mandate)
    opened = office.open_escalation(**named)
    second = office.propose("a-2", **named).records[0].body
    assert second["blockReason"].startswith("outside_mandate: erase was used 1 times already")
    resolved = only(office.answer(opened, "ann"), "ResolvedVerdict")
    assert (resolved["verdict"], resolved["session"]["mandate"]["digest"]) == ("allowed", digest_of(mandate))
    uses = office.propose("a-3", **named).records[0].body["session"]["remembered"]["mandate"]["uses"]
    assert uses == {digest_of(mandate): {"until": START + 10 * MINUTE, "used": {"0.0": 1}, "waiting": {}}}


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["change", "erase", "approve", "deny", "takeover"]),
        st.integers(0, 3),
        st.booleans(),
    ),
    max_size=24,
)


def make_family(agents: list[str], counts: tuple[int, ...]) -> list[dict[str, Any]]:
    """A mandate, and three within it."""
    made: list[dict[str, Any]] = []
    for number, agent in enumerate(agents):
        count = min(counts[0], counts[number])
        more: dict[str, Any] = {"parent": made[0]} if made else {}
        tools = [{"tool": tool, "count": count} for tool in ("change", "erase")]
        made.append(make_mandate(mandate_id=f"m-{number}", agent_id=agent, tools=tools, **more))
    return made


@given(counts=st.tuples(*[st.integers(1, 4)] * 4), shared=st.booleans(), steps=STEPS)
@settings(max_examples=60, deadline=None)
def test_what_is_carried_out_or_waits_never_exceeds_a_count_of_its_chain(
    counts: tuple[int, ...], shared: bool, steps: list[tuple[str, int, bool]]
) -> None:
    """A parent and three children, of one agent or two, against a plain count of each."""
    terms = {"need": "needed", "outside": "deny"}
    part = {"tiers": {"T2": terms, "T3": terms}}
    limits = replace(LIMITS, max_recent_actions=64)
    office = Office(ISSUERS, limits=limits, policy={"patterns": {}, "stages": STAGES, "mandate": part})

    agents = ["chief", "operator", "operator", "operator" if shared else "chief"]
    mandates = make_family(agents, counts)
    for one in mandates:
        office.take(MANDATES, one)
    left = {
        (tool, number): one["tools"][0]["count"]
        for number, one in enumerate(mandates)
        for tool in ("change", "erase")
    }
    waiting: list[dict[str, Any]] = []
    for number, (what, chosen, standard) in enumerate(steps):
        if what == "takeover":
            key = session_key("s-1")
            entries = office.replay.session(b"s-1").entries()
            office.replay._sessions[key] = SessionState.read(key, entries)  # noqa: SLF001
        elif what in ("approve", "deny"):
            if waiting:
                records = office.answer(waiting.pop(chosen % len(waiting)), "ann", what)
                if what == "approve":
                    assert only(records, "ResolvedVerdict")["outcome"] == "ALLOW"
        else:
            mode = "standard" if standard else "high_stakes"
            digest = digest_of(mandates[chosen])
            record = {"action_id": f"a-{number}", "agent_id": agents[chosen], "toolName": what, "mode": mode}
            decision = office.take(ACTIONS, action(**record, parameters={}, mandate_digest=digest))
            fits = all(left[what, place] > 0 for place in {0, chosen})
            outcome = only(decision, "Verdict")["outcome"]
            assert outcome == ({"change": "ALLOW", "erase": "ESCALATE"}[what] if fits else "BLOCK")
            for place in {0, chosen}:
                if (standard or fits) and left[what, place] > 0:
                    left[what, place] -= 1
            waiting += [one.body for one in decision.records if one.kind == "EscalationOpened"]


STRICTNESS = ["allowed", "needs_human", "denied"]
CONDITIONS = [
    None,
    "true",
    "false",
    "action.parameters.amount < 9",
    "nothing.like == 'it'",
    "mandate.present",
]
terms = st.fixed_dictionaries(
    {
        "tools": st.none()
        | st.lists(
            st.builds(
                lambda tool, condition, count: {
                    name: one
                    for name, one in {"tool": tool, "condition": condition, "count": count}.items()
                    if one is not None
                },
                st.sampled_from(["find", "change", "erase", "anything"]),
                st.sampled_from(CONDITIONS),
                st.none() | st.integers(1, 3),
            ),
            max_size=4,
        )
    }
)
needs = st.dictionaries(
    st.sampled_from(["T1", "T2", "T3", "T4"]),
    st.fixed_dictionaries(
        {
            "need": st.sampled_from(["not_needed", "counted", "needed"]),
            "outside": st.sampled_from(["observe", "ask", "deny"]),
        }
    ),
)
proposed = st.fixed_dictionaries(
    {
        "toolName": st.sampled_from(["find", "change", "erase", "pay", "anything", "unknown"]),
        "parameters": st.sampled_from([{"amount": 5}, {"amount": 50}, {"cmd": "rm -rf /"}, {}]),
        "mode": st.sampled_from(["standard", "high_stakes"]),
        "agent_id": st.sampled_from(["operator", "reader", "trial", "nobody"]),
        "governanceContext": st.sampled_from([None, {"originalIntentHash": f"sha256:{64 * '1'}"}]),
    }
)


@given(terms=terms, tiers=needs, fields=proposed, named=st.sampled_from(["this", "other", None]))
@settings(max_examples=150, deadline=None)
def test_no_mandate_makes_an_outcome_less_strict(
    terms: dict[str, Any], tiers: dict[str, Any], fields: dict[str, Any], named: str | None
) -> None:
    """Of one action in a session of its own, under the same bundle with the gate and without it."""
    mandate = make_mandate(**terms)
    digest = {"this": digest_of(mandate), "other": f"sha256:{64 * '0'}", None: None}[named]
    found = []
    for stages in (STAGES, [one for one in STAGES if one != "mandate"]):
        case = Mandated(entries=ISSUERS, bundle=make_bundle(stages, tiers=tiers))
        case.issue(mandate)
        verdict = case.propose(**fields, mandate_digest=digest)
        found.append(
            STRICTNESS.index(
                {"ALLOW": "allowed", "ESCALATE": "needs_human", "BLOCK": "denied"}[
                    verdict["shadowOutcome"] or verdict["outcome"]
                ]
            )
        )
    assert found[0] >= found[1]
