"""`sluice broker`: start, find and stop the one broker of this checkout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.broker import external, locate, state
from app.broker.errors import BrokerError
from app.broker.local import Layout, LocalBroker
from app.broker.ready import answers

if TYPE_CHECKING:
    from pathlib import Path

    from app.broker.handle import Broker

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


@dataclass(frozen=True)
class Wish:
    """What `start` was asked for; None: not said."""

    bootstrap_servers: str | None = None
    port: int | None = None
    data: Path | None = None


def start(home: Path, wish: Wish) -> tuple[Broker, bool]:
    """The running broker and whether it was started now. Raises BrokerError."""
    if wish.bootstrap_servers:
        return external.reach(wish.bootstrap_servers), False
    with state.locked(home):
        running = state.recall(home)
        if running is not None:
            _refuse_another(running, wish)
            return running, False
        layout = Layout(home / "broker", wish.data or home / "broker" / "data", locate.JARS)
        fresh = locate.start_broker(layout, wish.port or DEFAULT_PORT)
        state.remember(home, fresh)
        return fresh, True


def stop(home: Path) -> str | None:
    """The address of the broker that was stopped; None if none ran. Raises BrokerError."""
    with state.locked(home):
        running = state.recall(home)
        if running is not None:
            running.close()
        state.forget(home)
        return None if running is None else running.bootstrap_servers


def status(home: Path, bootstrap_servers: str | None) -> Status | None:
    """The broker that KAFKA_BOOTSTRAP_SERVERS names, else ours; None if ours does not run."""
    if bootstrap_servers:
        return Status("external", bootstrap_servers, answers(bootstrap_servers))
    running = state.recall(home)
    if running is None:
        return None
    known = Status(running.kind, running.bootstrap_servers, answers(running.bootstrap_servers))
    return _with_local(known, running) if isinstance(running, LocalBroker) else known


def _with_local(known: Status, broker: LocalBroker) -> Status:
    pid = broker.identity.pid if broker.identity else None
    return Status(
        known.kind,
        known.bootstrap_servers,
        known.answers,
        pid,
        str(broker.layout.data),
        str(broker.layout.log),
    )


def _refuse_another(running: Broker, wish: Wish) -> None:
    other_port = wish.port is not None and not running.bootstrap_servers.endswith(f":{wish.port}")
    other_data = wish.data is not None and (
        not isinstance(running, LocalBroker) or running.layout.data.resolve() != wish.data.resolve()
    )
    if other_port or other_data:
        raise BrokerError(
            f"A broker of this checkout already runs at {running.bootstrap_servers} with another port or "
            "data folder; `sluice broker stop` first"
        )
