"""The supervisor of several workers, with small programs in the workers' place."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from sluice.cli.machine.worker_processes import hold_names
from sluice.observability.supervised_files import SupervisedFiles
from sluice.settings.reader import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

WAIT_S = 30.0
SUPERVISE = """
import json, logging, sys
from pathlib import Path
from sluice.cli.machine.worker_processes import Supervisor, SupervisorSettings
given = json.loads(sys.argv[1])
logging.basicConfig(level=logging.INFO, format="%(message)s")
sys.exit(Supervisor(SupervisorSettings(**{**given, "ready_file": Path(given["ready_file"])})).run())
"""
WORKER = """
import os, signal, sys, time
from pathlib import Path
folder = Path(sys.argv[1])
name = os.environ["SLUICE_WORKER__GROUP_INSTANCE_ID"]
(folder / f"{name}.{os.getpid()}").touch()
lives = len(list(folder.glob(f"{name}.*")))
def stop(*_):
    sys.exit(int(os.environ.get("ENDS", "0")))
signal.signal(signal.SIGTERM, stop)
beat = Path(sys.argv[sys.argv.index("--supervised") + 1] + ".beat")
FAULT
Path(os.environ["SLUICE_WORKER__READY_FILE"]).write_text("0")
while True:
    beat.touch()
    time.sleep(0.05)
"""


def wait_until(holds: Callable[[], bool]) -> None:
    """Fail when it does not hold in time."""
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    """Starts a supervisor of two small programs, which do `fault` before they are ready."""
    running: list[subprocess.Popen[str]] = []

    def begin(fault: str = "", **settings: Any) -> subprocess.Popen[str]:
        given = {
            "command": [sys.executable, "-c", WORKER.replace("FAULT", fault), str(tmp_path)],
            "processes": 2,
            "instance": "host",
            "patience_s": 5.0,
            "first_pause_s": 0.1,
            "ready_file": str(tmp_path / "ready"),
        } | settings
        words = [sys.executable, "-c", SUPERVISE, json.dumps(given)]
        running.append(subprocess.Popen(words, stderr=subprocess.PIPE, text=True))
        return running[-1]

    yield begin
    for one in running:
        one.kill()
        one.communicate()


def list_lives(folder: Path, number: int) -> list[int]:
    """Process ids of the programs that ran in a place."""
    return [int(file.name.rpartition(".")[2]) for file in folder.glob(f"host-{number}.*")]


def is_alive(pid: int) -> bool:
    """Whether the process runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def end(supervisor: subprocess.Popen[str]) -> tuple[int, str]:
    """Ask it to stop; its status, and what it logged."""
    supervisor.send_signal(signal.SIGTERM)
    _, logged = supervisor.communicate(timeout=WAIT_S)
    return supervisor.returncode, logged


def test_it_is_ready_when_all_are_and_ends_with_zero_when_it_is_asked_to(start: Any, tmp_path: Path) -> None:
    supervisor = start()
    wait_until((tmp_path / "ready").exists)
    assert [len(list_lives(tmp_path, number)) for number in (0, 1)] == [1, 1]
    status, _ = end(supervisor)
    assert status == 0
    assert not (tmp_path / "ready").exists()
    assert not any(is_alive(pid) for number in (0, 1) for pid in list_lives(tmp_path, number))


def test_what_ends_with_a_fault_is_started_again_after_longer_and_longer_pauses(
    start: Any, tmp_path: Path
) -> None:
    supervisor = start("if name == 'host-1' and lives < 4: sys.exit(3)")
    wait_until((tmp_path / "ready").exists)
    status, logged = end(supervisor)
    assert status == 0
    assert (len(list_lives(tmp_path, 0)), len(list_lives(tmp_path, 1))) == (1, 4)
    assert logged.count("worker 1 ended with status 3; it is started again in") == 3


def test_a_killed_worker_is_started_again_and_meanwhile_it_is_not_ready(start: Any, tmp_path: Path) -> None:
    supervisor = start(first_pause_s=1.0)
    wait_until((tmp_path / "ready").exists)
    os.kill(list_lives(tmp_path, 0)[0], signal.SIGKILL)
    wait_until(lambda: not (tmp_path / "ready").exists())
    wait_until((tmp_path / "ready").exists)
    _, logged = end(supervisor)
    assert "worker 0 ended with signal 9" in logged


@pytest.mark.parametrize("status", [2, 5])
def test_where_a_start_would_not_help_all_end_with_that_status(
    start: Any, tmp_path: Path, status: int
) -> None:
    supervisor = start(f"if name == 'host-1': sys.exit({status})")
    _, logged = supervisor.communicate(timeout=WAIT_S)
    assert supervisor.returncode == status
    assert len(list_lives(tmp_path, 1)) == 1
    assert f"worker 1 ended with status {status}, and so would the next" in logged
    assert not any(is_alive(pid) for pid in list_lives(tmp_path, 0))


def test_a_worker_that_fails_to_stop_in_order_shows_in_the_status(
    start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENDS", "3")
    supervisor = start()
    wait_until((tmp_path / "ready").exists)
    assert end(supervisor)[0] == 3


def test_a_worker_that_does_not_stop_is_killed(start: Any, tmp_path: Path) -> None:
    supervisor = start("signal.signal(signal.SIGTERM, signal.SIG_IGN)", patience_s=0.5)
    wait_until((tmp_path / "ready").exists)
    status, logged = end(supervisor)
    assert status == 128 + signal.SIGKILL
    assert "did not stop when it was asked to" in logged


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_worker_that_holds_too_much_memory_is_stopped_and_started_again(start: Any, tmp_path: Path) -> None:
    fault = "held = b'x' * (200 << 20) if name == 'host-0' and lives == 1 else b''"
    supervisor = start(fault, max_memory=100 << 20)
    wait_until(lambda: len(list_lives(tmp_path, 0)) == 2)
    wait_until((tmp_path / "ready").exists)
    _, logged = end(supervisor)
    assert "MiB of memory, more than 100" in logged
    assert len(list_lives(tmp_path, 1)) == 1


@pytest.mark.skipif(
    sys.platform != "linux", reason="other systems do not tell a process that its parent ended"
)
def test_no_worker_outlives_a_supervisor_that_is_killed(start: Any, tmp_path: Path) -> None:
    supervisor = start()
    wait_until((tmp_path / "ready").exists)
    supervisor.kill()
    wait_until(lambda: not any(is_alive(pid) for number in (0, 1) for pid in list_lives(tmp_path, number)))


def test_one_supervisor_of_a_machine_has_the_names_of_its_workers() -> None:
    settings = Settings()
    other = settings.model_copy(
        update={"worker": settings.worker.model_copy(update={"group_instance_id": "other"})}
    )
    with hold_names(settings) as first, hold_names(settings) as second, hold_names(other) as third:
        assert (first, second, third) == (True, False, True)
    with hold_names(settings) as again:
        assert again


def test_a_worker_that_hangs_is_not_ready_and_is_ended_and_started_again(start: Any, tmp_path: Path) -> None:
    supervisor = start(stalled_s=1.0, patience_s=1.0)
    wait_until((tmp_path / "ready").exists)
    (first,) = list_lives(tmp_path, 0)
    os.kill(first, signal.SIGSTOP)  # it takes no SIGTERM either
    wait_until(lambda: not (tmp_path / "ready").exists())
    assert is_alive(first)
    wait_until(lambda: len(list_lives(tmp_path, 0)) == 2)
    wait_until((tmp_path / "ready").exists)
    _, logged = end(supervisor)
    assert "worker 0 has done nothing for 1 s: it is stopped and started again" in logged
    assert "worker 0 ended with signal 9" in logged
    assert len(list_lives(tmp_path, 1)) == 1


def test_a_supervisor_that_stood_still_itself_ends_no_worker(start: Any, tmp_path: Path) -> None:
    supervisor = start(stalled_s=3.0)
    wait_until((tmp_path / "ready").exists)
    paused = [supervisor.pid, *(pid for number in (0, 1) for pid in list_lives(tmp_path, number))]
    for pid in paused:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(5.5)
    for pid in paused:
        os.kill(pid, signal.SIGCONT)
    time.sleep(1.0)
    _, logged = end(supervisor)
    assert "has done nothing" not in logged


def test_each_worker_says_itself_where_it_serves_its_metrics(start: Any, tmp_path: Path) -> None:
    """So that no port is taken from another process, whatever the supervisor's is."""
    say = "(folder / f'{name}-listens').write_text(os.environ['SLUICE_WORKER__METRICS_ADDRESS'])"
    start(say, has_metrics=True)
    wait_until((tmp_path / "ready").exists)
    assert [(tmp_path / f"host-{number}-listens").read_text() for number in (0, 1)] == ["127.0.0.1:0"] * 2


def test_the_ports_of_workers_are_those_that_they_wrote(tmp_path: Path) -> None:
    files = SupervisedFiles(tmp_path / "0")
    assert files.read_port() is None
    files.write_port(40123)
    assert SupervisedFiles(tmp_path / "0").read_port() == 40123
    files.remove()
    assert files.read_port() is None
