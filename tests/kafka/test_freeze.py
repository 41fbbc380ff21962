"""Mend 22.12: a freeze stops what it names within a second; one that would miss is refused."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from load.installations import neutral_policy
from load.installations.worker_process import WorkerProcess
from sluice.cli.main import cli
from sluice_demo.throwaway_trust import OWNER, REVIEWER
from sluice_topics.catalog import REGISTRY, VERDICTS
from tests.kafka.installation import (
    END_S,
    action,
    installation_on,
    publish,
    read_stored,
    records,
    wait_for,
    wait_until,
)
from tests.kafka.memories import session_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from load.installations.installation import TestInstallation

pytestmark = pytest.mark.kafka
AGENT = neutral_policy.AGENT
SECOND_MS = 1000


@pytest.fixture(scope="module")
def installation(
    kafka: str, module_prefix: str, tmp_path_factory: pytest.TempPathFactory
) -> TestInstallation:
    made = installation_on(
        kafka, tmp_path_factory.mktemp("freezes"), module_prefix.rstrip("."), ("controls", "tier_auth")
    )
    made.trust.write(made.folder)
    return made


@pytest.fixture(scope="module")
def workers(installation: TestInstallation) -> Iterator[list[WorkerProcess]]:
    """Two, each with some of the partitions."""
    both = [WorkerProcess(installation, name, 0.0) for name in ("one", "two")]
    try:
        for one in both:
            wait_until(lambda: all(worker.partitions() for worker in both), one)
        yield both
    finally:
        assert [one.end(END_S) for one in both] == [0, 0]


def sluice(installation: TestInstallation, *words: str) -> tuple[int, str]:
    """Exit code, and all that the command said."""
    people = () if words[0] == "registry" else (OWNER, REVIEWER) if words[0] == "thaw" else (OWNER,)
    keys = [part for name in people for part in ("--key", str(installation.folder / f"{name}.pem"))]
    ran = CliRunner().invoke(cli, [*words, *keys], env=installation.settings)
    return ran.exit_code, ran.output


def verdict_on(
    installation: TestInstallation, workers: list[WorkerProcess], session: str, **more: Any
) -> dict[str, Any]:
    """The verdict on the session's next action."""
    so_many = len(records(installation, VERDICTS, session))
    publish(installation, [action(session, f"a-{so_many}", **more)])
    return wait_for(installation, VERDICTS, session, so_many + 1, workers[0])[-1]


def test_everything_is_frozen_in_every_worker_within_a_second(
    installation: TestInstallation, workers: list[WorkerProcess]
) -> None:
    """Actions come to every partition meanwhile. A machine that is busy delays the freeze as it delays them:
    by how much, the decisions before the freeze say."""
    sessions = [session_in(installation, number, "all") for number in range(installation.partitions)]
    over = threading.Event()

    def propose() -> None:
        number = 0
        while not over.is_set():
            number += 1
            publish(installation, [action(session, f"a-{number}") for session in sessions])

    proposing = threading.Thread(target=propose)
    proposing.start()
    try:
        wait_until(
            lambda: {one["session_id"] for one in records(installation, VERDICTS, sessions)} == {*sessions},
            workers[0],
        )
        code, told = sluice(installation, "freeze", "all", "--reason", "incident 7")
        assert (code, "freeze/all@1 is in force" in told) == (0, True), told
        wait_until(lambda: _list_frozen(installation, sessions) == {*sessions}, workers[0])
    finally:
        over.set()
        proposing.join()
    frozen_ms = next(
        one.timestamp_ms for one in read_stored(installation, REGISTRY) if one.key == b"freeze/all@1"
    )
    written = [
        (json.loads(one.value or b""), one.timestamp_ms) for one in read_stored(installation, VERDICTS)
    ]
    took = [at - body["input"]["timestamp"] for body, at in written if body["input"]["timestamp"] < frozen_ms]
    let_pass = [body["input"]["timestamp"] for body, _ in written if body["verdict"] == "allowed"]
    assert max(let_pass) - frozen_ms <= SECOND_MS + max(took)
    assert sluice(installation, "thaw", "all", "--reason", "over")[0] == 0
    while verdict_on(installation, workers, sessions[0])["verdict"] != "allowed":
        pass


def _decide(installation: TestInstallation, sessions: list[str]) -> set[str]:
    return {one["session_id"] for one in records(installation, VERDICTS, sessions)}


def _list_frozen(installation: TestInstallation, sessions: list[str]) -> set[str]:
    found = records(installation, VERDICTS, sessions)
    return {one["session_id"] for one in found if one["blockReason"] == "frozen_all: incident 7"}


def test_an_agent_a_session_and_a_tenant_are_frozen_and_thawed(
    installation: TestInstallation, workers: list[WorkerProcess]
) -> None:
    session = session_in(installation, 1, "subjects")
    assert verdict_on(installation, workers, session)["verdict"] == "allowed"
    for kind, name in (("agent", AGENT), ("session", session), ("tenant", neutral_policy.TENANT)):
        code, told = sluice(installation, "freeze", kind, name, "--reason", "looks odd")
        assert (code, f"freeze/{kind}/{name}@1" in told) == (0, True), told
        reason = f"frozen_{kind}: looks odd"
        while verdict_on(installation, workers, session)["blockReason"] != reason:
            pass
        assert sluice(installation, "thaw", kind, name, "--reason", "was nothing")[0] == 0
        while verdict_on(installation, workers, session)["verdict"] != "allowed":
            pass
        code, told = sluice(installation, "thaw", kind, name, "--reason", "again")
        assert (code, "is not frozen" in told) == (1, True), told


@pytest.mark.parametrize("kind", ["agent", "tenant", "session"])
def test_what_nobody_knows_is_frozen_only_if_one_insists(
    installation: TestInstallation, workers: list[WorkerProcess], tmp_path: Path, kind: str
) -> None:
    name = f"{AGENT[:-1]}x" if kind == "agent" else "nobody"
    code, told = sluice(installation, "freeze", kind, name, "--reason", "looks odd")
    assert (code, name in told) == (1, True), told
    assert (f"did you mean {AGENT}" in told) == (kind == "agent")
    entry, signed = str(tmp_path / "entry.json"), str(tmp_path / "signed")
    assert sluice(installation, "registry", "new", "freeze", f"{kind}/{name}", entry)[0] == 0
    key = str(installation.folder / f"{OWNER}.pem")
    assert sluice(installation, "registry", "sign", entry, "--key", key, "--out", signed)[0] == 0
    code, told = sluice(installation, "registry", "publish", signed)
    assert (code, "nothing was written" in told) == (1, True), told
    keys = {one.key for one in read_stored(installation, REGISTRY)}
    assert f"freeze/{kind}/{name}@1".encode() not in keys
    assert sluice(installation, "freeze", kind, name, "--reason", "I know better", "--yes")[0] == 0
    assert f"freeze/{kind}/{name}@1".encode() in {one.key for one in read_stored(installation, REGISTRY)}
