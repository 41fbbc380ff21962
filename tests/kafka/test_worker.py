"""What an agent and a consumer of verdicts can rely on, seen on a real broker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from app.broker.single_node import free_ports
from app.stream.process import EXIT_FAULT
from app.verifier.located import Located
from app.verifier.verify import verify
from load.sites import policy
from load.sites.process import WorkerProcess
from tests.kafka.installation import (
    action,
    of_session,
    publish,
    publish_to,
    running,
    site_on,
    stored,
    until,
    written,
)
from topics.catalog import ALARMS, CATALOG, DEAD_LETTERS, OUTCOMES, SESSION_EVENTS, VERDICTS
from topics.records import SessionFolded, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from app.broker.handle import Broker
    from load.sites.site import Site

LEDGER = [topic.name for topic in CATALOG if topic.ledger]
pytestmark = pytest.mark.kafka


@pytest.fixture
def site(kafka: str, prefix: str, tmp_path: Path) -> Site:
    return site_on(kafka, tmp_path, prefix.rstrip("."))


@pytest.fixture
def worker(site: Site) -> Iterator[WorkerProcess]:
    yield from running(site, slow_s=3.0)


def test_a_proposed_action_gets_a_verdict_that_counts_its_rows(site: Site, worker: WorkerProcess) -> None:
    publish(site, [action("s", "a-1", rows_affected=10), action("s", "a-2", rows_affected=5)])
    first, second = map(Verdict.model_validate, written(site, VERDICTS, 2, worker))
    assert (first.verdict, first.outcome, first.tenant_id) == ("allowed", "ALLOW", policy.TENANT)
    assert first.session.after.aggregate_rows_affected == 10
    assert second.session.before.aggregate_rows_affected == 10
    assert second.session.after.aggregate_rows_affected == 15


def test_a_repeated_id_is_answered_alike_and_another_action_under_it_is_denied(
    site: Site, worker: WorkerProcess
) -> None:
    publish(site, [action("s", "a-1"), action("s", "a-1"), action("s", "a-1", rows_affected=99)])
    first, repeat, other = written(site, VERDICTS, 3, worker)
    assert repeat["duplicate_of"] == first["verdict_id"]
    assert repeat["outcome"] == first["outcome"]
    assert (other["verdict"], other["blockReason"].split(":")[0]) == ("denied", "action_id_conflict")
    assert other["session"]["after"] == first["session"]["after"]


def test_an_unreadable_input_is_a_dead_letter_with_the_place_and_its_neighbours_are_decided(
    site: Site, worker: WorkerProcess
) -> None:
    broken = b'{"action_id": "a-2", "parameters": {"rows": [1, NaN]}}'
    publish(site, [action("s", "a-1"), (b"s", broken), action("s", "a-3")])
    assert [v["action_id"] for v in written(site, VERDICTS, 2, worker)] == ["a-1", "a-3"]
    (letter,) = written(site, DEAD_LETTERS, 1, worker)
    assert (letter["code"], letter["path"]) == ("not_finite", "$.parameters.rows[1]")


def test_headers_without_a_value_do_no_harm(site: Site, worker: WorkerProcess) -> None:
    publish(site, [action("s", "a-1")], headers=[("traceparent", None), ("x", b"\xff")])
    assert [v["action_id"] for v in written(site, VERDICTS, 1, worker)] == ["a-1"]


def test_a_session_cannot_spread_over_partitions_to_evade_its_totals(
    site: Site, worker: WorkerProcess
) -> None:
    (home,) = publish(site, [action("s", "a-1")])
    publish_to(site, (home.partition + 1) % site.partitions, action("s", "a-2"))
    publish(site, [(b"another key", json.dumps(action("s", "a-3")).encode())])
    codes = {letter["code"] for letter in written(site, DEAD_LETTERS, 2, worker)}
    assert codes == {"wrong_partition", "key_mismatch"}
    assert [v["action_id"] for v in written(site, VERDICTS, 1, worker)] == ["a-1"]


def test_a_slow_session_keeps_its_order_and_holds_up_no_other(site: Site, worker: WorkerProcess) -> None:
    others = [action(f"other-{number}", "a-1") for number in range(40)]
    publish(site, [action("slow", "a-1", parameters={"slow": True}), action("slow", "a-2"), *others])
    assert not of_session(written(site, VERDICTS, 40, worker), "slow")
    answered = of_session(written(site, VERDICTS, 42, worker), "slow")
    assert [verdict["action_id"] for verdict in answered] == ["a-1", "a-2"]
    assert answered[1]["session"]["before"]["aggregateRowsAffected"] == 10


def test_an_outcome_settles_what_its_action_reserved_also_when_it_comes_first(
    site: Site, worker: WorkerProcess
) -> None:
    def outcome(action_id: str, rows: int) -> dict[str, object]:
        return {"action_id": action_id, "session_id": "s", "rows_affected": rows, "reported_by": "load-agent"}

    publish(site, [outcome("early", 18)], OUTCOMES)
    until(lambda: bool(stored(site, "sessions-changelog")), worker)
    publish(site, [action("s", "early", rows_affected=10), action("s", "late", rows_affected=10)])
    written(site, VERDICTS, 2, worker)
    publish(site, [outcome("late", 15)], OUTCOMES)
    settled = {event["action_id"]: event for event in written(site, SESSION_EVENTS, 2, worker)}
    assert (settled["early"]["early"], settled["early"]["actual"]) == (True, 18)
    assert settled["late"]["aggregateRowsAffected"] == 33


def test_a_restarted_worker_goes_on_where_the_last_one_stopped(site: Site) -> None:
    for life, ids in enumerate((["a-1", "a-2"], ["a-3"])):
        for process in running(site, f"life-{life}"):
            publish(site, [action("s", one) for one in ids])
            written(site, VERDICTS, 2 + life, process)
    verdicts = [json.loads(record.value or b"") for record in stored(site, VERDICTS)]
    assert [v["action_id"] for v in verdicts] == ["a-1", "a-2", "a-3"]
    assert [v["sequence"] for v in verdicts] == [1, 2, 3]
    assert verdicts[2]["session"]["before"]["aggregateRowsAffected"] == 20


def test_an_idle_session_folds_away_through_the_ledger(kafka: str, prefix: str, tmp_path: Path) -> None:
    settings = {"SLUICE_SESSION__ACTION_WINDOW_S": "2", "SLUICE_SESSION__IDLE_TIMEOUT_S": "3"}
    site = site_on(kafka, tmp_path, prefix.rstrip("."), **settings)
    for process in running(site):
        publish(site, [action("s", "a-1")])
        (folded,) = map(SessionFolded.model_validate, written(site, SESSION_EVENTS, 1, process))
        assert folded.tenants[policy.TENANT].aggregate_rows_affected == 10
        publish(site, [action("s", "a-1")])
        again = written(site, VERDICTS, 2, process)[1]
        assert again["duplicate_of"] is None
        assert again["session"]["before"]["aggregateRowsAffected"] == 0


def test_everything_a_worker_writes_is_one_intact_chain_a_partition(
    site: Site, worker: WorkerProcess
) -> None:
    publish(site, [action(f"s-{n % 7}", f"a-{n}") for n in range(60)] + [(b"s-1", b"{")])
    written(site, VERDICTS, 60, worker)
    written(site, DEAD_LETTERS, 1, worker)
    records = [record for base in LEDGER for record in stored(site, base)]
    report = verify(Located(r.topic, r.partition, r.offset, r.key, r.value) for r in records)
    assert report.intact
    alarms = len(stored(site, ALARMS))  # of a class that has been in flag-only for years
    assert report.records == 60 + 1 + alarms


def test_a_worker_names_the_topic_that_is_missing_and_how_to_mend_it(
    kafka: str, prefix: str, tmp_path: Path
) -> None:
    site = site_on(kafka, tmp_path, prefix.rstrip("."), SLUICE_KAFKA__TOPIC_PREFIX=f"{prefix}absent.")
    command = [sys.executable, "-m", "app", "worker"]
    refused = subprocess.run(
        command, env=os.environ | site.settings, capture_output=True, text=True, timeout=60, check=False
    )
    assert refused.returncode == 2
    assert f"{prefix}absent.gate.actions.proposed" in refused.stderr
    assert "sluice topics create" in refused.stderr


def test_a_worker_that_starts_while_the_broker_is_away_waits_for_it(
    own_broker: Broker, prefix: str, tmp_path: Path
) -> None:
    site = site_on(own_broker.bootstrap_servers, tmp_path, prefix.rstrip("."))
    own_broker.stop()
    worker = WorkerProcess(site, "early", 0.0)
    try:
        until(lambda: b"waiting for the broker" in worker.log.read_bytes(), worker)
        own_broker.start()
        until(lambda: bool(worker.partitions()), worker)
    finally:
        status = worker.end(20.0)
    assert status == 0, worker.last_words()


def test_a_worker_that_waited_in_vain_ends_as_after_any_broker_fault(
    kafka: str, prefix: str, tmp_path: Path
) -> None:
    site = site_on(kafka, tmp_path, prefix.rstrip("."))
    (nobody,) = free_ports(1)
    away = {"SLUICE_KAFKA__BOOTSTRAP_SERVERS": f"127.0.0.1:{nobody}", "SLUICE_WORKER__BROKER_WAIT_S": "0.1"}
    command = [sys.executable, "-m", "app", "worker"]
    ended = subprocess.run(
        command,
        env=os.environ | site.settings | away,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == EXIT_FAULT
    assert "the broker does not answer" in ended.stderr
