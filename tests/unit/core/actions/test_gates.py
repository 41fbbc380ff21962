"""Every gate says all that others read of it, and what it writes is what it says that it writes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import Field

from sluice.core.actions.outbound import MOST_CHARACTERS
from sluice.core.actions.stage import PASSED, Detail, Gate, RememberingGate, StageResult
from sluice.core.actions.stages import BUNDLE_FORM, GATES, load_bundle
from sluice.core.foundation.errors import BundleError
from sluice.core.foundation.strict import StrictModel
from sluice.core.policy.bundles import BundleForm, BundlePart
from sluice.core.reports.gate_marks import list_titles
from sluice.offline.reference import list_gate_shapes, write_documents
from sluice_topics.asyncapi import make_schemas
from sluice_topics.relaxations import Relaxation, StricterWhen
from tests.unit.core.actions import test_destinations as destinations
from tests.unit.core.actions import test_limits as limits
from tests.unit.core.actions.context_scene import ASKING, make_asked, transfer
from tests.unit.core.actions.judging_scene import (
    LISTED,
    compare,
    extraction,
    grade,
    judge,
    judgement,
    make_in_doubt,
    make_resembling,
    make_score,
)
from tests.unit.core.actions.mandate_scene import ISSUERS, Mandated, digest_of, make_bundle, make_mandate
from tests.unit.core.actions.sequence_scene import SECRET_OUT, session
from tests.unit.core.actions.test_graded_destinations import make_answer, make_graded
from tests.unit.core.actions.test_inbound import LATE, STRONG, UNREADABLE, opinion
from tests.unit.core.actions.test_inbound import verdict as incoming
from tests.unit.core.actions.test_outbound import send_message
from tests.unit.core.actions.test_policies import FEW, closest, policy
from tests.unit.core.actions.test_policies import judge as shelved
from tests.unit.core.scene import BUNDLE_BYTES, ROOT, Session, bundle, entry, point, relaxations

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluice.core.actions.stage import ActionContext

SHIPPED: dict[str, Any] = json.loads(BUNDLE_BYTES)
RULES = [
    {"id": "few", "type": "invariant", "reason": "too many", "condition": "action.rows < 50"},
    {"id": "known", "type": "assertion", "reason": "no", "condition": "action.parameters.known == true"},
]
ENTRIES = (
    entry("org", "acme", forbidden_targets=["vault"], irreversible_row_threshold=40),
    entry("tool", "delegate", tier="T1", action_type="DELEGATION", reversible=True),
    entry("agent", "lead", tenant_id="acme", tier="T3", delegates_to=["helper"]),
    entry("agent", "helper", tenant_id="acme", tier="T2"),
)
FROZEN = entry("freeze", "f", subject="tenant", subject_id="acme", reason="stop")
ACTIONS: dict[str, dict[str, Any]] = {
    "harmless": {},
    "a forbidden target": {"parameters": {"path": "vault"}},
    "a forbidden pattern": {"toolName": "anything", "parameters": {"cmd": "rm -rf /"}},
    "too many rows": {"toolName": "erase", "rows_affected": 45},
    "a failed rule": {"toolName": "change", "rows_affected": 60},
    "for a person": {"toolName": "erase"},
    "unregistered": {"toolName": "nothing", "mode": "standard"},
    "a delegation": {"agent_id": "lead", "toolName": "delegate", "delegate_to": "helper"},
    "a command that reads": {"toolName": "anything", "parameters": {"cmd": "git status"}},
    "too large a count": {"rows_affected": 10**30},
}


def verdicts() -> Iterator[dict[str, Any]]:
    for rules in ([], RULES):
        for frozen in ((), (FROZEN,)):
            of = Session(point(*ENTRIES, *frozen, policy=bundle(rules=rules)))
            for name, fields in ACTIONS.items():
                yield of.verdict(action_id=name, **fields)

    yield from make_broken_sequences()
    yield from make_unknown_destinations()
    yield limits.change(limits.office(limits.limit()), 1001)
    yield judge(extraction(*LISTED), judgement(0.6)).verdict(agent_id="clerk")
    yield grade(0.9).verdict()
    yield judge(extraction(*LISTED), judgement(0.6), mode="nudge").verdict(agent_id="clerk")
    yield grade(0.1, mode="nudge").verdict()
    for gate in ("causal", "grader"):
        yield make_in_doubt(gate, 0.1).verdict(agent_id="clerk")
    yield shelved(FEW, policy("near"), answers=(make_score(0.6),)).verdict(rows_affected=9)
    yield shelved(FEW, mode="nudge").verdict(rows_affected=10)
    others = [policy("a"), policy("b")]
    found = closest(others, ("a", 0.5))
    yield shelved(*others, answers=(found, make_score(0.9)), closest=1).verdict()
    yield send_message("enforce", {"body": "4111 1111 1111 1111"})
    yield send_message("observe", {"body": "a " * MOST_CHARACTERS})
    yield incoming("enforce", STRONG, opinion(0.5), judge="always", most_characters=256)
    yield incoming("enforce", UNREADABLE, LATE, judge="always")
    yield from make_outside_mandates()
    yield make_shown_context()
    yield compare(make_resembling()).verdict()
    yield compare(make_resembling((0.99,), (0.1,), lean=1.0), mode="nudge").verdict()


def make_unknown_destinations() -> Iterator[dict[str, Any]]:
    yield destinations.pay(destinations.make_session(), destinations.HOSTILE)
    yield destinations.pay(destinations.make_session(mode="observe"), destinations.HOSTILE)
    yield destinations.pay(destinations.make_session(mode="nudge"), destinations.HOSTILE)
    for answer in (make_answer(), LATE):
        yield destinations.pay(make_graded(answer=answer), destinations.HOSTILE)
    of = destinations.make_session(tiers={"T2": {"untrusted_read": "advise"}})
    destinations.call(of, "inbox", destinations.HOSTILE)
    yield destinations.pay(of, destinations.HOSTILE)


def make_outside_mandates() -> Iterator[dict[str, Any]]:
    above = make_mandate(agent_id="chief", session_id="s-0", tools=[{"tool": "find", "count": 1}])
    mandate = make_mandate(tools=[{"tool": "find", "count": 1}], parent=above)
    case = Mandated(
        entries=ISSUERS, bundle=make_bundle(tiers={"T1": {"need": "needed", "outside": "observe"}})
    )
    case.issue(mandate)
    forbidding = make_mandate(
        mandate_id="m-2",
        parent=make_mandate(tools=[{"tool": "find", "condition": "false"}]),
        tools=[{"tool": "find"}],
    )
    case.issue(forbidding)
    yield case.propose()
    yield case.propose(action_id="m-1", mandate_digest=digest_of(mandate))
    yield case.propose(action_id="m-2", mandate_digest=digest_of(forbidding))


def make_shown_context() -> dict[str, Any]:
    mandate = make_mandate()
    case = make_asked(
        stages=[*ASKING[:2], "inbound", *ASKING[2:]], inbound={"mode": "enforce", "judge": "always"}
    )
    case.issue(mandate)
    return transfer(case, mandate=digest_of(mandate))


def make_broken_sequences() -> Iterator[dict[str, Any]]:
    of = session({**SECRET_OUT, "outcome": "escalate"}, freeze={"denials": 1, "within_ms": 9})
    for place, tool in enumerate(("read_secret", "send", "denied", "find")):
        yield of.verdict(action_id=f"s-{place}", toolName=tool)


def test_every_detail_has_the_shape_that_its_gate_declares() -> None:
    shapes, seen = list_gate_shapes(), set()
    validator = Draft202012Validator(make_schemas(shapes) | {"$ref": "#/$defs/Verdict"})
    for verdict in verdicts():
        for result in verdict["gateResults"]:
            shape = shapes[result["gate"]].detail
            known = {field.alias or name for name, field in shape.model_fields.items()}
            assert set(result["detail"]) <= known, result
            if result["detail"]:
                shape.model_validate(result["detail"])
            seen |= {(result["gate"], name) for name in result["detail"]}
        linked = {**verdict, "event_hash": "sha256:" + 64 * "0", "prev_hash": "GENESIS", "sequence": 1}
        wrong = [one.message for one in validator.iter_errors({**linked, "decider_version": "1"})]
        assert not [one for one in wrong if "detail" in one], wrong
    every = {
        (gate, field.alias or name)
        for gate, one in shapes.items()
        for name, field in one.detail.model_fields.items()
    }
    assert every - seen <= {("fast_reject", "hits"), ("fast_reject", "inconclusive")}, "no action shows these"


def test_a_detail_of_another_shape_is_refused_by_the_published_schema() -> None:
    verdict = next(verdicts())
    validator = Draft202012Validator(make_schemas(list_gate_shapes()) | {"$ref": "#/$defs/Verdict"})
    (score,) = [one for one in verdict["gateResults"] if one["gate"] == "consequence"]
    path = ["gateResults", verdict["gateResults"].index(score), "detail"]
    assert path not in [list(one.path) for one in validator.iter_errors(verdict)]
    score["detail"] = {"score_per_mille": "high"}
    assert path in [list(one.path) for one in validator.iter_errors(verdict)]
    score["detail"] = {"port": "oracle", "budget_ms": 50, "status": "overrun"}
    assert path not in [list(one.path) for one in validator.iter_errors(verdict)]


def test_every_gate_is_described_where_people_look() -> None:
    """README, the guide to actions, the page of gates and the AsyncAPI document."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    guide = (ROOT / "docs" / "actions.md").read_text(encoding="utf-8")
    page = write_documents()["reference/gates.md"]
    schemas = make_schemas(list_gate_shapes())["$defs"]
    for gate in GATES:
        assert f"`{gate.name}`" in readme
        assert f"| `{gate.name}`" in guide
        assert f"## {gate.name}\n" in page
        assert gate.detail.__name__ in schemas
        assert not isinstance(gate, RememberingGate) or gate.memory.__name__ in schemas
        assert gate.__doc__
        assert gate.part is None or gate.part.key == gate.name
        assert all(
            field.title is None or list_titles(gate.name)[field.alias or name] == field.title
            for name, field in gate.detail.model_fields.items()
        )


CONSEQUENCE = SHIPPED["consequence"]
STEPS = CONSEQUENCE["row_steps"]
ONE_LOWER = {"reversible": 0, "irreversible": 999, "unknown": 700}


@pytest.mark.parametrize(
    ("change", "sentences"),
    [
        ({}, []),
        ({"escalation_ttl_ms": 5}, []),
        ({"stages": ["controls", "rules", "tier_auth"]}, [f"the gate {one} no longer runs" for one in (
            "limits", "inbound", "outbound", "fast_reject", "similarity", "consequence", "causal", "topology",
            "sequence", "destinations", "policies", "grader")]),
        ({"topology": {"max_chain_depth": 2}}, []),
        ({"topology": {"max_chain_depth": 4}}, ["a chain may hold 4 delegations, not 3"]),
        ({"consequence": CONSEQUENCE | {"block_at": 870}}, []),
        ({"consequence": CONSEQUENCE | {"block_at": 1001, "escalate_at": 701}}, [
            "a consequence score escalates from 701 per mille, not from 700",
            "a consequence score blocks from 1001 per mille, not from 880"]),
        ({"consequence": CONSEQUENCE | {"row_steps": [*STEPS[:2], *STEPS[3:]]}},
         ["the row part of the consequence score is lower from 100 rows on"]),
        ({"consequence": CONSEQUENCE | {"row_steps": [{"from_rows": 0, "score": 1000}]}}, []),
        ({"consequence": CONSEQUENCE | {"weights": {"reversibility": 1000, "rows": 0, "action_type": 0}}},
         ["the parts of the consequence score have other weights"]),
        ({"consequence": CONSEQUENCE | {"reversibility": ONE_LOWER}},
         ["the reversibility part of what is irreversible falls from 1000 to 999 per mille"]),
        ({"rules": RULES}, ["the rule old is gone"]),
        ({"rules": [{**RULES[0], "id": "old", "type": "assertion"}]}, ["a person may overrule old now"]),
        ({"rules": [{**RULES[0], "id": "old", "condition": "true"}]},
         ["the rule old has another condition, which may hold where the old one fails"]),
        ({"rules": [{**RULES[0], "id": "old", "reason": "in other words"}]}, []),
    ],
)  # fmt: skip
def test_what_gates_take_less_strictly_is_said(change: dict[str, Any], sentences: list[str]) -> None:
    base = {"patterns": {}, "rules": [{**RULES[0], "id": "old"}]}
    before, after = bundle(**base), bundle(**{**base, "revision": 2, **change})
    found = relaxations(before, after)
    assert [one.sentence for one in found] == sentences
    assert all(one.path for one in found)


# A gate in one file, as docs/adding-a-gate.md has it: here it is, and the bundle that names it.


class Curfew(StrictModel):
    """`until_hour`: actions wait until then, UTC."""

    until_hour: Annotated[int, Field(ge=0, le=23), StricterWhen("higher", "the curfew ends earlier")] = 0


class CurfewDetail(Detail):
    """The hour that it was."""

    hour: int


class CurfewGate(Gate):
    """Blocks what comes too early in the day."""

    name = "curfew"
    detail = CurfewDetail
    part = BundlePart(name, Curfew, Curfew())

    def evaluate(self, context: ActionContext) -> StageResult:
        policy: Curfew = context.plan.bundle.parts[self.name]
        hour = context.now_ms // 3_600_000 % 24
        return PASSED if hour >= policy.until_hour else StageResult("block", "too_early", {"hour": hour})


FORM = BundleForm([*BUNDLE_FORM.parts, CurfewGate.part])
NAMED = {**SHIPPED, "patterns": {}, "stages": ["controls", "curfew", "tier_auth"]}


@pytest.mark.parametrize(("until", "outcome"), [(13, "ALLOW"), (14, "BLOCK"), (None, "ALLOW")])
def test_a_new_gate_reads_its_own_part_of_the_bundle(until: int | None, outcome: str) -> None:
    part = {} if until is None else {"curfew": {"until_hour": until}}
    policy = FORM.load(json.dumps({**NAMED, **part}).encode())
    of = Session(point(policy=policy, added=[CurfewGate()]))
    assert of.verdict()["outcome"] == outcome


def test_a_part_is_checked_described_and_compared() -> None:
    with pytest.raises(BundleError, match=r"^\$\.curfew\.until_hour"):
        FORM.load(json.dumps({**NAMED, "curfew": {"until_hour": 24}}).encode())
    with pytest.raises(BundleError, match=r"^\$\.curfew"):
        load_bundle(json.dumps({**NAMED, "curfew": {}}).encode())
    assert FORM.model.model_json_schema()["properties"]["curfew"]["default"] == {"until_hour": 0}
    late, early = (FORM.load(json.dumps({**NAMED, "curfew": {"until_hour": one}}).encode()) for one in (9, 8))
    assert relaxations(late, early) == [Relaxation("the curfew ends earlier", "curfew.until_hour", 9, 8)]
    assert relaxations(early, late) == []


@pytest.mark.parametrize("key", ["memory", "topology"])
def test_a_key_that_is_taken_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="is taken"):
        BundleForm([*BUNDLE_FORM.parts, BundlePart(key, Curfew, Curfew())])
