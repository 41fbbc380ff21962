"""What is said when no way leads to a broker, and that all ways configure the same one."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.broker import docker, handle
from sluice.broker.handle import BrokerError
from sluice.broker.locate import ExternalBroker

ROOT = Path(__file__).resolve().parent.parent.parent
COMPOSE = (ROOT / "docker-compose.yml").read_text()
START = """
import sys, pathlib
from sluice.broker import locate
locate.start(pathlib.Path(sys.argv[1]), locate.StartOptions())
"""


def test_without_any_way_the_error_names_all_three_and_why(tmp_path: Path) -> None:
    nowhere = {"PATH": "", "HOME": str(tmp_path), "DOCKER_HOST": "tcp://127.0.0.1:1"}
    started = subprocess.run(
        [sys.executable, "-c", START, str(tmp_path)],
        env=nowhere, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert started.returncode == 1
    for words in (
        "KAFKA_BOOTSTRAP_SERVERS=host:port",
        "Docker: no Docker daemon",
        "Java (java) is not",
        "Maven",
    ):
        assert words in started.stderr


@pytest.mark.parametrize("verb", ["start", "stop", "kill"])
def test_a_broker_that_is_not_ours_is_neither_stopped_nor_started(verb: str) -> None:
    with pytest.raises(BrokerError, match="only whoever runs it"):
        getattr(ExternalBroker("elsewhere:9092"), verb)()


def test_chosen_ports_are_free_differ_and_lie_below_those_of_outgoing_connections() -> None:
    chosen = handle.find_free_ports(4)
    assert len(set(chosen)) == 4
    assert all(handle.is_free(port) and port < 32768 for port in chosen)


def test_a_port_somebody_listens_on_is_not_free() -> None:
    with socket.create_server((handle.LOOPBACK, 0)) as listening:
        assert not handle.is_free(listening.getsockname()[1])


def test_compose_configures_the_broker_as_the_other_ways_do() -> None:
    said = dict(re.findall(r'^ +(KAFKA_\w+): "(.*)"$', COMPOSE, re.MULTILINE))
    ours = handle.write_environment(handle.SINGLE_NODE)
    del ours["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"]  # compose has a third listener, for the other containers
    assert ours.items() <= said.items()


def test_compose_pins_every_image_and_listens_on_loopback_only() -> None:
    images = re.findall(r"^ +image: (\S+)$", COMPOSE, re.MULTILINE)
    assert docker.IMAGE in images
    assert all(re.search(r":(\d+\.\d+\.\d+|local)", image) for image in images)
    published = re.findall(r'ports: \["(.*?)"\]', COMPOSE)
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)
