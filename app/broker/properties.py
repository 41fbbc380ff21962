"""The configuration of a single-node KRaft broker, for the local JVM and for the container alike."""

from __future__ import annotations

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
