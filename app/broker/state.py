"""The broker that `sluice broker start` left running, found again by a later command."""

from __future__ import annotations

import fcntl
import json
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from app.broker.docker import DockerBroker
from app.broker.errors import BrokerError
from app.broker.local import Layout, LocalBroker
from app.broker.process import ProcessIdentity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.broker.handle import Broker

NAME = "broker.json"


def remember(home: Path, broker: Broker) -> None:
    """Write down how to find `broker` again."""
    home.mkdir(parents=True, exist_ok=True)
    fresh = home / f"{NAME}.new"
    fresh.write_text(json.dumps(_record(broker), indent=1) + "\n", encoding="utf-8")
    fresh.replace(home / NAME)


def forget(home: Path) -> None:
    (home / NAME).unlink(missing_ok=True)


def recall(home: Path) -> LocalBroker | DockerBroker | None:
    """The remembered broker if it still runs, else None. Raises BrokerError for a file that is not ours."""
    path = home / NAME
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        found = _docker(record) if record["kind"] == "docker" else _local(record)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise BrokerError(f"{path} is not what `sluice broker start` writes ({error}); remove it") from error
    return found if found.alive() else None


@contextmanager
def locked(home: Path) -> Iterator[None]:
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


def _record(broker: Broker) -> dict[str, object]:
    if isinstance(broker, DockerBroker):
        return {"kind": "docker", "port": broker.port, "container_id": broker.container_id}
    if isinstance(broker, LocalBroker) and broker.identity is not None:
        return {
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


def _docker(record: dict[str, object]) -> DockerBroker:
    return DockerBroker(int(str(record["port"])), str(record["container_id"]))


def _local(record: dict[str, object]) -> LocalBroker:
    work, data, jars = (Path(str(record[name])) for name in ("work", "data", "jars"))
    identity = ProcessIdentity(int(str(record["pid"])), str(record["started"]))
    ports = int(str(record["port"])), int(str(record["controller_port"]))
    return LocalBroker(Layout(work, data, jars), *ports, identity)
