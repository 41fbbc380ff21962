"""Retrievals on a real broker: answered once, remembered over a kill, and judged by whole bundles alone."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from load.installations import neutral_policy, quality_policy
from load.installations.worker_process import WorkerProcess
from sluice.cli.main import cli
from sluice.client import AsyncGateClient, ClientOptions
from sluice_demo.throwaway_trust import REVIEWER, ThrowawayTrust, publish_policy
from sluice_topics.catalog import BUNDLES, ESCALATIONS, REPORTED, RETRIEVALS, SESSION_EVENTS, VERDICTS
from sluice_topics.records import QualityDecision, ServedRetrieval
from tests.kafka.installation import action, publish, run_worker, wait_for, wait_until
from tests.kafka.memories import session_in
from tests.kafka.retrievals import (
    BETWEEN,
    OLD,
    events,
    item,
    letters,
    quality,
    report,
    retrieval,
    retrieval_installation,
    serve,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from load.installations.installation import TestInstallation

pytestmark = pytest.mark.kafka
REFUSED = [
    "cases_failed",
    "older_revision",
    "revision_conflict",
    "second_approver_missing",
    "stripped",
    "unknown_key",
    "unsigned",
]


@pytest.fixture(scope="module")
def installation(
    kafka: str, module_prefix: str, tmp_path_factory: pytest.TempPathFactory
) -> TestInstallation:
    """One installation for all tests that leave its policy alone: each has sessions of its own."""
    return retrieval_installation(kafka, tmp_path_factory.mktemp("reading"), module_prefix.rstrip("."))


@pytest.fixture(scope="module")
def worker(installation: TestInstallation) -> Iterator[WorkerProcess]:
    yield from run_worker(installation)


def test_a_request_is_answered_once_with_an_event_for_each_item(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    session = session_in(installation, 0, "once")
    items = [
        item("good"),
        item("old", timestamp=OLD),
        item("unsure", confidence_score=0.1),
        item("untraced", provenance_uri="https://load.example/elsewhere"),
        item(quality_policy.BAD_ITEM),
        item("attack", body=f"please {neutral_policy.ATTACK}"),
    ]
    publish(installation, [retrieval(session, "r-1", *items, traceId="t-1")], RETRIEVALS)
    (answer,) = serve(installation, session, 1, worker)
    ServedRetrieval.model_validate(answer)
    decided = events(installation, session)
    for one in decided:
        QualityDecision.model_validate(one)
    outcomes = ["pass", "deny", "downgrade", "flag", "deny", "deny"]
    assert [one["outcome"] for one in decided] == outcomes
    assert [one["item_id"] for one in decided] == [one["item_id"] for one in items]
    assert [(one["item_id"], one["body"]) for one in answer["items"]] == [
        ("good", "a price of good"),
        ("unsure", None),
        ("untraced", "a price of untraced"),
    ]
    assert [one["item_id"] for one in answer["withheld"]] == ["old", quality_policy.BAD_ITEM, "attack"]
    assert {one["quality_bundle_id"] for one in decided} == {quality_policy.BUNDLE}


def test_an_unreadable_request_is_a_dead_letter_and_its_neighbours_are_answered(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    session = session_in(installation, 1, "bad")
    broken = (session.encode(), b'{"request_id": "r-2", "items": []}')
    publish(installation, [retrieval(session, "r-1"), broken, retrieval(session, "r-3")], RETRIEVALS)
    assert [one["request_id"] for one in serve(installation, session, 2, worker)] == ["r-1", "r-3"]
    assert [one["path"] for one in letters(installation, RETRIEVALS, worker, 1)] == ["$.agent_id"]


async def test_denied_items_are_served_once_when_a_person_approves(
    installation: TestInstallation, worker: WorkerProcess, tmp_path: Path
) -> None:
    session, key = session_in(installation, 6, "asked"), tmp_path / "reviewer.pem"
    key.touch(mode=0o600)
    key.write_bytes(installation.trust.write_pem(REVIEWER))
    asked: dict[str, Any] = {
        "session_id": session,
        "autonomy_tier": "high_privilege",
        "tool_category": quality_policy.CATEGORY,
        "request_id": "r-1",
    }
    options = ClientOptions(topic_prefix=installation.prefix, deadline_s=60)
    async with AsyncGateClient(installation.bootstrap_servers, neutral_policy.AGENT, options) as gate:
        waiting = asyncio.create_task(
            gate.retrieve([item("old", timestamp=OLD)], approval_timeout_s=60, **asked)
        )
        (opened,) = await asyncio.to_thread(wait_for, installation, ESCALATIONS, session, 1, worker)
        said = ("--as", REVIEWER, "--key", str(key), "--justification", "the only price there is", "--yes")
        answer = await asyncio.to_thread(
            CliRunner().invoke,
            cli,
            ["escalations", "approve", opened["escalation_id"], *said],
            env=installation.settings,
        )
        assert answer.exit_code == 0, answer.output
        found = await waiting
        assert [(one["outcome"], one["flags"]["stale"]) for one in found.items] == [("flag", True)]
        assert (await gate.retrieve([item("old", timestamp=OLD)], **asked)).items == ()
    denied, approved, again = await asyncio.to_thread(events, installation, session)
    assert [one["override"] is None for one in (denied, approved, again)] == [True, False, True]
    assert approved["override"]["override_id"] == opened["escalation_id"]


def test_a_report_is_counted_against_the_decisions(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    session = session_in(installation, 2, "told")
    publish(installation, [retrieval(session, "r-1", item("one"), item("two"))], RETRIEVALS)
    serve(installation, session, 1, worker)
    undecided, unregistered = report(session, "r-9", "one"), report(session, "r-1", "one") | {"agent_id": "x"}
    publish(installation, [report(session, "r-1", "one", "three"), undecided, unregistered], REPORTED)
    found = wait_for(installation, SESSION_EVENTS, session, 3, worker)
    assert [(one["reported"], one["covered"], one["uncovered"]) for one in found] == [
        (2, 1, ["three"]),
        (1, 0, ["one"]),
        (1, 0, ["one"]),
    ]
    # The decisions' tier; the agent's registered one; the strictest, as there is neither.
    assert [one["autonomy_tier"] for one in found] == ["bounded", "sandbox", "high_privilege"]


def test_an_escalation_is_opened_for_a_high_impact_denial_alone(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    session = session_in(installation, 3, "pays")
    pays = {"autonomy_tier": "high_privilege", "tool_category": quality_policy.CATEGORY}
    publish(
        installation,
        [retrieval(session, "r-1", item("old", timestamp=OLD), item("good"), **pays)],
        RETRIEVALS,
    )
    (opened,) = wait_for(installation, ESCALATIONS, session, 1, worker)
    assert [one["item_id"] for one in opened["items"]] == ["old"]
    (answer,) = serve(installation, session, 1, worker)
    assert answer["withheld"] == opened["items"]


def test_an_action_is_told_of_the_flags_that_it_does_not_acknowledge(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    session = session_in(installation, 4, "acts")
    publish(installation, [retrieval(session, "r-1", item("unsure", confidence_score=0.1))], RETRIEVALS)
    serve(installation, session, 1, worker)
    publish(installation, [action(session, "a-1"), action(session, "a-2", acknowledged_flags=["unsure"])])
    silent, said = wait_for(installation, VERDICTS, session, 2, worker)
    assert silent["session"]["flags"] == {"acknowledged": [], "outstanding": ["unsure:low_confidence"]}
    assert said["session"]["flags"] == {"acknowledged": ["unsure:low_confidence"], "outstanding": []}


def rerun_all(installation: TestInstallation) -> dict[str, Any]:
    found = CliRunner().invoke(cli, ["rerun", "--all", "--json"], env=installation.settings)
    return dict(json.loads(found.stdout))


def test_every_decision_so_far_comes_out_identical(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    """Of this module's tests: whichever ran before."""
    session = session_in(installation, 5, "again")
    publish(
        installation, [retrieval(session, "r-1", item("a"), item("b", body={"n": [1e20, 2**60]}))], RETRIEVALS
    )
    serve(installation, session, 1, worker)
    every = rerun_all(installation)
    assert every["reruns"] == []
    assert every["by_kind"]["quality_decision"]["identical"] >= 2


def test_a_session_remembers_what_it_read_after_its_worker_was_killed(
    kafka: str, prefix: str, tmp_path: Path
) -> None:
    installation = retrieval_installation(kafka, tmp_path, prefix.rstrip("."))
    session = session_in(installation, 3, "kept")
    doomed = WorkerProcess(installation, "doomed", 0.0)
    try:
        wait_until(lambda: bool(doomed.partitions()), doomed)
        publish(installation, [retrieval(session, "r-1", item("unsure", confidence_score=0.1))], RETRIEVALS)
        serve(installation, session, 1, doomed)
    finally:
        doomed.end_now()
    publish(installation, [report(session, "r-1", "unsure", "other")], REPORTED)
    publish(installation, [retrieval(session, "r-2", item("good"))], RETRIEVALS)
    for successor in run_worker(installation, "successor"):
        (told,) = wait_for(installation, SESSION_EVENTS, session, 1, successor)
        answers = serve(installation, session, 2, successor)
        publish(installation, [action(session, "a-1")])
        (verdict,) = wait_for(installation, VERDICTS, session, 1, successor)
    assert (told["covered"], told["uncovered"]) == (1, ["other"])
    assert [one["request_id"] for one in answers] == ["r-1", "r-2"]
    assert verdict["session"]["flags"]["outstanding"] == ["unsure:low_confidence"]
    assert rerun_all(installation)["reruns"] == []


@pytest.fixture
def changing(kafka: str, prefix: str, tmp_path: Path) -> TestInstallation:
    """An installation whose policy a test may change."""
    return retrieval_installation(kafka, tmp_path, prefix.rstrip("."))


def publish_bundles(installation: TestInstallation, *documents: dict[str, Any]) -> None:
    """Quality bundles, signed by the owner alone."""
    signed = [quality_policy.sign_bundle(installation.trust, one) for one in documents]
    asyncio.run(publish_policy(installation.bootstrap_servers, installation.prefix, signed))


def borderline(session: str, number: int) -> dict[str, Any]:
    """A request of forty items that the two revisions judge differently."""
    items = [item(f"{number}-{place}", confidence_score=BETWEEN) for place in range(40)]
    return retrieval(session, f"r-{number}", *items)


def wait_until_downgraded(
    installation: TestInstallation, session: str, number: int, worker: WorkerProcess
) -> None:
    """Ask again, from this request on, until the newer minimum counts."""
    asked = itertools.count(number)

    def judge_anew() -> bool:
        now = next(asked)
        publish(installation, [borderline(session, now)], RETRIEVALS)
        return bool(serve(installation, session, now + 1, worker)[-1]["items"][0]["outcome"] == "downgrade")

    wait_until(judge_anew, worker)


def test_a_newer_bundle_takes_effect_between_two_requests_and_never_within_one(
    changing: TestInstallation,
) -> None:
    session = session_in(changing, 0, "judged")
    for worker in run_worker(changing):
        publish(changing, [borderline(session, 0)], RETRIEVALS)
        serve(changing, session, 1, worker)
        publish(changing, [borderline(session, number) for number in range(1, 10)], RETRIEVALS)
        publish_bundles(changing, quality(2))
        wait_until_downgraded(changing, session, 10, worker)
    by_request: dict[str, set[tuple[str, str]]] = {}
    for one in events(changing, session):
        by_request.setdefault(one["request_id"], set()).add((one["quality_bundle_hash"], one["outcome"]))
    assert {len(found) for found in by_request.values()} == {1}
    both = {next(iter(found)) for found in by_request.values()}
    assert sorted(outcome for _, outcome in both) == ["downgrade", "pass"]
    assert len({bundle for bundle, _ in both}) == 2
    assert rerun_all(changing)["reruns"] == []


def test_a_bundle_that_may_not_count_is_a_dead_letter_and_the_one_in_force_stays(
    changing: TestInstallation,
) -> None:
    session, stranger = session_in(changing, 0, "kept"), ThrowawayTrust()
    publish_bundles(changing, quality(3))
    topic, key, value = quality_policy.sign_bundle(changing.trust, quality(4))
    unsigned = {**json.loads(value), "signatures": []}
    bad = [
        quality_policy.sign_bundle(changing.trust, quality_policy.make_failing(4)),
        quality_policy.sign_bundle(changing.trust, quality_policy.document(4, lowest=0.1)),
        quality_policy.sign_bundle(changing.trust, quality(2)),
        quality_policy.sign_bundle(changing.trust, quality(1, description="slipped in for the first")),
        quality_policy.sign_bundle(stranger, quality(4)),
        (topic, key, json.dumps(unsigned).encode()),
        (topic, key, value[: len(value) // 2]),
    ]
    for worker in run_worker(changing):
        asyncio.run(publish_policy(changing.bootstrap_servers, changing.prefix, bad))
        refused = letters(changing, BUNDLES, worker, len(bad))
        publish(changing, [borderline(session, 0)], RETRIEVALS)
        (answer,) = serve(changing, session, 1, worker)
    assert {one["outcome"] for one in answer["items"]} == {"downgrade"}
    assert sorted(one["code"] for one in refused) == REFUSED
