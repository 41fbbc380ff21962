"""Where one run of the demo lives, the worker that it starts as a child process, and what `--keep` leaves.

A note in the demo's folder tells `--stop` what still runs.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.adapters.kafka.kafka_acls import set_access
from sluice.broker import locate
from sluice.broker.process_identity import ProcessIdentity
from sluice_topics.access import ROLES, list_access
from sluice_topics.layout import TopicLayout

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.broker.secured import BrokerSecurity
    from sluice.client.kafka_connection import KafkaCluster
    from sluice_topics.access import Role

PARTITIONS = 8
SETTINGS_PREFIX, MODEL_SETTINGS = "SLUICE_", "SLUICE_GRADER__"
ENCODER = "all-minilm-l6-v2"


@dataclass(frozen=True, slots=True)
class RunLocation:
    """`run` names topics and consumer group, so that runs on one broker never meet. `root_key` is where trust
    starts, base64; `keys` the folder of the private keys, outside the tree; `installation` the run's id.
    `security`: of a broker where everyone must log in."""

    run: str
    folder: Path
    bootstrap_servers: str
    root_key: str
    keys: Path
    installation: str
    security: BrokerSecurity | None = None

    def connect(self, role: Role) -> KafkaCluster:
        """How who does this logs in: on a secured broker as the user of the role, else not at all."""
        if self.security is None:
            return self.bootstrap_servers
        return self.security.connect(self._port, role)

    async def set_rights(self) -> None:
        """On a secured broker: each user of a role may do what its role needs here. Raises AclRefused and
        KafkaUnreachable."""
        for role in ROLES if self.security is not None else ():
            administrator = self.security.connect(self._port)  # type: ignore[union-attr]
            await set_access(administrator, f"User:{role}", list_access(role, self.layout))

    @property
    def _port(self) -> int:
        return int(self.bootstrap_servers.rpartition(":")[2])

    @property
    def prefix(self) -> str:
        return f"{self.run}."

    @property
    def layout(self) -> TopicLayout:
        return TopicLayout(self.prefix, self.run, PARTITIONS)

    @property
    def ready_file(self) -> Path:
        return self.folder / "worker.ready"

    @property
    def values_key(self) -> Path:
        """The master key of values' fingerprints, made for the run."""
        return self.keys / "values.key"

    @property
    def log(self) -> Path:
        return self.folder / "worker.log"

    def build_command_environment(self) -> dict[str, str]:
        """Environment variables that set any `sluice` command to this run's topics."""
        return {
            "SLUICE_KAFKA__BOOTSTRAP_SERVERS": self.bootstrap_servers,
            "SLUICE_KAFKA__TOPIC_PREFIX": self.prefix,
            "SLUICE_KAFKA__PARTITIONS": str(PARTITIONS),
            "SLUICE_WORKER__APP_ID": self.run,
            "SLUICE_POLICY__ROOT_KEYS": json.dumps([self.root_key]),
            "SLUICE_POLICY__INSTALLATION": self.installation,
            "SLUICE_POLICY__ENVIRONMENT": "demo",
            "SLUICE_VALUES__MASTER_KEY_FILE": str(self.values_key),
        }

    def build_worker_environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The worker's whole environment: `environment` with this run's settings instead of its own, but for
        those of the hosted model."""
        stored = {
            name: value
            for name, value in environment.items()
            if not name.startswith(SETTINGS_PREFIX) or name.startswith(MODEL_SETTINGS)
        }
        own = {"SLUICE_WORKER__READY_FILE": str(self.ready_file), "SLUICE_EMBEDDING__ENCODER": ENCODER}
        if self.security is not None:
            own |= self.security.write_settings(self._port, "worker")
        return {**stored, **self.build_command_environment(), **own}


READY_S = 60.0
STOP_S = 30.0
POLL_S = 0.1
LOG_TAIL_LINES = 25
_TERMINAL_CODE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class WorkerError(Exception):
    """The worker ended, or did not get ready; the message holds the end of its log."""


@dataclass
class Worker:
    """A running `sluice worker`. Made by `start_worker`."""

    location: RunLocation
    identity: ProcessIdentity
    child: subprocess.Popen[bytes]

    def wait_until_ready(self) -> None:
        """Return when it decides for every partition. Raises WorkerError."""
        end = time.monotonic() + READY_S
        while not self._is_ready():
            self.check()
            if time.monotonic() > end:
                raise WorkerError(
                    f"The worker was not ready within {READY_S:.0f} s.\n{read_log_tail(self.location)}"
                )
            time.sleep(POLL_S)

    def check(self) -> None:
        """Raises WorkerError when it has ended."""
        status = self.child.poll()
        if status is not None:
            raise WorkerError(f"The worker ended with status {status}.\n{read_log_tail(self.location)}")

    def stop(self) -> None:
        """SIGTERM, and SIGKILL if it has not gone in time."""
        stop_process(self.identity)
        self.child.wait(STOP_S)

    def _is_ready(self) -> bool:
        try:
            return len(self.location.ready_file.read_text(encoding="ascii").split()) == PARTITIONS
        except FileNotFoundError:
            return False


def start_worker(location: RunLocation, environment: Mapping[str, str]) -> Worker:
    """Start it; its output goes to the place's log."""
    command = [sys.executable, "-m", "sluice", "worker"]
    with location.log.open("ab") as log:
        # A session of its own: a Ctrl-C at the terminal reaches the demo, which then stops it in order.
        child = subprocess.Popen(  # noqa: S603 - our own command line
            command,
            env=location.build_worker_environment(environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    return Worker(location, ProcessIdentity.find(child.pid) or ProcessIdentity(child.pid, ""), child)


def stop_process(identity: ProcessIdentity) -> None:
    """SIGTERM, and SIGKILL if it has not gone after `STOP_S` seconds. One that has gone is no error."""
    identity.send_signal(signal.SIGTERM)
    if not identity.wait_until_gone(STOP_S):
        identity.send_signal(signal.SIGKILL)
        identity.wait_until_gone(STOP_S)


def read_log_tail(location: RunLocation) -> str:
    """The end of the worker's log, under its path."""
    text = _TERMINAL_CODE.sub("", location.log.read_text(encoding="utf-8", errors="replace"))
    lines = [line for line in text.splitlines() if line.strip()]
    return "\n".join([f"The end of {location.log}:", *(f"  {line}" for line in lines[-LOG_TAIL_LINES:])])


KEPT_NAME = "kept.json"


class StoredRunError(Exception):
    """The note of a kept demo cannot be read."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """The worker, the folders of its run and its keys, and the gateway; the broker's note lies next to it."""

    run: str
    folder: Path
    keys: Path
    worker: ProcessIdentity
    gateway: ProcessIdentity


def remember(home: Path, stored_run: StoredRun) -> None:
    """Write it down under `home`."""
    note = json.dumps(asdict(stored_run), default=str, indent=1)
    (home / KEPT_NAME).write_text(note + "\n", encoding="utf-8")


def recall(home: Path) -> StoredRun | None:
    """The one that was left, whether it still runs or not. Raises StoredRunError."""
    path = home / KEPT_NAME
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        processes = (
            ProcessIdentity(int(process["pid"]), str(process["started"]))
            for process in (record["worker"], record["gateway"])
        )
        return StoredRun(str(record["run"]), Path(record["folder"]), Path(record["keys"]), *processes)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise StoredRunError(
            f"{path} is not what `sluice demo --keep` writes ({error}); remove it"
        ) from error


def stop_kept(home: Path) -> StoredRun | None:
    """Stop gateway, worker and broker of the kept demo and remove its folder; None if none was left.

    Raises StoredRunError and BrokerError.
    """
    stored_run = recall(home)
    if stored_run is None:
        return None
    stop_process(stored_run.gateway)
    stop_process(stored_run.worker)
    broker = locate.recall(home)
    if broker is not None:
        broker.close()
    locate.forget(home)
    for folder in (stored_run.folder, stored_run.keys):
        shutil.rmtree(folder, ignore_errors=True)
    (home / KEPT_NAME).unlink()
    return stored_run
