"""A broker that runs already and is not ours to start or stop."""

from __future__ import annotations

from dataclasses import dataclass

from app.broker.errors import BrokerError
from app.broker.ready import wait_until_ready

READY_S = 15.0


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
    """The broker at `bootstrap_servers` once it has answered. Raises BrokerError after `READY_S` seconds."""
    if not wait_until_ready(bootstrap_servers, READY_S, lambda: True):
        raise BrokerError(
            f"KAFKA_BOOTSTRAP_SERVERS={bootstrap_servers}, but no broker answered there within "
            f"{READY_S:.0f} s. Start it, correct the address, or unset it to have one started here."
        )
    return ExternalBroker(bootstrap_servers)
