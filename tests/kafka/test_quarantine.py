"""`sluice quarantine` against a real broker and a real worker, as a reviewer uses it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from typer.testing import CliRunner, Result

from load.installations import neutral_policy
from sluice.cli.main import cli
from sluice.cli.policy.key_files import make_private_key
from sluice.core.foundation.canonical import canonical
from sluice.core.trust.dsse import sign
from sluice.core.trust.signed_entries import PAYLOAD_TYPES
from sluice_demo.throwaway_trust import publish_policy
from sluice_topics.catalog import ADMITTED, MEMORY_DECISIONS, MEMORY_WRITES, QUARANTINE, REGISTRY
from tests.kafka import memories
from tests.kafka.installation import publish, publish_to, run_worker, wait_for
from tests.unit.records import ledger_records

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from load.installations.installation import TestInstallation
    from load.installations.worker_process import WorkerProcess

pytestmark = pytest.mark.kafka

DAVE = "dave"
PATIENCE_MS = 3_600_000
HIDDEN = "The invoice is due in \u202eMay\u202c.\u200b"
WELL, REFUSED, IMPOSSIBLE = 0, 1, 2


def installation_with_dave(kafka: str, folder: Path, prefix: str) -> TestInstallation:
    """An installation with one more reviewer, whose private key is a file, and time to review."""
    installation = memories.memory_installation(kafka, folder, prefix.rstrip(".")).installation
    spec = {"public_key": make_private_key(folder / "dave.pem").public.text, "roles": ["reviewer"]}
    entry = {"kind": "approver", "id": DAVE, "revision": 1, "spec": spec}
    signed = sign(PAYLOAD_TYPES[REGISTRY], orjson.dumps(entry), [installation.trust.root]).encode()
    bundle = orjson.dumps(
        {**neutral_policy.bundle(revision=2), "memory": {"quarantineReviewMs": PATIENCE_MS}}
    )
    records = [(REGISTRY, f"approver/{DAVE}@1".encode(), signed), installation.trust.sign_bundle(bundle)]
    asyncio.run(publish_policy(kafka, installation.prefix, records))
    return installation


@pytest.fixture(scope="module")
def installation(
    kafka: str, module_prefix: str, tmp_path_factory: pytest.TempPathFactory
) -> TestInstallation:
    """Shared by the tests here, which keep apart by their sessions."""
    return installation_with_dave(kafka, tmp_path_factory.mktemp("quarantine"), module_prefix)


@pytest.fixture(scope="module")
def worker(installation: TestInstallation) -> Iterator[WorkerProcess]:
    yield from run_worker(installation)


@pytest.fixture
def idle_installation(kafka: str, prefix: str, tmp_path: Path) -> TestInstallation:
    """Nobody decides here."""
    return installation_with_dave(kafka, tmp_path, prefix)


def make_held(installation: TestInstallation, worker: WorkerProcess, *sessions: str) -> list[str]:
    """Ids of quarantined memories, one in each session."""
    publish(
        installation,
        [memories.make_held_write(name, "w", content=HIDDEN) for name in sessions],
        MEMORY_WRITES,
    )
    return [wait_for(installation, QUARANTINE, name, 1, worker)[0]["memory_id"] for name in sessions]


def quarantine(installation: TestInstallation, *words: str) -> Result:
    return CliRunner().invoke(cli, ["quarantine", *words], env=installation.settings)


def review(
    installation: TestInstallation, memory: str, decision: str, *more: str, reviewer: str = DAVE
) -> Result:
    key = str(installation.folder / "dave.pem")
    words = ("--as", reviewer, "--key", key, "--justification", "read and checked", "--yes", *more)
    return quarantine(installation, "review", memory, decision, *words)


def list_ids(installation: TestInstallation, *words: str) -> list[str]:
    return [one["memory_id"] for one in json.loads(quarantine(installation, "list", "--json", *words).stdout)]


def show_text(installation: TestInstallation, memory: str) -> dict[str, Any]:
    found = quarantine(installation, "show", memory, "--json")
    assert found.exit_code == WELL, found.stderr
    fields: dict[str, Any] = json.loads(found.stdout)
    return fields


def test_a_reviewer_finds_a_held_memory_reads_it_and_lets_it_through(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    (memory,) = make_held(installation, worker, "read")
    assert list_ids(installation, "--session", "read", "--agent", neutral_policy.AGENT) == [memory]
    assert "due in <U+202E>May<U+202C>.<U+200B>" in quarantine(installation, "show", memory).stdout
    approved = review(installation, memory, "approve", "--json")
    assert (approved.exit_code, json.loads(approved.stdout)["outcome"]) == (WELL, "approved")
    assert "due in <U+202E>May" in approved.stderr
    (released,) = wait_for(installation, ADMITTED, "read", 1, worker)
    assert (released["content"], released["approver_id"]) == (HIDDEN, DAVE)
    assert (list_ids(installation, "--session", "read"), show_text(installation, memory)["state"]) == (
        [],
        "approved",
    )
    again = review(installation, memory, "reject")
    assert (again.exit_code, "not held: approved" in again.stderr) == (REFUSED, True)


def test_a_refused_review_says_why_and_leaves_the_memory_where_it_is(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    (memory,) = make_held(installation, worker, "refused")
    refused = review(installation, memory, "approve", reviewer="nobody")
    assert (refused.exit_code, "not_a_reviewer" in refused.stderr) == (REFUSED, True)
    assert list_ids(installation, "--session", "refused") == [memory]


def test_the_statistics_that_workers_keep_are_those_of_the_ledger(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    before = json.loads(quarantine(installation, "stats", "--json").stdout)["overall"]
    first, second, _ = make_held(installation, worker, "count-1", "count-2", "count-3")
    bad = memories.write("count-4", "w", provenance_uri=None)
    publish(installation, [memories.make_held_write("count-1", "w", content=HIDDEN), bad], MEMORY_WRITES)
    wait_for(installation, MEMORY_DECISIONS, "count-4", 1, worker)
    assert review(installation, first, "approve").exit_code == WELL
    assert review(installation, second, "reject").exit_code == WELL
    counted = quarantine(installation, "stats", "--recount", "--by", "agent", "--json")
    found = json.loads(counted.stdout)
    assert (counted.exit_code, found["differences"], found["behind"]) == (WELL, [], [])
    assert found["overall"] == found["recount"]["overall"]
    assert {name: found["overall"][name] - before[name] for name in before} == {
        "totalEvaluated": 4,
        "allowed": 0,
        "quarantined": 3,
        "rejected": 1,
        "currentQuarantineSize": 1,
    }


def lay(installation: TestInstallation, content: str, reviewed: str) -> str:
    """A memory that the ledger says is held, with the digest of `reviewed`; written by no worker."""
    (sent,) = publish(installation, [memories.make_held_write("laid", "w", content=content)], MEMORY_WRITES)
    memory = f"memory:{MEMORY_WRITES}:{sent.partition}:{sent.offset}"
    fields = {"memory_id": memory, "session_id": "laid", "content_digest": memories.digest(reviewed)}
    event = {**ledger_records()["QuarantineEntered"], **fields, "partition": sent.partition}
    publish(installation, [(b"laid", canonical(event))], QUARANTINE)
    return memory


def test_a_review_that_nobody_answers_may_still_count_and_says_so(
    idle_installation: TestInstallation,
) -> None:
    unheard = review(idle_installation, lay(idle_installation, HIDDEN, HIDDEN), "reject", "--wait", "0.5")
    assert (unheard.exit_code, "does a worker run?" in unheard.stderr) == (IMPOSSIBLE, True)


def test_content_that_is_not_what_was_decided_on_is_neither_shown_nor_approved(
    idle_installation: TestInstallation,
) -> None:
    memory = lay(idle_installation, "exchanged", "as it was")
    found = show_text(idle_installation, memory)
    assert (found["state"], found["content"]) == ("waiting", None)
    assert "digest is another" in found["no_content"]
    refused = review(idle_installation, memory, "approve")
    assert (refused.exit_code, "digest is another" in refused.stderr) == (IMPOSSIBLE, True)


def test_a_ledger_that_the_state_does_not_reach_is_no_equal_recount(
    idle_installation: TestInstallation,
) -> None:
    lay(idle_installation, HIDDEN, HIDDEN)
    counted = quarantine(idle_installation, "stats", "--recount", "--json")
    (lost,) = json.loads(counted.stdout)["behind"]
    assert (counted.exit_code, lost["state"], lost["ledger"]) == (REFUSED, 0, 1)


def test_what_is_no_record_of_the_ledger_is_in_no_list_and_a_recount_names_its_place(
    idle_installation: TestInstallation,
) -> None:
    publish_to(idle_installation, 2, {"session_id": "forged"}, QUARANTINE)
    listed = quarantine(idle_installation, "list", "--json")
    assert (listed.exit_code, json.loads(listed.stdout)) == (WELL, [])
    found = quarantine(idle_installation, "stats", "--recount")
    assert found.exit_code == IMPOSSIBLE
    assert f"{idle_installation.real(QUARANTINE)}:2:0 is no event" in found.stderr
    assert "sluice ledger verify" in found.stderr


def test_nothing_is_known_under_an_id_that_was_never_decided(idle_installation: TestInstallation) -> None:
    unheard_of = quarantine(idle_installation, "show", "w-never")
    assert (unheard_of.exit_code, "never seen" in unheard_of.stderr) == (2, True)
    found = quarantine(idle_installation, "show", "99:5")
    assert (found.exit_code, "nothing was decided" in found.stderr) == (REFUSED, True)
