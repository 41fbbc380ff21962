"""Memories on a real broker: what is kept, what waits, who lets it through, and what time does to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from load.installations import neutral_policy
from sluice.core.state.statistics import KEY_PREFIX
from sluice_topics.catalog import (
    ADMITTED,
    MEMORY_DECISIONS,
    MEMORY_WRITES,
    QUARANTINE,
    REVIEWS,
    SESSION_EVENTS,
    SESSIONS_CHANGELOG,
    VERDICTS,
)
from sluice_topics.records import AdmittedMemory, MemoryDecision
from tests.kafka.installation import (
    action,
    publish,
    read_stored,
    records,
    run_worker,
    select_session,
    wait_for,
    wait_until,
)
from tests.kafka.memories import (
    HASTY_AGENT,
    HASTY_MS,
    MEMORY_TOPIC,
    REVIEWER,
    MemoryInstallation,
    digest,
    make_held_write,
    memory_installation,
    review,
    session_in,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from load.installations.worker_process import WorkerProcess

CAP = 3
pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def made(kafka: str, module_prefix: str, tmp_path_factory: pytest.TempPathFactory) -> MemoryInstallation:
    """One installation for all tests here: each has a partition of its own, so that none fills another's."""
    settings = {"SLUICE_MEMORY__MAX_QUARANTINE_SIZE": str(CAP), "SLUICE_WORKER__TIMER_INTERVAL_S": "0.2"}
    return memory_installation(
        kafka, tmp_path_factory.mktemp("memory"), module_prefix.rstrip("."), **settings
    )


@pytest.fixture(scope="module")
def worker(made: MemoryInstallation) -> Iterator[WorkerProcess]:
    yield from run_worker(made.installation)


def test_writes_are_decided_beside_the_actions_of_their_session(
    made: MemoryInstallation, worker: WorkerProcess
) -> None:
    installation, session = made.installation, session_in(made.installation, 0)
    publish(installation, [action(session, "a-1")])
    kept, waits = write(session, "kept"), make_held_write(session, "waits")
    incomplete = {**write(session, "bare"), "timestamp": None, "provenance_uri": "memory://bare"}
    publish(installation, [kept, waits, incomplete, kept], MEMORY_WRITES)
    decided = wait_for(installation, MEMORY_DECISIONS, session, 4, worker)
    allowed, held, rejected, repeat = map(MemoryDecision.model_validate, decided)
    assert (allowed.action, allowed.reason, allowed.tenant_id) == ("allow", "trusted", neutral_policy.TENANT)
    assert (held.action, held.reason, held.review_after_ms) == ("quarantine", "unknown_parent", 3_600_000)
    assert (rejected.action, rejected.reason) == ("reject", "quality_metadata: timestamp, provenance_uri")
    assert (repeat.duplicate_of, repeat.action) == (allowed.memory_id, "allow")
    (released,) = records(installation, ADMITTED, session)
    assert AdmittedMemory.model_validate(released).content == kept["content"]
    assert (released["how"], released["content_digest"]) == ("allowed", digest(kept["content"]))
    (verdict,) = select_session(wait_for(installation, VERDICTS, session, 1, worker), session)
    assert verdict["outcome"] == "ALLOW"


def test_a_signed_review_releases_or_discards_a_memory_exactly_once(
    made: MemoryInstallation, worker: WorkerProcess
) -> None:
    installation, session = made.installation, session_in(made.installation, 1)
    publish(installation, [make_held_write(session, "good"), make_held_write(session, "bad")], MEMORY_WRITES)
    good, bad = wait_for(installation, QUARANTINE, session, 2, worker)
    approval = review(made, good, "approve")
    reviews = [
        {**approval, "justification": "altered after it was signed"},
        review(made, good, "approve", digest=digest("something else")),
        approval,
        approval,
        review(made, bad, "reject"),
        review(made, bad, "approve"),
    ]
    publish(installation, reviews, REVIEWS)
    refused = [one["reason"] for one in wait_for(installation, SESSION_EVENTS, session, 4, worker)]
    assert refused == ["wrong_signature", "wrong_digest", "unknown_subject", "unknown_subject"]
    ended = wait_for(installation, QUARANTINE, session, 4, worker)[2:]
    assert [(one["schema"].split("/")[1], one["memory_id"]) for one in ended] == [
        ("quarantine_approved", good["memory_id"]),
        ("quarantine_rejected", bad["memory_id"]),
    ]
    assert (ended[0]["approver_id"], ended[0]["approver_entry"]) == (REVIEWER, f"approver/{REVIEWER}@1")
    (released,) = records(installation, ADMITTED, session)
    assert (released["memory_id"], released["how"], released["approver_id"]) == (
        good["memory_id"],
        "approved",
        REVIEWER,
    )
    assert digest(released["content"]) == good["content_digest"]


def test_a_memory_that_nobody_reviews_expires_at_its_time_and_a_late_review_changes_nothing(
    made: MemoryInstallation, worker: WorkerProcess
) -> None:
    installation, session = made.installation, session_in(made.installation, 2)
    publish(installation, [make_held_write(session, "w", agent_id=HASTY_AGENT)], MEMORY_WRITES)
    entered, expired = wait_for(installation, QUARANTINE, session, 2, worker)
    assert (entered["reviewAfterMs"], expired["schema"]) == (HASTY_MS, "sluice/quarantine_expired/v1")
    assert expired["entered_at"] == entered["decided_at"] < entered["expires_at"] == expired["expires_at"]
    assert expired["decided_at"] >= entered["expires_at"]
    publish(installation, [review(made, entered, "approve")], REVIEWS)
    (refused,) = wait_for(installation, SESSION_EVENTS, session, 1, worker)
    assert refused["reason"] == "unknown_subject"
    assert records(installation, ADMITTED, session) == []


def test_a_full_quarantine_discards_its_oldest(made: MemoryInstallation, worker: WorkerProcess) -> None:
    installation, session = made.installation, session_in(made.installation, 3)
    publish(
        installation, [make_held_write(session, f"w{number}") for number in range(CAP + 1)], MEMORY_WRITES
    )
    events = wait_for(installation, QUARANTINE, session, CAP + 2, worker)
    kinds = [one["schema"].split("/")[1] for one in events]
    assert kinds == ["quarantine_entered"] * CAP + ["quarantine_evicted", "quarantine_entered"]
    first, evicted, last = events[0], events[-2], events[-1]
    assert (evicted["memory_id"], evicted["by"]) == (first["memory_id"], last["memory_id"])
    publish(installation, [review(made, first, "approve")], REVIEWS)
    (refused,) = wait_for(installation, SESSION_EVENTS, session, 1, worker)
    assert refused["reason"] == "unknown_subject"


def test_what_reviewers_say_of_a_source_reaches_sessions_of_other_partitions(
    made: MemoryInstallation, worker: WorkerProcess
) -> None:
    installation, session, elsewhere = (
        made.installation,
        session_in(made.installation, 4),
        session_in(made.installation, 5),
    )
    feed = {"id": "feed", "type": "external"}
    publish(installation, [make_held_write(session, f"w{n}", source=feed) for n in range(3)], MEMORY_WRITES)
    entered = wait_for(installation, QUARANTINE, session, 3, worker)
    publish(installation, [review(made, one, "approve") for one in entered], REVIEWS)
    wait_for(installation, QUARANTINE, session, 6, worker)

    def decide() -> dict[str, Any]:
        known = len(records(installation, MEMORY_DECISIONS, elsewhere))
        claimed = write(elsewhere, f"w{known}", source={"id": "feed", "type": "system"})
        publish(installation, [claimed], MEMORY_WRITES)
        return wait_for(installation, MEMORY_DECISIONS, elsewhere, known + 1, worker)[known]

    wait_until(lambda: decide()["seen"]["source"]["revision"] == 4, worker)
    last = decide()
    seen = last["seen"]["source"]
    assert (seen["type"], seen["positive"], seen["negative"]) == ("external", 3, 0)
    # h = 5/7, w = 3/13: 0.714286 x 0.230769 + 0.4 x 0.769231 = 0.472527; 0.2 for the claimed type
    assert last["trustScore"]["dimensions"]["sourceReliability"] == 0.272527


def test_the_statistics_of_the_partitions_are_those_that_the_ledger_gives(
    made: MemoryInstallation, worker: WorkerProcess
) -> None:
    installation, session = made.installation, session_in(made.installation, 6)
    writes = [write(session, "w0"), make_held_write(session, "w1"), write(session, "w2", content_class=None)]
    publish(installation, [*writes, writes[0], write(session, "w3", agent_id="nobody")], MEMORY_WRITES)
    wait_for(installation, MEMORY_DECISIONS, session, 5, worker)
    expected = {
        (neutral_policy.TENANT, neutral_policy.AGENT): [3, 1, 1, 1, 1],
        ("unregistered", ""): [1, 0, 0, 1, 0],
    }
    assert _count(installation_counts(made, 6)) == expected


def installation_counts(made: MemoryInstallation, partition: int) -> dict[bytes, Any]:
    """The newest statistics that a partition has written, by key."""
    return {
        record.key: orjson.loads(record.value or b"null")
        for record in read_stored(made.installation, SESSIONS_CHANGELOG)
        if record.partition == partition and (record.key or b"").startswith(KEY_PREFIX)
        if record.key is not None
    }


def _count(entries: dict[bytes, Any]) -> dict[tuple[str, str], list[int]]:
    return {tuple(orjson.loads(key[len(KEY_PREFIX) :])): counts for key, counts in entries.items()}


def test_a_memory_is_named_by_where_its_write_lies(made: MemoryInstallation, worker: WorkerProcess) -> None:
    installation, session = made.installation, session_in(made.installation, 7)
    (sent,) = publish(installation, [write(session, "w")], MEMORY_WRITES)
    (decided,) = wait_for(installation, MEMORY_DECISIONS, session, 1, worker)
    assert decided["memory_id"] == f"memory:{MEMORY_TOPIC}:{sent.partition}:{sent.offset}"
