"""The first of the three ways to a broker that works: one that runs, Docker, a local JVM."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from app.broker import docker, external, local
from app.broker.errors import BrokerError, NoBrokerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from app.broker.handle import Broker

HOME = Path(__file__).resolve().parent.parent.parent / "build" / "kafka"
JARS = HOME / "jars"


def find_broker(bootstrap_servers: str | None, work: Path, port: int | None = None) -> Broker:
    """A broker that answers; `.close()` ends it if it was started here.

    `bootstrap_servers` is the value of KAFKA_BOOTSTRAP_SERVERS (None or empty: not set). If it is set, that
    broker and no other: a run against the wrong cluster is worse than none. `work` keeps a local broker's
    data and log. Raises BrokerError; NoBrokerError names the three ways and why each was passed over.
    """
    if bootstrap_servers:
        return external.reach(bootstrap_servers)
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
