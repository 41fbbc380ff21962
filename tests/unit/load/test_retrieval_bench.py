"""The benchmarks of retrievals measure what they say: items are judged, faults are there, texts are new."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import orjson
import pytest

from load.bench.fixtures import bench_policy
from load.bench.fixtures.items import Bodies, Elsewhere, Shape, input_records, requests
from load.bench.fixtures.pure import Pipeline
from load.bench.gates.retrieval_gate import JudgingGate
from sluice.core.decide.kinds import read_input_message
from sluice_topics.records import ProposedRetrieval

if TYPE_CHECKING:
    from sluice.core.decide.decision_point import DecisionPoint


@pytest.fixture(scope="module")
def point() -> DecisionPoint:
    """Compiled once: it holds no state."""
    return bench_policy.point()


def test_most_items_are_in_order_and_each_fault_is_there(point: DecisionPoint) -> None:
    inputs = input_records(60, 10, 1, Shape(10))
    judged = [body for body in Pipeline(point).take(inputs) if "quality_bundle_hash" in body]
    assert len(judged) == 600
    outcomes = Counter(body["outcome"] for body in judged)
    assert outcomes["pass"] > 400
    flags = {flag for body in judged for flag in body["flags_set"]}
    assert flags == {"stale", "low_confidence", "provenance_missing", "provenance_unverified"}
    assert sum(body["provenance_hash_verified"] for body in judged) > 450


def test_the_gate_alone_makes_the_decisions_that_the_whole_makes(point: DecisionPoint) -> None:
    inputs = input_records(5, 2, 1, Shape(3))
    read = [
        (one, message) for one in inputs if isinstance(message := read_input_message(one), ProposedRetrieval)
    ]
    alone = {body["rerun_hash"] for body in JudgingGate(point).take(read)}
    assert alone == {body["rerun_hash"] for body in Pipeline(point).take(inputs) if "rerun_hash" in body}
    assert len(alone) == 15


@pytest.mark.parametrize(("fresh", "new"), [(1.0, 300), (0.0, 64)])
def test_as_many_bodies_are_new_as_is_said(fresh: float, new: int) -> None:
    bodies = Bodies(fresh, random.Random(1))  # noqa: S311 - texts, not secrets
    assert len({bodies.next() for _ in range(300)}) == pytest.approx(new, abs=10)


def test_some_requests_lead_elsewhere_each_to_another_place() -> None:
    shape = Shape(1, elsewhere=Elsewhere("http://stalling.example:1", 0.5))
    items = [orjson.loads(value)["items"][0] for _, value in requests(100, 10, 1, shape)]
    uris = [item["provenance_uri"] for item in items if "stalling" in (item["provenance_uri"] or "")]
    assert 25 < len(uris) < 75
    assert len(set(uris)) == len(uris)
