"""The pipeline of seeds 000 and 001 as one table: every stage, outcome, budget and mode, in the seeds' own
words and numbers.

All gates run in every row, in the order of the seeds, on one bundle and one registry. What the encoder and
the models answer is given; nothing else is.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from sluice.core.actions.action_similarity import SimilarityPolicy
from sluice.core.actions.causal import CausalPolicy
from sluice.core.actions.grader import GraderPolicy
from sluice.core.actions.grading import PORT as GRADER
from sluice.core.actions.policies import PolicyShelf
from sluice.core.actions.stages import load_bundle
from sluice.core.foundation.requests import next_request
from sluice.core.policy.similarity_settings import EMBEDDING
from sluice.core.state.session import Counted, EntryKept
from sluice.offline.bundle_source import read_whole_bundle
from tests.unit.core.actions.judging_scene import judgement, make_score
from tests.unit.core.actions.seed_rows import (
    BOUND,
    BUDGETS,
    CAUSAL,
    ENTRIES,
    GONE,
    HARMLESS,
    LATE,
    PARTS,
    SEEDS,
    STAGES,
    TABLE,
    Row,
)
from tests.unit.core.scene import BUNDLE_BYTES, Session, bundle, entry, point

if TYPE_CHECKING:
    from collections.abc import Generator

    from sluice.core.decide.decision_point import DecisionPoint
    from sluice.core.foundation.requests import Answer, Request
    from sluice.core.policy.bundles import Bundle
    from sluice.core.state.decision import Decision

POINT = point(*ENTRIES, policy=SEEDS)


@dataclass
class Answered(Session):
    """A session whose ports answer by their names; a port that is not named is not to be asked, but for the
    encoder, to which every action looks harmless."""

    point: DecisionPoint = POINT
    by_port: dict[str, list[Answer]] = field(default_factory=dict)

    def drive(self, evaluation: Generator[Request, Answer, Decision]) -> Decision:
        """Run an evaluation to its end."""
        try:
            request = next_request(evaluation)
            while True:
                self.asked.append(request)
                given = self.by_port.get(request.port) or ([HARMLESS] if request.port == EMBEDDING else [])
                request = next_request(evaluation, given.pop(0))
        except StopIteration as decided:
            decision: Decision = decided.value
            return decision


def session_of(ports: dict[str, list[Answer]], rows: int = 0, *, governed: bool = False) -> Answered:
    """A session with so many rows, of an agent who is governed or not."""
    session = Answered(by_port={name: list(answers) for name, answers in ports.items()})
    session.state.last_at = session.now
    session.state.apply([Counted("acme", rows, int(rows > 0))])
    if governed:
        grader = (session.now + 60_000, {"state": "governed"}, 20)
        session.state.apply([EntryKept("acme", "operator", "gates", "grader", grader)])
    return session


def first_objection(verdict: dict[str, Any]) -> str | None:
    return next((one["gate"] for one in verdict["gateResults"] if not one["passed"]), None)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.section}: {row.what}")
def test_the_seeds_table(row: Row) -> None:
    session = session_of(row.ports, row.rows_before, governed=row.governed)
    verdict = session.verdict(**row.action)
    assert (verdict["outcome"], first_objection(verdict)) == (row.outcome, row.gate), verdict["blockReason"]
    assert (verdict["blockReason"] or "").startswith(row.reason or "")
    assert tuple(one.port for one in session.asked if one.port != EMBEDDING) == row.asked
    assert tuple(verdict["obligations"]) == row.obligations
    said = {"ALLOW": "allowed", "BLOCK": "denied", "ESCALATE": "needs_human"}
    assert verdict["verdict"] == said[row.outcome]
    assert (verdict["escalationId"] is not None) == (row.outcome == "ESCALATE")
    ran = [one["gate"] for one in verdict["gateResults"]]
    assert ran == [name for name in STAGES if name in ran], "in the seeds' order"
    if row.outcome == "BLOCK":
        assert ran[-1] == row.gate, "fail-fast"


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.section}: {row.what}")
@pytest.mark.parametrize("enforcement", ["enforce", "shadow"])
@pytest.mark.parametrize("mode", ["standard", "high_stakes"])
def test_modes_and_shadow_change_what_is_published_and_not_what_is_found(
    row: Row, enforcement: str, mode: str
) -> None:
    """000, Mode toggle; 001, Shadow mode: ALLOW goes out, the real one is the shadow outcome."""
    org = entry("org", "acme", 2, forbidden_targets=["prod.ledger*"], enforcement=enforcement)
    entries = [one for one in ENTRIES if (one["kind"], one["id"]) != ("org", "acme")]
    session = session_of(row.ports, row.rows_before, governed=row.governed)
    session.point = _point_under(org, entries)
    verdict = session.verdict(**row.action, mode=mode)
    shadowed = enforcement == "shadow"
    published = "ALLOW" if shadowed else row.outcome
    assert (verdict["outcome"], verdict["shadowOutcome"]) == (published, row.outcome if shadowed else None)
    assert first_objection(verdict) == row.gate
    waits = row.outcome == "ESCALATE" and mode == "high_stakes" and not shadowed
    assert (verdict["escalationId"] is not None) == waits
    goes_on = mode == "standard" or shadowed or row.outcome == "ALLOW"
    assert session.actions == int(row.rows_before > 0) + int(goes_on), "what goes on counts"


_POINTS: dict[str, DecisionPoint] = {}


def _point_under(org: dict[str, Any], entries: list[dict[str, Any]]) -> DecisionPoint:
    name = org["spec"]["enforcement"]
    if name not in _POINTS:
        _POINTS[name] = point(org, *entries, policy=SEEDS)
    return _POINTS[name]


@pytest.mark.parametrize(
    ("action", "port", "budget_ms", "gate"),
    [row[1:] for row in BUDGETS],
    ids=[f"{row[0]}: {row[-1]}" for row in BUDGETS],
)
def test_over_its_budget_a_gate_fails_open_in_standard_and_closed_in_high_stakes(
    action: dict[str, Any], port: str, budget_ms: int, gate: str
) -> None:
    """000, Performance contract."""
    ports = {port: [LATE]}
    strict = session_of(ports)
    denied = strict.verdict(**action, mode="high_stakes")
    assert (denied["outcome"], denied["blockReason"]) == ("BLOCK", f"budget_exceeded: {gate}")
    assert next(one.budget_ms for one in strict.asked if one.port == port) == budget_ms
    verdict = session_of(ports).verdict(**action, mode="standard")
    assert verdict["outcome"] == "ALLOW"
    assert [one["source"] for one in verdict["advisories"]].count(f"sluice.{gate}") == 1
    gone = {name: [GONE] for name in ports}
    for mode in ("standard", "high_stakes"):
        unanswered = session_of(gone).verdict(**action, mode=mode)
        assert (unanswered["outcome"], first_objection(unanswered)) == ("ESCALATE", gate)


@pytest.fixture(scope="module")
def hosted(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """The table's bundle with the profile for hosted models."""
    path = tmp_path_factory.mktemp("hosted") / "b.json"
    include = {"extends": "shipped:default.json", "include": ["shipped:budgets/hosted.json"]}
    # What extends the shipped bundle inherits that its models observe, until it says otherwise.
    enforced = {name: {**PARTS[name], "mode": "enforce"} for name in ("causal", "policies", "grader")}
    path.write_text(json.dumps({**include, **PARTS, **enforced}))
    return load_bundle(read_whole_bundle(path))


@pytest.mark.parametrize("row", [one for one in BUDGETS if one[2] != EMBEDDING], ids=lambda one: one[0])
def test_with_the_profile_for_hosted_models_a_gate_waits_longer_and_ends_alike(
    hosted: Bundle, row: tuple[str, dict[str, Any], str, int, str]
) -> None:
    """`shipped:budgets/hosted.json`."""
    _, action, port, _, gate = row
    for mode, ended in (("high_stakes", "BLOCK"), ("standard", "ALLOW")):
        session = session_of({port: [LATE]})
        session.point = point(*ENTRIES, policy=hosted)
        assert session.verdict(**action, mode=mode)["outcome"] == ended, gate
        waits_ms = 5000 if gate == "causal" else 20_000
        assert {one.budget_ms for one in session.asked if one.port == port} == {waits_ms}


def test_on_the_voice_path_the_caller_s_deadline_bounds_every_stage() -> None:
    """000, Performance contract: gate and grader stay inside the voice budget, which the caller names."""
    session = session_of({CAUSAL: [judgement(0.1)], GRADER: [make_score(0.9)]})
    session.verdict(**{**BOUND, "parameters": {"text": "hello"}}, deadline_ms=30)
    assert {one.port: one.deadline_ms for one in session.asked} == {EMBEDDING: 30, CAUSAL: 30, GRADER: 30}


def test_the_shipped_budgets_and_thresholds_are_the_seeds() -> None:
    """000, Performance contract; 000, The grader; 001, Gates 2 and 3: 50, 80 and 200 ms, .3, .7, .70, .85."""
    for alike in (SimilarityPolicy(), bundle().parts["similarity"]):
        assert (alike.budget_ms, alike.pass_below, alike.harmful_above) == (50, 0.3, 0.7)
    assert (CausalPolicy().budget_ms, PolicyShelf().budget_ms, GraderPolicy().budget_ms) == (50, 80, 80)
    proof = GraderPolicy().proof
    assert (proof.most_p99_ms, proof.required) == (200, True)
    shipped = json.loads(BUNDLE_BYTES)
    written = {name for gate in ("causal", "policies", "grader") for name in shipped.get(gate, {})}
    assert written <= {"enabled", "mode"}, "no other numbers"
