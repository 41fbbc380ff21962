"""A broker of one node, on the JVM or in a container: free loopback ports and the KRaft configuration."""

from __future__ import annotations

import os
import socket

LOOPBACK = "127.0.0.1"
# Below the range from which systems take ports for outgoing connections: a client that retries while the
# broker is down could otherwise be given the broker's own port, and connect to itself.
FIRST, LAST = 20000, 29000


def is_free(port: int) -> bool:
    """Whether a listener could bind `port` on loopback now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def free_ports(count: int) -> list[int]:
    """`count` free ports; where to begin depends on our pid, so that parallel runs do not meet."""
    begin = os.getpid() * 16 % (LAST - FIRST)
    order = (FIRST + (begin + step) % (LAST - FIRST) for step in range(LAST - FIRST))
    free = (port for port in order if is_free(port))
    return [next(free) for _ in range(count)]


# The largest record Sluice writes is 4 MB; batches, fetches and requests need room above it.
MESSAGE_MAX_BYTES = 8 * 1024 * 1024

SINGLE_NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "8",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # After SIGKILL the controller takes the same broker back only when its old session has run out.
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "message.max.bytes": str(MESSAGE_MAX_BYTES),
    "replica.fetch.max.bytes": str(MESSAGE_MAX_BYTES),
}


def listeners(port: int, controller_port: int, bind: str) -> dict[str, str]:
    """Where it listens (`bind` is an address) and what it tells clients on this machine."""
    return {
        "listeners": f"PLAINTEXT://{bind}:{port},CONTROLLER://{bind}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
    }


def as_file(properties: dict[str, str]) -> str:
    """`server.properties`."""
    return "".join(f"{name}={value}\n" for name, value in properties.items())


def as_environment(properties: dict[str, str]) -> dict[str, str]:
    """The same as the official image takes it: KAFKA_ and the name in capitals, dots as underscores."""
    return {f"KAFKA_{name.upper().replace('.', '_')}": value for name, value in properties.items()}
