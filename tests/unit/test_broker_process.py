"""A process is signalled only if it is the very one that was started."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from sluice.broker import locate
from sluice.broker.handle import BrokerError, is_answering
from sluice.broker.process_identity import ProcessIdentity

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GONE_S = 10.0


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits for its standard input to close."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_a_running_process_is_known_by_its_start(child: subprocess.Popen[bytes]) -> None:
    identity = ProcessIdentity.find(child.pid)
    assert identity is not None
    assert identity.is_alive()


def test_a_process_that_ended_is_gone_even_before_its_parent_noticed(child: subprocess.Popen[bytes]) -> None:
    identity = ProcessIdentity.find(child.pid)
    assert identity is not None
    identity.send_signal(signal.SIGKILL)
    assert identity.wait_until_gone(GONE_S)
    assert child.returncode is None


def test_a_reused_pid_is_neither_alive_nor_signalled(child: subprocess.Popen[bytes]) -> None:
    stranger = ProcessIdentity(child.pid, "started at another time")
    stranger.send_signal(signal.SIGKILL)
    assert not stranger.is_alive()
    assert child.poll() is None


def test_stop_leaves_a_stranger_with_the_remembered_pid_alone(
    tmp_path: Path, child: subprocess.Popen[bytes]
) -> None:
    folders = dict.fromkeys(("work", "data", "jars"), str(tmp_path))
    record = {"kind": "jvm", "port": 1, "controller_port": 2, "pid": child.pid, "started": "0", **folders}
    (tmp_path / locate.NAME).write_text(json.dumps(record))
    assert locate.stop(tmp_path) is None
    assert child.poll() is None
    assert not (tmp_path / locate.NAME).exists()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"kind": "jvm"}'])
def test_a_state_file_that_is_not_ours_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / locate.NAME).write_text(content)
    with pytest.raises(BrokerError, match=locate.NAME):
        locate.read_status(tmp_path, None)


def test_two_starts_at_once_are_told_apart(tmp_path: Path) -> None:
    with locate.lock(tmp_path), pytest.raises(BrokerError, match="Another"):
        locate.start(tmp_path, locate.StartOptions())


def test_our_own_process_is_alive() -> None:
    identity = ProcessIdentity.find(os.getpid())
    assert identity is not None
    assert not identity.wait_until_gone(0.0)


def test_a_broker_without_a_port_is_asked_at_kafka_s(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def connect(address: tuple[str, int], **_: float) -> socket.socket:
        asked.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "create_connection", connect)
    assert not is_answering("kafka, [::1]:9093")
    assert not is_answering("kafka:port")
    assert asked == [("kafka", 9092), ("::1", 9093)]
