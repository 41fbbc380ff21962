"""What X-AIP-Verdict says of a decision, which hold an integrity checkpoint, and what passes the front."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sluice.core.actions.pipeline import BUDGET_EXCEEDED, DEADLINE_ELAPSED, INCONCLUSIVE, PORT_BUSY
from sluice.core.actions.stages import GATES
from sluice.core.foundation.requests import Answer
from sluice.gateway.http.response_headers import ResponseFacts
from sluice.gateway.routes.answer_rendering import (
    ATTESTED,
    read_checkpoint,
    render_memory,
    render_retrieval,
)
from sluice_topics.checkpoints import ANALYSING, UNDECIDED, find_aip_verdict
from tests.unit.core.rerun.reruns import Case, document
from tests.unit.core.retrieval.scene import Scene, item, quality
from tests.unit.gateway.test_response_headers import AIP_VERDICTS, CHECKPOINTS, headers_of

if TYPE_CHECKING:
    from sluice.gateway.idempotency import StoredAnswer

JUDGED = {"reasoning": "It would.", "model": "m"}


def record_of(*results: tuple[str, str | None, str], stages: tuple[str, ...] = ("causal", "grader")) -> Any:
    """A verdict's record whose gates came to these reasons, their model having answered with this status."""
    return {
        "stages": stages,
        "gateResults": [
            {"gate": gate, "passed": reason is None, "failureReason": reason, "detail": JUDGED}
            for gate, reason, _ in results
        ],
        "model_outputs": [{"gate": gate, "status": status} for gate, _, status in results if status],
        "checkpoints": dict.fromkeys(CHECKPOINTS, "pass"),
        **dict.fromkeys(ATTESTED, "x"),
    }


@pytest.mark.parametrize(
    ("record", "said", "stored"),
    [
        (record_of(stages=("rules",)), "disabled", False),
        (record_of(), "skipped", False),
        (record_of(("causal", None, "")), "skipped", False),
        (record_of(("causal", None, "answered")), "clear", True),
        (record_of(("causal", "semantic_violation: .9", "answered")), "boundary_violation", True),
        (record_of(("grader", "rule_failed: r: no", "answered")), "boundary_violation", True),
        (record_of(("grader", "inconclusive: rule r", "answered")), "ambiguous", True),
        (record_of(("grader", "inconclusive: no answer", "unavailable")), "error", False),
        (record_of(("grader", "budget_exceeded: grader", "overrun")), "skipped", False),
        (
            record_of(("causal", None, "answered"), ("grader", "inconclusive: none", "unavailable")),
            "error",
            False,
        ),
        (
            record_of(("causal", "semantic_violation: .6", "answered"), ("grader", None, "answered")),
            "boundary_violation",
            True,
        ),
    ],
)
def test_a_decision_says_what_became_of_the_analysis(record: Any, said: str, stored: bool) -> None:
    assert (find_aip_verdict(record), read_checkpoint(record) is not None) == (said, stored)
    assert said in AIP_VERDICTS
    facts = ResponseFacts("r", checkpoints=record["checkpoints"], aip_verdict=said)
    assert headers_of(facts)["x-aip-verdict"] == said
    assert "x-aip-checkpoint-id" not in headers_of(facts)


def test_the_gates_that_analyse_are_those_that_say_so() -> None:
    assert {gate.name for gate in GATES if gate.analyses} == ANALYSING
    assert (INCONCLUSIVE, BUDGET_EXCEEDED, DEADLINE_ELAPSED, PORT_BUSY) == UNDECIDED


def late(_: object) -> Answer:
    """No answer of any port in time."""
    return Answer("overrun", detail="over 9 ms")


def fronts(answer: StoredAnswer) -> tuple[str, list[str]]:
    """The state of `front`, and what is advised of it."""
    advised = [one["text"] for one in answer.facts["advisories"] if one["source"] == "sluice.front"]
    return answer.facts["checkpoints"]["front"], advised


@pytest.mark.parametrize(("failure", "front"), [("strong", "enforced"), ("ignore", "observed")])
def test_a_body_that_no_model_judged_does_not_pass_the_front(failure: str, front: str) -> None:
    part = {"judge": "always", "on_failure": failure}
    answer = render_retrieval(Scene(quality=quality(content_judge=part), port=late).serve(item()))
    told = "front was not judged to its end: the model's answer on the body is missing: overrun"
    assert fronts(answer) == (front, [told])
    assert fronts(render_retrieval(Scene().serve(item()))) == ("pass", [])


def test_a_memory_that_no_model_judged_does_not_pass_the_front() -> None:
    asked = document(memory={"trust": {"llmAnalysis": True}, "analysis": {"on_failure": "ignore"}})
    ignored = Case(bundle=asked, answer=late).remember()
    told = "front was not judged to its end: overrun: over 9 ms"
    assert fronts(render_memory(ignored)) == ("observed", [told])
    assert fronts(render_memory(Case().remember())) == ("pass", [])
