"""The first of the three ways to a broker that works: one that runs already, Docker, a local JVM."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from app.broker import docker, local
from app.broker.handle import BrokerError, NoBrokerError, wait_until_ready

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from app.broker.handle import Broker

EXTERNAL_READY_S = 15.0


@dataclass(frozen=True)
class ExternalBroker:
    """The one KAFKA_BOOTSTRAP_SERVERS names."""

    bootstrap_servers: str
    kind: str = "external"

    def stop(self) -> None:
        self._not_ours()

    def kill(self) -> None:
        self._not_ours()

    def start(self) -> None:
        self._not_ours()

    def close(self) -> None:
        """Nothing: whoever started it ends it."""

    def _not_ours(self) -> None:
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


HOME = Path(__file__).resolve().parent.parent.parent / "build" / "kafka"
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

    `more`: broker properties that it gets beside those of every broker of ours.
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
def broker(bootstrap_servers: str | None, work: Path) -> Iterator[Broker]:
    """`find_broker`, closed at the end whatever happens."""
    found = find_broker(bootstrap_servers, work)
    try:
        yield found
    finally:
        found.close()
