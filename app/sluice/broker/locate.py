"""The first of the three ways to a broker that works: one that runs already, Docker, a local JVM.

`sluice broker` starts, stops and finds again the one broker of this checkout: `broker.json` in its home says
for later commands which broker runs.
"""

from __future__ import annotations

import fcntl
import json
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.broker import docker, local
from sluice.broker.docker import DockerBroker
from sluice.broker.handle import (
    BrokerError,
    NoBrokerError,
    find_free_ports,
    is_answering,
    wait_until_ready,
)
from sluice.broker.local import Layout, LocalBroker
from sluice.broker.process_identity import ProcessIdentity
from sluice.broker.secured import BrokerSecurity, require_passwords
from sluice.shipped import BUILD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sluice.broker.handle import Broker


EXTERNAL_READY_S = 15.0


@dataclass(frozen=True)
class ExternalBroker:
    """The one KAFKA_BOOTSTRAP_SERVERS names."""

    bootstrap_servers: str
    kind: str = "external"

    def stop(self) -> None:
        self._refuse()

    def kill(self) -> None:
        self._refuse()

    def start(self) -> None:
        self._refuse()

    def close(self) -> None:
        """Do nothing: another program started this broker and ends it."""

    def _refuse(self) -> None:
        raise BrokerError(
            f"The broker at {self.bootstrap_servers} was given by KAFKA_BOOTSTRAP_SERVERS; "
            "only whoever runs it starts and stops it."
        )


def reach(bootstrap_servers: str) -> ExternalBroker:
    """The broker at `bootstrap_servers` once it answered. Raises BrokerError after 15 seconds."""
    if not wait_until_ready(bootstrap_servers, EXTERNAL_READY_S, lambda: True):
        raise BrokerError(
            f"KAFKA_BOOTSTRAP_SERVERS={bootstrap_servers}, but no broker answered there within "
            f"{EXTERNAL_READY_S:.0f} s. Start it, correct the address, or unset it to have one started here."
        )
    return ExternalBroker(bootstrap_servers)


HOME = BUILD / "kafka"
JARS = HOME / "jars"


def find_broker(bootstrap_servers: str | None, work: Path, port: int | None = None) -> Broker:
    """A broker that answers; `.close()` ends it if it was started here.

    `bootstrap_servers` is the value of KAFKA_BOOTSTRAP_SERVERS (None or empty: not set). If it is set, that
    broker and no other: a run against the wrong cluster is worse than none. `work` keeps a local broker's
    data and log. Raises BrokerError; NoBrokerError names the three ways and why each was passed over.
    """
    if bootstrap_servers:
        return reach(bootstrap_servers)
    return start_broker(local.Layout(work, work / "data", JARS), port)


def start_broker(
    layout: local.Layout, port: int | None = None, more: Mapping[str, str] | None = None
) -> Broker:
    """A new broker of ours on loopback: in Docker if a daemon answers, else on the local JVM.

    `more`: broker properties in addition to those of every broker of ours.
    """
    ways: dict[str, Callable[[], Broker]] = {
        "Docker": lambda: docker.launch(port, more),
        "local JVM": lambda: local.launch(layout, port, more),
    }
    reasons = {"KAFKA_BOOTSTRAP_SERVERS": "not set"}
    for way, launch in ways.items():
        try:
            return launch()
        except BrokerError as error:
            reasons[way] = str(error)
    raise NoBrokerError(reasons)


@contextmanager
def open_broker(bootstrap_servers: str | None, work: Path) -> Iterator[Broker]:
    """`find_broker`, closed at the end whatever happens."""
    broker = find_broker(bootstrap_servers, work)
    try:
        yield broker
    finally:
        broker.close()


NAME = "broker.json"


def remember(home: Path, broker: Broker) -> None:
    """Write down how to find `broker` again."""
    home.mkdir(parents=True, exist_ok=True)
    fresh = home / f"{NAME}.new"
    fresh.write_text(json.dumps(_write_record(broker), indent=1) + "\n", encoding="utf-8")
    fresh.replace(home / NAME)


def forget(home: Path) -> None:
    (home / NAME).unlink(missing_ok=True)


def recall(home: Path) -> LocalBroker | DockerBroker | None:
    """The remembered broker if it still runs, else None. Raises BrokerError for a file that is not ours."""
    path = home / NAME
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        broker = _read_docker(record) if record["kind"] == "docker" else _read_local(record)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise BrokerError(f"{path} is not what `sluice broker start` writes ({error}); remove it") from error
    return broker if broker.is_alive() else None


@contextmanager
def lock(home: Path) -> Iterator[None]:
    """One start or stop at a time. Raises BrokerError if another is under way."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BrokerError(
                "Another `sluice broker` command is at work here; try again when it is done"
            ) from None
        yield


def _write_record(broker: Broker) -> dict[str, object]:
    if isinstance(broker, DockerBroker):
        return {"kind": "docker", "port": broker.port, "container_id": broker.container_id}
    if isinstance(broker, LocalBroker) and broker.identity is not None:
        return {
            **_write_security(broker.security),
            "kind": "jvm",
            "port": broker.port,
            "controller_port": broker.controller_port,
            "pid": broker.identity.pid,
            "started": broker.identity.started,
            "work": str(broker.layout.work),
            "data": str(broker.layout.data),
            "jars": str(broker.layout.jars),
        }
    raise BrokerError(f"A broker of kind {broker.kind} is not ours to remember")


def _write_security(security: BrokerSecurity | None) -> dict[str, object]:
    if security is None:
        return {}
    return {
        "secured": {
            "folder": str(security.folder),
            "tls_port": security.tls_port,
            "users": list(security.passwords),
        }
    }


def _read_security(record: dict[str, Any]) -> BrokerSecurity | None:
    if "secured" not in record:
        return None
    folder, users = Path(str(record["secured"]["folder"])), [str(name) for name in record["secured"]["users"]]
    return BrokerSecurity(folder, int(record["secured"]["tls_port"]), require_passwords(folder, users))


def _read_docker(record: dict[str, object]) -> DockerBroker:
    return DockerBroker(int(str(record["port"])), str(record["container_id"]))


def _read_local(record: dict[str, Any]) -> LocalBroker:
    work, data, jars = (Path(str(record[name])) for name in ("work", "data", "jars"))
    identity = ProcessIdentity(int(str(record["pid"])), str(record["started"]))
    ports = int(str(record["port"])), int(str(record["controller_port"]))
    return LocalBroker(Layout(work, data, jars), *ports, identity, security=_read_security(record))


DEFAULT_PORT = 29092


@dataclass(frozen=True)
class Status:
    """What is known of the broker; `answers` is asked now, by an admin call."""

    kind: str
    bootstrap_servers: str
    answers: bool
    pid: int | None = None
    data: str | None = None
    log: str | None = None
    logins: str | None = None
    """The folder with a settings file for each user, where everyone must log in."""


@dataclass(frozen=True)
class StartOptions:
    """What `start` was asked for; None: not said. `secured`: the users of a broker where everyone must log
    in."""

    bootstrap_servers: str | None = None
    port: int | None = None
    data: Path | None = None
    secured: tuple[str, ...] | None = None


def start(home: Path, options: StartOptions) -> tuple[Broker, bool]:
    """The running broker and whether it was started now. Raises BrokerError."""
    if options.bootstrap_servers and options.secured is not None:
        raise BrokerError(
            f"KAFKA_BOOTSTRAP_SERVERS={options.bootstrap_servers} names a broker, and --secured starts one: "
            "unset it"
        )
    if options.bootstrap_servers:
        return reach(options.bootstrap_servers), False
    with lock(home):
        running = recall(home)
        if running is not None:
            _refuse_another(running, options)
            return running, False
        fresh = _start_fresh(home, options)
        remember(home, fresh)
        return fresh, True


def _start_fresh(home: Path, options: StartOptions) -> Broker:
    port = options.port or DEFAULT_PORT
    if options.secured is None:
        return start_broker(Layout(home / "broker", options.data or home / "broker" / "data", JARS), port)
    folder = home / "secured"
    *_, tls_port = find_free_ports(3)  # `launch` takes the two before
    security = BrokerSecurity(folder, tls_port, require_passwords(folder, options.secured))
    work = folder / "broker"
    try:
        broker = local.launch(Layout(work, options.data or work / "data", JARS), port, security=security)
    except BrokerError as error:
        raise BrokerError(f"A secured broker runs on a local JVM alone: {error}") from error
    for user in security.passwords:
        security.write_login(port, user)
    return broker


def stop(home: Path) -> str | None:
    """The address of the broker that was stopped; None if none ran. Raises BrokerError."""
    with lock(home):
        running = recall(home)
        if running is not None:
            running.close()
        forget(home)
        return None if running is None else running.bootstrap_servers


def read_status(home: Path, bootstrap_servers: str | None) -> Status | None:
    """The broker that KAFKA_BOOTSTRAP_SERVERS names, else ours; None if ours does not run."""
    if bootstrap_servers:
        return Status("external", bootstrap_servers, is_answering(bootstrap_servers))
    running = recall(home)
    if running is None:
        return None
    cluster = running.cluster if isinstance(running, LocalBroker) else running.bootstrap_servers
    status = Status(running.kind, running.bootstrap_servers, is_answering(cluster))
    return _add_local(status, running) if isinstance(running, LocalBroker) else status


def _add_local(status: Status, broker: LocalBroker) -> Status:
    pid = broker.identity.pid if broker.identity else None
    return Status(
        status.kind,
        status.bootstrap_servers,
        status.answers,
        pid,
        str(broker.layout.data),
        str(broker.layout.log),
        None if broker.security is None else str(broker.security.folder),
    )


def _refuse_another(running: Broker, options: StartOptions) -> None:
    other_port = options.port is not None and not running.bootstrap_servers.endswith(f":{options.port}")
    other_data = options.data is not None and (
        not isinstance(running, LocalBroker) or running.layout.data.resolve() != options.data.resolve()
    )
    is_open = not isinstance(running, LocalBroker) or running.security is None
    if is_open and options.secured is not None:
        raise BrokerError(
            f"A broker of this checkout that asks nobody to log in runs at {running.bootstrap_servers}; "
            "`sluice broker stop` first"
        )
    if other_port or other_data:
        raise BrokerError(
            f"A broker of this checkout already runs at {running.bootstrap_servers} with another port or "
            "data folder; `sluice broker stop` first"
        )
