"""The same single-node broker in a container of the official Apache Kafka image, through testcontainers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sluice.broker import handle
from sluice.broker.handle import BrokerError, wait_until_ready

if TYPE_CHECKING:
    from collections.abc import Mapping

IMAGE = "apache/kafka:4.1.0"
READY_S = 90.0
STOP_S = 30
DATA = "/tmp/kraft-combined-logs"  # noqa: S108 - inside the container, and where the image may write


@dataclass
class DockerBroker:
    """A container; it outlives this object until `close`. Data live in it, so a restart keeps them."""

    port: int
    container_id: str
    kind: str = field(default="docker", init=False)

    @property
    def bootstrap_servers(self) -> str:
        return f"{handle.LOOPBACK}:{self.port}"

    def is_alive(self) -> bool:
        """Whether the container runs."""
        container = _find_container(self.container_id)
        return container is not None and container.status == "running"

    def start(self) -> None:
        """Start the stopped container and wait until the broker answers. Raises BrokerError."""
        self._require_container().start()
        self.wait()

    def stop(self) -> None:
        """SIGTERM, and SIGKILL if it has not gone after `STOP_S` seconds."""
        self._require_container().stop(timeout=STOP_S)

    def kill(self) -> None:
        """SIGKILL."""
        if self.is_alive():
            self._require_container().kill()

    def close(self) -> None:
        """Remove the container with its data."""
        container = _find_container(self.container_id)
        if container is not None:
            container.remove(force=True, v=True)

    def wait(self) -> None:
        """Return when it answers. Raises BrokerError after `READY_S` seconds or when the container ends."""
        if not wait_until_ready(self.bootstrap_servers, READY_S, self.is_alive):
            raise BrokerError(f"The broker's container did not answer at {self.bootstrap_servers}")

    def _require_container(self) -> Any:
        container = _find_container(self.container_id)
        if container is None:
            raise BrokerError("The broker's container is gone; start a new one")
        return container


def launch(port: int | None = None, more: Mapping[str, str] | None = None) -> DockerBroker:
    """A new broker on `port` of loopback (or a free one), with `more` broker properties.

    Raises BrokerError: no testcontainers, no daemon, image not to be had, not ready in time.
    """
    chosen, controller = handle.find_free_ports(2)
    port = port or chosen
    _connect_client()
    broker = DockerBroker(port, _run(port, controller, more or {}))
    try:
        broker.wait()
    except BaseException:
        broker.close()
        raise
    return broker


def _run(port: int, controller_port: int, more: Mapping[str, str]) -> str:
    from docker.errors import DockerException  # noqa: PLC0415 - see _client
    from testcontainers.core.config import testcontainers_config  # noqa: PLC0415
    from testcontainers.core.container import DockerContainer  # noqa: PLC0415

    # Its reaper would remove the container with this process; ours has to survive `sluice broker start`.
    testcontainers_config.ryuk_disabled = True
    where = {
        **handle.write_listeners(port, controller_port, "0.0.0.0"),  # noqa: S104 - of the container's own network
        "listeners": f"PLAINTEXT://0.0.0.0:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "log.dirs": DATA,
        **more,
    }
    container = DockerContainer(IMAGE).with_envs(
        **handle.write_environment({**handle.SINGLE_NODE, **where}), KAFKA_HEAP_OPTS="-Xmx512m"
    )
    container.ports[port] = (handle.LOOPBACK, port)
    try:
        return str(container.start().get_container_id())
    except (DockerException, OSError) as error:
        container.stop()  # created but not started, for one: its port was taken
        raise BrokerError(f"Docker could not run {IMAGE}: {error}") from error


def _connect_client() -> Any:
    """A client of a daemon that answers. Raises BrokerError."""
    try:
        # Here and not above: it comes with the development extra, and a worker's start need not pay for it.
        from docker.errors import DockerException  # noqa: PLC0415
        from testcontainers.core.docker_client import DockerClient  # noqa: PLC0415
    except ImportError:
        raise BrokerError("testcontainers is not installed (it comes with the dev extra)") from None
    try:
        client = DockerClient().client
        client.ping()
    except (DockerException, OSError) as error:
        raise BrokerError(f"no Docker daemon answers ({type(error).__name__})") from error
    return client


def _find_container(container_id: str) -> Any | None:
    from docker.errors import NotFound  # noqa: PLC0415

    try:
        return _connect_client().containers.get(container_id)
    except NotFound:
        return None
