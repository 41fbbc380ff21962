"""What an agent and a consumer of verdicts can rely on, seen on a real broker."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from load.installations import neutral_policy
from load.installations.worker_process import WorkerProcess
from sluice.broker.handle import find_free_ports
from sluice.stream.process import EXIT_FAULT
from sluice.verifier.export import Located
from sluice.verifier.verify import verify
from sluice_topics.catalog import (
    ACTIONS,
    ALARMS,
    CATALOG,
    DEAD_LETTERS,
    OUTCOMES,
    SESSION_EVENTS,
    SESSIONS_CHANGELOG,
    VERDICTS,
)
from sluice_topics.records import SessionFolded, Verdict
from tests.kafka.installation import (
    END_S,
    action,
    installation_on,
    make_small_installation,
    publish,
    publish_to,
    read_stored,
    records,
    run_worker,
    wait_for,
    wait_until,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from load.installations.installation import TestInstallation
    from sluice.adapters.kafka.kafka_read import StoredRecord
    from sluice.broker.handle import Broker

LEDGER = [topic.name for topic in CATALOG if topic.ledger]
pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def installation(
    kafka: str, module_prefix: str, tmp_path_factory: pytest.TempPathFactory
) -> TestInstallation:
    """One for all tests that need nothing else of a worker: each has sessions of its own."""
    return installation_on(kafka, tmp_path_factory.mktemp("worker"), module_prefix.rstrip("."))


@pytest.fixture(scope="module")
def worker(installation: TestInstallation) -> Iterator[WorkerProcess]:
    yield from run_worker(installation)


def letters(
    installation: TestInstallation, worker: WorkerProcess, count: int, *keys: str
) -> list[dict[str, Any]]:
    """The dead letters of inputs with these keys, once there are so many."""
    wanted = {base64.b64encode(key.encode()).decode() for key in keys}
    found: list[dict[str, Any]] = []

    def enough() -> bool:
        every = [json.loads(record.value or b"null") for record in read_stored(installation, DEAD_LETTERS)]
        found[:] = [letter for letter in every if letter["key"] in wanted]
        return len(found) >= count

    wait_until(enough, worker)
    return found


def test_a_proposed_action_gets_a_verdict_that_counts_its_rows(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    session = "counted"
    publish(installation, [action(session, "a-1", rows_affected=10), action(session, "a-2", rows_affected=5)])
    first, second = map(Verdict.model_validate, wait_for(installation, VERDICTS, session, 2, worker))
    assert (first.verdict, first.outcome, first.tenant_id) == ("allowed", "ALLOW", neutral_policy.TENANT)
    assert first.session.after.aggregate_rows_affected == 10
    assert second.session.before.aggregate_rows_affected == 10
    assert second.session.after.aggregate_rows_affected == 15


def test_a_repeated_id_is_answered_alike_and_another_action_under_it_is_denied(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    session = "repeated"
    again = [action(session, "a-1"), action(session, "a-1"), action(session, "a-1", rows_affected=99)]
    publish(installation, again)
    first, repeat, other = wait_for(installation, VERDICTS, session, 3, worker)
    assert repeat["duplicate_of"] == first["verdict_id"]
    assert repeat["outcome"] == first["outcome"]
    assert (other["verdict"], other["blockReason"].split(":")[0]) == ("denied", "action_id_conflict")
    assert other["session"]["after"] == first["session"]["after"]


def test_an_unreadable_input_is_a_dead_letter_with_the_place_and_its_neighbours_are_decided(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    session = "broken"
    broken = b'{"action_id": "a-2", "parameters": {"rows": [1, NaN]}}'
    publish(installation, [action(session, "a-1"), (session.encode(), broken), action(session, "a-3")])
    decided = wait_for(installation, VERDICTS, session, 2, worker)
    assert [v["action_id"] for v in decided] == ["a-1", "a-3"]
    (letter,) = letters(installation, worker, 1, session)
    assert (letter["code"], letter["path"]) == ("not_finite", "$.parameters.rows[1]")


SEED_000 = b"""{
  "proposed_action": { "action": "...", "value": {} },
  "policy_bundle_id": "finance.recon.v0",
  "mode": "high_stakes"
}"""


def test_seed_000s_payload_is_decided_as_it_is_printed(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    """Mend 22.17: the session is the message's key, the agent is in the header that HTTP has too, and the
    place names the action."""
    session, agent = "as-printed", [("X-Mnemom-Agent", neutral_policy.AGENT.encode())]
    known = {"proposed_action": {"action": neutral_policy.READ_TOOL, "value": {}}, "mode": "high_stakes"}
    both = [(session.encode(), SEED_000), (session.encode(), json.dumps(known).encode())]
    sent = publish(installation, both, headers=agent)
    printed, allowed = wait_for(installation, VERDICTS, session, 2, worker)
    for place, verdict in zip(sent, (printed, allowed), strict=True):
        assert verdict["action_id"] == f"{ACTIONS}:{place.partition}:{place.offset}"
        assert (verdict["agent_id"], verdict["session_id"]) == (neutral_policy.AGENT, session)
    assert (printed["verdict"], printed["mode"]) == ("denied", "high_stakes"), "no such tool, no such bundle"
    assert allowed["verdict"] == "allowed"


def test_seed_000s_payload_without_an_agent_is_a_dead_letter(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    """Mend 22.17: as HTTP refuses it."""
    publish(installation, [(b"nobody", SEED_000)])
    (letter,) = letters(installation, worker, 1, "nobody")
    assert (letter["code"], letter["path"]) == ("missing_field", "$.agent_id")


def test_headers_without_a_value_do_no_harm(installation: TestInstallation, worker: WorkerProcess) -> None:
    publish(installation, [action("headers", "a-1")], headers=[("traceparent", None), ("x", b"\xff")])
    assert [v["action_id"] for v in wait_for(installation, VERDICTS, "headers", 1, worker)] == ["a-1"]


def test_a_session_cannot_spread_over_partitions_to_evade_its_totals(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    session, key = "spread", "another key"
    (home,) = publish(installation, [action(session, "a-1")])
    publish_to(installation, (home.partition + 1) % installation.partitions, action(session, "a-2"))
    publish(installation, [(key.encode(), json.dumps(action(session, "a-3")).encode())])
    codes = {letter["code"] for letter in letters(installation, worker, 2, session, key)}
    assert codes == {"wrong_partition", "key_mismatch"}
    assert [v["action_id"] for v in wait_for(installation, VERDICTS, session, 1, worker)] == ["a-1"]


def test_a_slow_session_keeps_its_order_and_holds_up_no_other(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    others = [f"other-{number}" for number in range(40)]
    worker.withhold()
    slow = [action("slow", "a-1", parameters={"slow": True}), action("slow", "a-2")]
    publish(installation, [*slow, *(action(other, "a-1") for other in others)])
    wait_for(installation, VERDICTS, others, 40, worker)
    assert records(installation, VERDICTS, "slow") == []
    worker.answer()
    answered = wait_for(installation, VERDICTS, "slow", 2, worker)
    assert [verdict["action_id"] for verdict in answered] == ["a-1", "a-2"]
    assert answered[1]["session"]["before"]["aggregateRowsAffected"] == 10


def test_an_outcome_settles_what_its_action_reserved_also_when_it_comes_first(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    session = "settled"

    def outcome(action_id: str, rows: int) -> dict[str, object]:
        by = {"reported_by": "load-agent"}
        return {"action_id": action_id, "session_id": session, "rows_affected": rows, **by}

    publish(installation, [outcome("early", 18)], OUTCOMES)
    wait_until(
        lambda: any(record.key == b"s:settled" for record in read_stored(installation, SESSIONS_CHANGELOG)),
        worker,
    )
    publish(
        installation, [action(session, "early", rows_affected=10), action(session, "late", rows_affected=10)]
    )
    wait_for(installation, VERDICTS, session, 2, worker)
    publish(installation, [outcome("late", 15)], OUTCOMES)
    settled = {
        event["action_id"]: event for event in wait_for(installation, SESSION_EVENTS, session, 2, worker)
    }
    assert (settled["early"]["early"], settled["early"]["actual"]) == (True, 18)
    assert settled["late"]["aggregateRowsAffected"] == 33


def test_everything_a_worker_writes_is_one_intact_chain_a_partition(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    def ledger() -> list[StoredRecord]:
        return [record for base in LEDGER for record in read_stored(installation, base)]

    def alarms_in(records: list[StoredRecord]) -> int:
        """One class has been in flag-only for years, which the worker tells when it comes to it."""
        return sum(record.topic == installation.real(ALARMS) for record in records)

    sessions = [f"chain-{number}" for number in range(7)]
    found = ledger()
    before = len(found) - alarms_in(found)
    publish(
        installation, [action(sessions[n % 7], f"a-{n}") for n in range(60)] + [(sessions[1].encode(), b"{")]
    )
    wait_for(installation, VERDICTS, sessions, 60, worker)
    letters(installation, worker, 1, *sessions)
    records = ledger()
    report = verify(Located(r.topic, r.partition, r.offset, r.key, r.value) for r in records)
    assert report.intact
    assert report.records == before + 60 + 1 + alarms_in(records)


def test_a_restarted_worker_goes_on_where_the_last_one_stopped(
    kafka: str, prefix: str, tmp_path: Path
) -> None:
    """With its totals, the number in its chain, and what a gate remembers of the agent."""
    stages = (*neutral_policy.STAGES[:-1], "sequence", neutral_policy.STAGES[-1])
    installation = make_small_installation(kafka, tmp_path, prefix.rstrip("."), stages)
    purge = {"toolName": neutral_policy.PURGE_TOOL}
    for life, sent in enumerate(([action("s", "a-1"), action("s", "a-2")], [action("s", "a-3", **purge)])):
        for process in run_worker(installation, f"life-{life}"):
            publish(installation, sent)
            write(installation, VERDICTS, 2 + life, process)
    verdicts = [json.loads(record.value or b"") for record in read_stored(installation, VERDICTS)]
    assert [v["action_id"] for v in verdicts] == ["a-1", "a-2", "a-3"]
    assert [v["sequence"] for v in verdicts] == [2, 3, 5]  # each life begins with the policy in force
    assert verdicts[2]["session"]["before"]["aggregateRowsAffected"] == 20
    assert verdicts[2]["blockReason"].startswith("forbidden_sequence: read-then-purge")
    ((_, first, _),) = verdicts[2]["session"]["remembered"]["sequence"]["firsts"]["read-then-purge"]
    assert first == "a-2"


def test_an_idle_session_folds_away_through_the_ledger(kafka: str, prefix: str, tmp_path: Path) -> None:
    settings = {"SLUICE_SESSION__ACTION_WINDOW_S": "2", "SLUICE_SESSION__IDLE_TIMEOUT_S": "3"}
    installation = make_small_installation(kafka, tmp_path, prefix.rstrip("."), **settings)
    for process in run_worker(installation):
        publish(installation, [action("s", "a-1")])
        (folded,) = map(SessionFolded.model_validate, write(installation, SESSION_EVENTS, 1, process))
        assert folded.tenants[neutral_policy.TENANT].aggregate_rows_affected == 10
        publish(installation, [action("s", "a-1")])
        again = write(installation, VERDICTS, 2, process)[1]
        assert again["duplicate_of"] is None
        assert again["session"]["before"]["aggregateRowsAffected"] == 0


def test_a_worker_names_the_topic_that_is_missing_and_how_to_mend_it(
    installation: TestInstallation, prefix: str
) -> None:
    refused = sluice_worker(installation, SLUICE_KAFKA__TOPIC_PREFIX=f"{prefix}absent.")
    assert refused.returncode == 2
    assert f"{prefix}absent.gate.actions.proposed" in refused.stderr
    assert "sluice topics create" in refused.stderr


def test_a_worker_that_starts_while_the_broker_is_away_waits_for_it(
    own_broker: Broker, prefix: str, tmp_path: Path
) -> None:
    installation = make_small_installation(own_broker.bootstrap_servers, tmp_path, prefix.rstrip("."))
    own_broker.stop()
    worker = WorkerProcess(installation, "early", 0.0)
    try:
        wait_until(lambda: b"waiting for the broker" in worker.log.read_bytes(), worker)
        own_broker.start()
        wait_until(lambda: bool(worker.partitions()), worker)
    finally:
        status = worker.end(END_S)
    assert status == 0, worker.last_words()


def test_a_worker_that_waited_in_vain_ends_as_after_any_broker_fault(installation: TestInstallation) -> None:
    (nobody,) = find_free_ports(1)
    away = {"SLUICE_KAFKA__BOOTSTRAP_SERVERS": f"127.0.0.1:{nobody}", "SLUICE_WORKER__BROKER_WAIT_S": "0.1"}
    ended = sluice_worker(installation, **away)
    assert ended.returncode == EXIT_FAULT
    assert "the broker does not answer" in ended.stderr


def sluice_worker(installation: TestInstallation, **changed: str) -> subprocess.CompletedProcess[str]:
    """The command itself under the installation's settings, some of them changed; it has to end."""
    command = [sys.executable, "-m", "sluice", "worker"]
    given = os.environ | installation.settings | changed
    return subprocess.run(command, env=given, capture_output=True, text=True, timeout=60, check=False)
