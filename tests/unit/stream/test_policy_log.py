"""Mend 16: a worker's log says which policy is in force, what replaced what, what was refused and why."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, cast

import pytest

from sluice.core.trust.in_force import PolicyReducer
from sluice.stream.feeds.policy_feed import (
    MOST_LINES,
    PolicyFeed,
    describe,
    describe_changes,
    describe_refused,
)
from sluice.stream.process import MOST_SIGNS
from sluice_topics.catalog import BUNDLES
from tests.unit.core.trust.quality_scene import DAY_S, quality, quality_document, trust_both
from tests.unit.core.trust.scene import (
    ALICE,
    BOB,
    ROOT_KEY,
    ROOTS,
    STRANGER,
    Topics,
    agent,
    approver,
    bundle_document,
    trust_alice,
)

if TYPE_CHECKING:
    from sluice.core.decide.decision_point import DecisionPoint
    from sluice.core.foundation.input_record import InputRecord


class Reader:
    """Control topics that fill up between two readings."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._read = 0

    async def to_end(self) -> list[InputRecord]:
        new = self._topics.records[self._read :]
        self._read += len(new)
        return new

    async def close(self) -> None:
        """Nothing is open."""


class Told:
    """What a feed over these topics logs at each reading."""

    def __init__(self, topics: Topics, caplog: pytest.LogCaptureFixture) -> None:
        reduce = PolicyReducer(ROOTS, "small", lambda policy: cast("Any", policy))
        self._feed = PolicyFeed(cast("DecisionPoint", None), Reader(topics), reduce, 0.0, 60.0)
        self._caplog = caplog
        caplog.set_level(logging.INFO)

    async def next(self) -> list[str]:
        self._caplog.clear()
        await self._feed.catch_up(lambda *_: None)
        return [f"{one.levelname} {one.getMessage()}" for one in self._caplog.records]


@pytest.fixture
def topics() -> Topics:
    topics = trust_alice()
    topics.entry(agent(), ALICE)
    topics.bundle(bundle_document(3), ALICE)
    return topics


async def test_the_first_line_names_what_is_in_force_and_nothing_is_said_twice(
    topics: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    told = Told(topics, caplog)
    assert await told.next() == [
        "INFO policy in force: bundle small revision 3; registry entries: agent 1, approver 1"
    ]
    assert await told.next() == []


async def test_a_change_says_what_replaces_what_and_who_signed_it(
    topics: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    told = Told(topics, caplog)
    await told.next()
    topics.bundle(bundle_document(4), ALICE)
    topics.entry(agent(revision=2, tier="T2"), ALICE)
    topics.entry(agent("writer"), ALICE)
    assert await told.next() == [
        "INFO policy: bundle small revision 4 replaces revision 3, signed by alice",
        "INFO policy: agent reader revision 2 replaces revision 1, signed by alice",
        "INFO policy: agent writer revision 1 is new, signed by alice",
    ]


async def test_a_bundle_that_needs_no_proof_of_a_model_is_told_once(
    topics: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    topics.entry(approver("bob", BOB), ROOT_KEY)
    told = Told(topics, caplog)
    await told.next()
    stages = ["controls", "grader", "tier_auth"]
    topics.bundle(bundle_document(4, stages=stages, grader={"proof": {"required": False}}), ALICE, BOB)
    replaced = "INFO policy: bundle small revision 4 replaces revision 3, signed by alice, bob; relaxed: "
    unproved = "bundle small lets hosted models judge without a proof (grader.proof.required is false)"
    first, second = await told.next()
    assert first.startswith(replaced)
    assert second == f"WARNING policy: {unproved}"
    topics.entry(agent("writer"), ALICE)
    assert not any("proof" in one for one in await told.next())


async def test_a_refused_record_is_told_once_with_place_and_reason_and_changes_nothing(
    topics: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    told = Told(topics, caplog)
    await told.next()
    topics.bundle(bundle_document(2), ALICE)
    topics.bundle(bundle_document(5), STRANGER)
    assert await told.next() == [
        (
            "WARNING policy: refused, what was in force stays: "
            f"{BUNDLES}:0:1 older_revision at $.revision: revision 3 is in force"
        ),
        (
            "WARNING policy: refused, what was in force stays: "
            f"{BUNDLES}:0:2 unknown_key at $.signatures: no signature of a root's or an approver's key"
        ),
    ]
    topics.bundle(bundle_document(6), ALICE)
    assert await told.next() == ["INFO policy: bundle small revision 6 replaces revision 3, signed by alice"]


async def test_a_worker_without_its_default_bundle_says_so(caplog: pytest.LogCaptureFixture) -> None:
    told = Told(trust_alice(), caplog)
    assert await told.next() == ["ERROR policy: the default bundle is not in force; what was in force stays"]


def test_a_looser_quality_bundle_says_what_it_takes_back() -> None:
    topics = trust_both()
    quality(topics, quality_document(), ALICE)
    before = tuple(topics.reduce().entries.values())
    quality(topics, quality_document(2, ttl=2 * DAY_S), ALICE, BOB)
    assert list(describe_changes(before, tuple(topics.reduce().entries.values()))) == [
        (
            "quality bundle q revision 2 replaces revision 1, signed by alice, bob; "
            "relaxed: the time to live of product_pricing grows from 86400 s to 172800 s"
        )
    ]


def test_many_changes_and_refusals_fill_a_bounded_number_of_lines() -> None:
    topics = trust_alice()
    for number in range(MOST_LINES + 7):
        topics.entry(agent(f"agent-{number}"), ALICE)
        topics.entry(agent(f"agent-{number}"), STRANGER)
    reduced = topics.reduce()
    changes = list(describe_changes((), tuple(reduced.entries.values())))
    assert (len(changes), changes[-1]) == (MOST_LINES + 1, "and 8 more changes")
    refused = list(describe_refused(reduced.refused))
    assert (len(refused), refused[-1]) == (MOST_LINES + 1, "and 7 more records")


def test_no_published_text_breaks_a_line_or_turns_it_round() -> None:
    topics = trust_alice()
    topics.entry(agent("a\nINFO policy: all is well\u202e" + "x" * 200, tenant_id="t"), ALICE)
    (_, named) = describe_changes((), tuple(topics.reduce().entries.values()))
    assert named.isprintable()
    assert "·INFO policy: all is well·" in named
    topics.raw(BUNDLES, b"k", b'{"\\n\\u202e' + b"y" * 2000 + b'": 1}')
    (refused,) = describe_refused(topics.reduce().refused)
    assert refused.isprintable()
    assert len(refused) <= MOST_SIGNS + 1


def test_an_empty_registry_is_called_so() -> None:
    assert describe(()).endswith("registry entries: empty")
