"""Actions, memories and items of a real worker in one file: an outsider checks and executes it without a
broker, and what was done to it is told."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner, Result

from load.installations import neutral_policy
from load.packages.tamper import COMBINED, SINGLE
from sluice.cli.main import cli
from sluice.cli.policy.key_files import make_private_key
from sluice.core.policy.bundle_frame import ORDER_OF_OLD
from sluice_topics.catalog import (
    MEMORY_DECISIONS,
    MEMORY_WRITES,
    OUTCOMES,
    QUARANTINE,
    RETRIEVALS,
    REVIEWS,
    SESSION_EVENTS,
    VERDICTS,
)
from tests.kafka.installation import action, publish, run_worker, wait_for, wait_until_decided
from tests.kafka.memories import (
    MemoryInstallation,
    make_held_write,
    memory_installation,
    review,
    session_in,
    write,
)
from tests.kafka.retrievals import item, retrieval, serve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from load.installations.worker_process import WorkerProcess

pytestmark = pytest.mark.kafka
DECISIONS = 12


class Audited:
    """An installation whose workers have decided, and the keys that an outsider has."""

    def __init__(self, made: MemoryInstallation, folder: Path) -> None:
        self.installation = made.installation
        self.made = made
        self.head_key = make_private_key(folder / "heads.pem").public.text
        self.signing = {"SLUICE_HEADS__SIGNING_KEY": str(folder / "heads.pem")}
        self.sessions = [session_in(made.installation, number) for number in range(2)]

    def run(self, *words: str) -> Result:
        """A command of the installation's own."""
        return CliRunner().invoke(cli, words, env=self.installation.settings | self.signing)

    def export(self, file: Path, *words: str) -> Path:
        """A package."""
        result = self.run("audit", "export", *words, "--out", str(file))
        assert result.exit_code == 0, result.output
        return file

    def ask_outsider(self, *words: str) -> Result:
        """A command where there is no broker, with the root key alone."""
        environment = {
            "SLUICE_KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:9",
            "SLUICE_POLICY__ROOT_KEYS": json.dumps([self.installation.trust.root.public.text]),
        }
        return CliRunner().invoke(cli, words, env=environment)

    def verify(self, file: Path, *words: str) -> tuple[int, dict[str, Any]]:
        """Exit code and report of `sluice audit verify`."""
        result = self.ask_outsider(
            "audit", "verify", str(file), "--head-key", self.head_key, "--json", "--processes", "2", *words
        )
        return result.exit_code, json.loads(result.stdout) if result.stdout else {}


@pytest.fixture(scope="module")
def audited(kafka: str, module_prefix: str, tmp_path_factory: pytest.TempPathFactory) -> Audited:
    folder = tmp_path_factory.mktemp("audit")
    return Audited(memory_installation(kafka, folder, module_prefix.rstrip("."), ORDER_OF_OLD), folder)


@pytest.fixture(scope="module", autouse=True)
def worker(audited: Audited) -> Iterator[WorkerProcess]:
    """A worker that has decided a bit of everything, and a head over it."""
    for process in run_worker(audited.installation):
        decide(audited, process)
        wait_until_decided(audited.installation, process)  # a package says how far that is
        signed = audited.run("ledger", "sign-heads", "--once")
        assert signed.exit_code == 0, signed.output
        yield process


def decide(audited: Audited, worker: WorkerProcess) -> None:
    installation, (first, second) = audited.installation, audited.sessions
    publish(installation, [write(first, "w-1"), make_held_write(first, "w-2")], MEMORY_WRITES)
    (entered,) = wait_for(installation, QUARANTINE, first, 1, worker)
    publish(installation, [review(audited.made, entered, "reject")], REVIEWS)
    wait_for(installation, QUARANTINE, first, 2, worker)
    publish(installation, [write(second, "w-3", derived_from=[entered["memory_id"]])], MEMORY_WRITES)
    publish(installation, [action(first, f"a-{number}") for number in range(3)])
    publish(installation, [action(second, f"b-{number}") for number in range(4)])
    wait_for(installation, VERDICTS, first, 3, worker)
    outcome = {"action_id": "a-1", "session_id": first, "rows_affected": 7}
    publish(installation, [outcome | {"reported_by": neutral_policy.AGENT}], OUTCOMES)
    wait_for(installation, SESSION_EVENTS, first, 1, worker)
    publish(installation, [retrieval(second, "r-1", item("good"), item("other"))], RETRIEVALS)
    serve(installation, second, 1, worker)
    wait_for(installation, VERDICTS, second, 4, worker)
    wait_for(installation, MEMORY_DECISIONS, second, 1, worker)


def test_an_outsider_checks_a_package_and_executes_every_decision_of_it(
    audited: Audited, tmp_path: Path
) -> None:
    file = audited.export(tmp_path / "all.zip", "--since", "2020-01-01")
    code, report = audited.verify(file, "--since", "2020-01-01")
    assert (code, report["findings"]) == (0, []), report
    assert report["heads"]["signatures_checked"]
    again = audited.export(tmp_path / "again.zip", "--since", "2020-01-01")
    assert again.read_bytes() == file.read_bytes()
    result = audited.ask_outsider("rerun", "--all", "--from", str(file), "--json")
    reruns = json.loads(result.stdout)
    assert (result.exit_code, reruns["reruns"], reruns["identical"]) == (0, [], DECISIONS), result.output
    by_name = json.loads(audited.ask_outsider("rerun", "a-1", "--from", str(file), "--json").stdout)
    assert by_name["identical"] == 1


@pytest.mark.parametrize("narrow", [(), ("--only-selected",)])
def test_a_session_an_agent_and_a_decision_have_packages_of_their_own(
    audited: Audited, tmp_path: Path, narrow: tuple[str, ...]
) -> None:
    session = audited.sessions[0]
    for number, words in enumerate(
        (("--session", session), ("--agent", neutral_policy.AGENT), ("--decision", "a-1"))
    ):
        file = audited.export(tmp_path / f"{number}.zip", *words, *narrow)
        code, report = audited.verify(file, *words, *narrow)
        assert (code, report["findings"]) == (0, []), (words, report)
        result = audited.ask_outsider("rerun", "--all", "--from", str(file), "--json")
        assert (result.exit_code, json.loads(result.stdout)["reruns"]) == (0, []), (words, result.output)
    nothing = audited.run("audit", "export", "--session", "nobody's", "--out", str(tmp_path / "none.zip"))
    assert (nothing.exit_code, (tmp_path / "none.zip").exists()) == (1, False)


def test_an_archive_and_a_wider_package_give_the_same_bytes(audited: Audited, tmp_path: Path) -> None:
    words = ("--session", audited.sessions[1])
    file = audited.export(tmp_path / "broker.zip", *words)
    archived = audited.run("archive", "run", "--once", "--to", str(tmp_path / "archive"))
    assert archived.exit_code == 0, archived.output
    from_archive = audited.export(tmp_path / "archive.zip", *words, "--from", str(tmp_path / "archive"))
    assert from_archive.read_bytes() == file.read_bytes()
    wide = audited.export(tmp_path / "wide.zip", "--since", "2020-01-01")
    from_package = audited.export(tmp_path / "narrow.zip", *words, "--from", str(wide))
    assert from_package.read_bytes() == file.read_bytes()


@pytest.mark.parametrize("kind", ["alter_and_seal_record", "alter_input", "delete_record", "keep_old_heads"])
def test_what_was_done_to_a_package_is_told_with_exit_code_1(
    audited: Audited, tmp_path: Path, kind: str
) -> None:
    file = audited.export(tmp_path / "all.zip", "--since", "2020-01-01")
    changes = SINGLE | COMBINED
    rng = random.Random(3)  # noqa: S311 - seeded
    file.write_bytes(changes[kind](file.read_bytes(), rng))
    code, report = audited.verify(file)
    assert (code, report["intact"]) == (1, False)
    cut = tmp_path / "cut.zip"
    cut.write_bytes(file.read_bytes()[:-9])
    assert audited.ask_outsider("audit", "verify", str(cut)).exit_code == 2
