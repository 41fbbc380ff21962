"""Mend 22.0: a wheel in an empty environment, far from any checkout, brings a worker that decides.

The environment has what requirements.lock names, held against its hashes, and the wheel; another one has the
packages that the extra `client` brings.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest

from tests.conftest import KEPT
from tests.documents.blocks import ROOT
from tests.unit.test_chart import RENDERED, read_objects

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.kafka

UV = ROOT / "build" / "uv" / "bin" / "uv"
"""`make` puts it there, with a Python that has pip."""
LOCK = ROOT / "requirements.lock"
ANSWERS = {"a-1": "allowed", "a-2": "allowed", "a-3": "needs_human", "a-4": "denied", "a-5": "denied"}
USER = 10001
"""Of the image, and so of every pod."""
READY_S = 120.0
END_S = 60.0
ASK = """
import sys
from sluice.client import ClientOptions, GateClient
with GateClient(sys.argv[1], "example-operator", ClientOptions(sys.argv[2], deadline_s=60)) as gate:
    print(gate.propose("search_records", {"table": "orders"}, session_id="s-client", rows_affected=1).verdict)
"""
WHERE = "import sluice, sys; print(sluice.__file__, *[one for one in sys.path if one])"
DISTRIBUTIONS = "from importlib.metadata import distributions as all; print(*(one.name for one in all()))"
OF_A_WORKER = {"onnxruntime", "numpy", "faust-streaming", "typer", "anthropic", "fastapi"}
EXAMPLE = "from sluice.shipped import SHIPPED_FILES; print(SHIPPED_FILES / 'examples' / 'actions.jsonl')"


@dataclass(frozen=True)
class Place:
    """A virtual environment, and a folder and home in which its programs run."""

    environment: Path
    folder: Path
    settings: dict[str, str]

    def words(self, program: str, *words: str) -> list[str]:
        """A command of the environment."""
        return [str(self.environment / "bin" / program), *words]

    def run(self, program: str, *words: str) -> str:
        """What the command prints; it has to end well."""
        done = subprocess.run(
            self.words(program, *words),
            cwd=self.folder,
            env=self.settings,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{program} {' '.join(words)}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@dataclass(frozen=True)
class Pod:
    """The spec of a pod; `folder`: its root, settings, secrets and run, as folders."""

    spec: dict[str, Any]
    folder: Path
    installed: Place

    def words(self, command: list[str], secrets: Path | str = "-") -> list[str]:
        """What runs the command in it; `secrets`: the folder of the Secret, where it is mounted."""
        ours = ["unshare", "--mount", "sh", str(Path(__file__).parent / "pod.sh"), str(self.folder / "root")]
        environment, settings, run = self.installed.environment, self.folder / "settings", self.folder / "run"
        return [*ours, str(USER), str(environment), str(settings), str(secrets), str(run), *command]


def _place(folder: Path, **settings: str) -> Place:
    """An empty environment; nothing of the tests' own environment is known in it."""
    environment, home = folder / "environment", folder / "home"
    home.mkdir(parents=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    own = {"PATH": os.defpath, "HOME": str(home), "LANG": "C.UTF-8"}
    return Place(environment, home, {**own, **settings})


def _install(place: Place, *words: str) -> None:
    """By uv from its cache, or else by uv, or by pip where uv reaches no index, as `make setup` does."""
    python = str(place.environment / "bin" / "python")
    by_uv = [str(UV), "pip", "install", "--quiet", "--python", python, "--only-binary", ":all:"]
    by_pip = [str(UV.parent / "python"), "-m", "pip", "--python", python, "install", "--only-binary", ":all:"]
    for command in ([*by_uv, "--offline"], by_uv, by_pip):
        done = subprocess.run([*command, *words], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return
    pytest.fail(f"{' '.join(words)}: {done.stderr}")


@pytest.fixture(scope="module")
def installed(kafka: str, module_prefix: str, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The locked packages and the wheel, with a policy that `sluice init` has published."""
    settings = {
        "SLUICE_KAFKA__BOOTSTRAP_SERVERS": kafka,
        "SLUICE_KAFKA__TOPIC_PREFIX": module_prefix,
        "SLUICE_KAFKA__PARTITIONS": "1",
        "SLUICE_WORKER__APP_ID": f"{module_prefix}worker",
        "SLUICE_CACHE__FOLDER": str(KEPT),
    }
    folder = tmp_path_factory.mktemp("installed")
    place = _place(folder, **settings, SLUICE_CONFIG=str(folder / "home" / ".sluice" / "sluice.toml"))
    _install(place, "--require-hashes", "--requirement", str(LOCK))
    _install(place, "--no-deps", str(wheel))
    return place


@contextmanager
def _run_deciding(place: Place) -> Iterator[None]:
    """While the environment's worker decides; it has to end well."""
    ready, log = place.folder / "ready", place.folder / "worker.log"
    environment = {**place.settings, "SLUICE_WORKER__READY_FILE": str(ready)}
    with log.open("wb") as written:
        words = place.words("sluice", "worker")
        worker = subprocess.Popen(words, cwd=place.folder, env=environment, stdout=written, stderr=written)
    try:
        deadline = time.monotonic() + READY_S
        while not ready.exists():
            assert worker.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield
    finally:
        worker.send_signal(signal.SIGTERM)
        status = worker.wait(END_S)
    assert status == 0, log.read_text()


def test_the_wheel_s_commands_bring_a_worker_that_decides_the_published_examples(
    installed: Place, wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    told = installed.run("python", "-c", WHERE).split()
    assert all(str(ROOT) not in one for one in told), told
    assert told[0].startswith(str(installed.environment))
    assert "Usage: sluice" in installed.run("sluice", "--help")
    assert installed.run("sluice", "--version") == f"sluice {wheel.name.split('-')[1]}\n"
    fresh = {name: value for name, value in installed.settings.items() if name != "SLUICE_CONFIG"}
    Place(installed.environment, installed.folder, fresh).run("sluice", "init")
    with _run_deciding(installed):
        installed.run("sluice", "publish", installed.run("python", "-c", EXAMPLE).strip())
        watch = ("watch", "gate.verdicts", "--from-beginning", "--max", str(len(ANSWERS)), "--json")
        seen = [json.loads(line)["value"] for line in installed.run("sluice", *watch).splitlines()]
        assert {one["action_id"]: one["verdict"] for one in seen} == ANSWERS
        assert _ask_by_client_alone(installed, wheel, tmp_path_factory.mktemp("client")) == "allowed"


def _ask_by_client_alone(installed: Place, wheel: Path, folder: Path) -> str:
    """What the client is answered where `pip install "sluice[client]"` is all that was done."""
    place = _place(folder)
    _install(place, "--constraint", str(LOCK), f"sluice[client] @ {wheel.as_uri()}")
    assert not set(place.run("python", "-c", DISTRIBUTIONS).split()) & OF_A_WORKER
    command = subprocess.run(place.words("sluice"), env=place.settings, capture_output=True, check=False)
    assert (command.returncode, b"pip install 'sluice[worker]'" in command.stderr) == (2, True)
    servers = installed.settings["SLUICE_KAFKA__BOOTSTRAP_SERVERS"]
    return place.run("python", "-c", ASK, servers, installed.settings["SLUICE_KAFKA__TOPIC_PREFIX"]).strip()


def test_the_wheel_s_gateway_serves_its_pages_with_all_that_they_load(installed: Place) -> None:
    """The templates, the styles and scripts, and the OpenAPI document are in the wheel."""
    if not Path(installed.settings["SLUICE_CONFIG"]).exists():
        installed.run("sluice", "init")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = installed.folder / "gateway.log"
    environment = {**installed.settings, "SLUICE_GATEWAY__PORT": str(port)}
    with log.open("wb") as written:
        gateway = subprocess.Popen(
            installed.words("sluice", "gateway"),
            cwd=installed.folder,
            env=environment,
            stdout=written,
            stderr=written,
        )
    try:
        _wait_until_served(f"http://127.0.0.1:{port}/healthz", gateway, log)
        page = _fetch(f"http://127.0.0.1:{port}/review")
        loaded = re.findall(r'(?:href|src)="(/review/static/[^"]+)"', page)
        assert loaded, page
        assert all(_fetch(f"http://127.0.0.1:{port}{one}") for one in loaded)
        assert json.loads(_fetch(f"http://127.0.0.1:{port}/openapi.json"))["openapi"].startswith("3.")
    finally:
        gateway.send_signal(signal.SIGTERM)
        status = gateway.wait(END_S)
    assert status == 0, log.read_text()


def _wait_until_served(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + READY_S
    while True:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        try:
            _fetch(url)
        except OSError:
            time.sleep(0.1)
        else:
            return


def _fetch(url: str) -> str:
    with urlopen(url, timeout=10) as answer:  # noqa: S310 - the gateway of this test
        text: str = answer.read().decode()
    return text


@pytest.fixture
def pod(installed: Place, tmp_path: Path) -> Pod:
    """A worker's pod of the chart with all values in use, and a Secret as Kubernetes mounts it."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "true"], check=False).returncode:
        pytest.skip("mounts of its own need root")
    if not Path(installed.settings["SLUICE_CONFIG"]).exists():
        installed.run("sluice", "init")
    made = Path(installed.settings["SLUICE_CONFIG"]).parent
    for name in ("root", "settings/secrets", "secrets", "run"):
        (tmp_path / name).mkdir(parents=True)
    text = (made / "sluice.toml").read_text().replace(str(made), "/run/sluice/secrets")
    (tmp_path / "settings" / "worker.toml").write_text(text)
    for name in ("verdicts.pem", "values.key", "redis.keys"):
        shutil.copy(made / name, tmp_path / "secrets" / name)
        os.chown(tmp_path / "secrets" / name, 0, USER)
        (tmp_path / "secrets" / name).chmod(0o440)
    os.chown(tmp_path / "run", USER, USER)
    (worker,) = [
        one
        for one in read_objects(RENDERED[1])
        if (one["kind"], one["metadata"]["name"]) == ("StatefulSet", "sluice-worker")
    ]
    return Pod(worker["spec"]["template"]["spec"], tmp_path, installed)


def test_the_chart_s_worker_gets_ready_as_a_pod_runs_it(pod: Pod) -> None:
    """The init container and the worker, as their user, on a file system that nobody can write to."""
    (copying,) = pod.spec["initContainers"]
    done = subprocess.run(
        pod.words(copying["command"], pod.folder / "secrets"), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    copies = list((pod.folder / "run" / "secrets").iterdir())
    assert {(one.stat().st_uid, one.stat().st_mode & 0o077) for one in copies} == {(USER, 0)}
    refused = subprocess.run(
        pod.words(["touch", "/x", "/usr/x", "/etc/sluice/x"]), capture_output=True, check=False
    )
    assert refused.stderr.count(b"Read-only file system") == 3, refused.stderr
    (container,) = pod.spec["containers"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = {**pod.installed.settings, "SLUICE_CONFIG": "/etc/sluice/worker.toml", "HOME": "/nowhere"}
    own |= {"SLUICE_CACHE__FOLDER": "/tmp/cache", "SLUICE_WORKER__METRICS_ADDRESS": f"127.0.0.1:{port}"}  # noqa: S108
    log = pod.folder / "worker.log"
    with log.open("wb") as written:
        program = str(pod.installed.environment / "bin" / "sluice")
        worker = subprocess.Popen(
            pod.words([program, *container["args"]]), env=own, stdout=written, stderr=written
        )
    try:
        _wait_until_served(
            f"http://127.0.0.1:{port}{container['readinessProbe']['httpGet']['path']}", worker, log
        )
    finally:
        worker.send_signal(signal.SIGTERM)
        status = worker.wait(END_S)
    assert status == 0, log.read_text()
