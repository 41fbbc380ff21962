"""What a broker is to whoever needs one, however it runs."""

from __future__ import annotations

from typing import Protocol


class Broker(Protocol):
    """A Kafka broker that answered an admin call.

    `stop`, `kill` and `start` are for fault runs: data and address survive them. A broker that is not ours
    (`kind == "external"`) refuses all three with BrokerError.
    """

    @property
    def kind(self) -> str:
        """`external`, `docker` or `jvm`."""

    @property
    def bootstrap_servers(self) -> str:
        """`host:port`, the same before and after a restart."""

    def stop(self) -> None:
        """SIGTERM, and wait until it has gone."""

    def kill(self) -> None:
        """SIGKILL, and wait until it has gone."""

    def start(self) -> None:
        """Start it again on the same data and address, and wait until it answers."""

    def close(self) -> None:
        """Stop it for good if it is ours. Calling it twice is harmless."""
