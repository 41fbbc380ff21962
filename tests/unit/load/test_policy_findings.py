"""The reload run: its traffic knows what must be refused, and each of its checks finds what it is for."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from functools import cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from load.changing_policy import PolicyHistory, policy_figures
from load.inputs.policy_traffic import ELSEWHERE, PolicyTraffic
from load.inputs.publisher import PublishedChange
from load.installations import neutral_policy, quality_policy
from load.installations.faulty_worker import Poison, SlowProbe
from load.recomputation.input_answers import AnswerAccount, account
from sluice.core.actions.stages import list_shipped_stages
from sluice.core.cases.cases import run_cases
from sluice.core.foundation.input_record import InputRecord
from sluice.core.registry.keys import Roots
from sluice.core.trust.compile_cache import CompileCache
from sluice.core.trust.reduction import reduce_policy
from sluice_demo.throwaway_trust import ThrowawayTrust
from tests.unit.load.decided import BEGAN_MS, TRUST, change_record, decide

if TYPE_CHECKING:
    from load.installations.installation import Evidence
    from sluice.core.trust.reduction import ReducedPolicy

REFUSALS = 10
STAGES = (*list_shipped_stages(), Poison(), SlowProbe())


_STANDING = quality_policy.make_standing(TRUST, neutral_policy.TENANT, BEGAN_MS)


class _Topics:
    """Both control topics, with the first policy in them."""

    def __init__(self, trust: ThrowawayTrust) -> None:
        self._trust = trust
        self.records: list[InputRecord] = []
        self.placed: list[PublishedChange] = []
        for record in neutral_policy.records(trust, BEGAN_MS):
            self._append(*record)

    @property
    def standing(self) -> list[dict[str, Any]]:
        return quality_policy.make_standing(self._trust, neutral_policy.TENANT, BEGAN_MS)

    def publish(self, seed: int, steps: int) -> None:
        traffic = PolicyTraffic(random.Random(seed), self._trust)  # noqa: S311 - seeded
        for event in (event for step in islice(traffic, steps) for event in step):
            at = self._append(event.topic, event.key, event.value)
            self.placed.append(PublishedChange(event, (at.topic, at.offset), at.timestamp_ms))

    def reduce(self) -> ReducedPolicy:
        return reduce_policy(
            self.records, Roots([self._trust.root_key]), CompileCache(partial(run_cases, stages=STAGES))
        )

    def _append(self, topic: str, key: bytes, value: bytes | None) -> InputRecord:
        offset = sum(one.topic == topic for one in self.records)
        at = InputRecord(topic, 0, offset, BEGAN_MS + len(self.records), key, value)
        self.records.append(at)
        return at


@cache
def _publish(seed: int, steps: int = 120) -> _Topics:
    topics = _Topics(ThrowawayTrust())
    topics.publish(seed, steps)
    return topics


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.integers(3, 60))
def test_the_fold_refuses_what_the_traffic_says_and_nothing_else(seed: int, steps: int) -> None:
    topics = _Topics(ThrowawayTrust())
    topics.publish(seed, steps)
    reduced = topics.reduce()
    refused = {
        (one.input_record.topic, one.input_record.offset): one.code for one in reduced.refused if one.final
    }
    assert refused == {one.spot: one.event.due for one in topics.placed if one.event.due is not None}


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.integers(3, 60))
def test_what_is_in_force_is_what_the_traffic_says_and_never_what_would_do_harm(
    seed: int, steps: int
) -> None:
    topics = _Topics(ThrowawayTrust())
    topics.publish(seed, steps)
    reduced, policies = topics.reduce(), PolicyHistory.read(topics.placed, topics.standing)
    accepted = {one.hash for one in reduced.entries.values() if one.kind != "approver"}
    assert accepted == {*policies.bundles, *policies.quality, *policies.entries.values()}
    assert reduced.registry.agents[neutral_policy.AGENT].tenant != ELSEWHERE
    assert reduced.bundles[neutral_policy.BUNDLE].irreversible_row_threshold == neutral_policy.PURGE_LIMIT
    judging = reduced.quality[quality_policy.BUNDLE]
    least = judging.file.min_confidence_by_class["price"]
    assert least == quality_policy.minimum(policies.quality[judging.hash])


def test_a_long_run_publishes_every_kind_of_refusal() -> None:
    assert len({one.event.due for one in _publish(1, 400).placed} - {None}) == REFUSALS


def test_a_run_under_one_policy_with_every_refusal_entered_has_nothing_to_find() -> None:
    assert _fail(decide(1, 60), _letters()) == set()


def test_a_verdict_under_a_refused_bundle_is_found() -> None:
    evidence = _alter(decide(2, 90), 20, bundle_hash="sha256:" + 64 * "0")
    assert _fail(evidence, _letters()) == {"under_refused_policy"}


def test_a_verdict_under_half_of_a_change_is_found() -> None:
    entries = PolicyHistory.read(_publish(1).placed, _STANDING).entries
    names = (f"agent/{neutral_policy.AGENT}@3", f"tool/{neutral_policy.READ_TOOL}@1")
    evidence = _alter(decide(3, 90), 20, registry_hashes={name: entries[name] for name in names})
    assert _fail(evidence, _letters()) == {"under_half_a_change"}


def test_a_policy_that_goes_back_is_found_in_its_session_and_in_its_partition() -> None:
    entries = PolicyHistory.read(_publish(1).placed, _STANDING).entries
    names = (f"agent/{neutral_policy.AGENT}@3", f"tool/{neutral_policy.READ_TOOL}@3")
    evidence = _alter(decide(4, 60), 5, registry_hashes={name: entries[name] for name in names})
    assert _fail(evidence, _letters()) == {"back_in_a_session", "back_in_a_partition"}


def test_a_policy_that_comes_into_force_late_is_found() -> None:
    evidence = decide(5, 90)
    slow = {**_body(evidence, 20)["input"], "timestamp": BEGAN_MS + 60_000}
    assert _fail(_alter(evidence, 20, input=slow), _letters()) == {"policy_lag"}


def test_a_refusal_that_is_missing_doubled_or_elsewhere_is_found() -> None:
    letters, evidence = _letters(), decide(6, 60)
    assert _fail(evidence, letters[1:]) == {"policy_refusals_missing"}
    assert _fail(evidence, [*letters, letters[0]]) == {"policy_refusals_undue"}
    assert _fail(evidence, [{**letters[0], "partition": 1}, *letters[1:]]) == {"policy_refusals_elsewhere"}
    wrong = {**letters[0], "code": "unsigned"}
    assert _fail(evidence, [wrong, *letters[1:]]) == {"policy_refusals_missing", "policy_refusals_undue"}


def _letters() -> list[dict[str, Any]]:
    return [
        {"partition": 0, "code": one.event.due, "input": {"topic": one.spot[0], "offset": one.spot[1]}}
        for one in _publish(1).placed
        if one.event.due is not None
    ]


def _fail(evidence: Evidence, letters: list[dict[str, Any]]) -> set[str]:
    found: AnswerAccount = replace(account(evidence), refused=letters)
    figures = policy_figures(found, _publish(1).placed, _STANDING)
    return {one.name for one in figures if not one.holds}


def _alter(evidence: Evidence, index: int, **fields: Any) -> Evidence:
    """The `index`-th first verdict on an action is altered."""
    place = _places(evidence)[index]
    ledger = list(evidence.ledger)
    ledger[place] = change_record(ledger[place], **fields)
    return replace(evidence, ledger=ledger)


def _body(evidence: Evidence, index: int) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(evidence.ledger[_places(evidence)[index]].value or b"")
    return body


def _places(evidence: Evidence) -> list[int]:
    bodies = [json.loads(record.value or b"") for record in evidence.ledger]
    return [
        n
        for n, body in enumerate(bodies)
        if f"tool/{neutral_policy.READ_TOOL}@1" in body.get("registry_hashes", ())
    ]
