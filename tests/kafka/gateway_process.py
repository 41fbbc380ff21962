"""A gateway process on a test's installation, with API keys, and an HTTP client that speaks for a caller."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx2

from load import PLAIN
from load.installations import command_process, neutral_policy
from load.installations.command_process import start_command
from sluice.gateway.http.api_keys import ApiKeyFile, make_key, read_keys, write_keys
from sluice.secrets.redis_seal import make_seal_key, write_seal_keys
from tests.kafka.installation import DEADLINE_S, END_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from load.installations.forked_process import ForkedProcess
    from load.installations.installation import TestInstallation
    from sluice.gateway.http.api_keys import KeyRole

OTHER_TENANT, OTHER_AGENT = "other", "other-agent"
SHADOW_TENANT, SHADOW_AGENT = "shadowed", "shadowed-agent"
ESCALATING_TOOL = "load.refund"


def entries() -> list[dict[str, Any]]:
    """Two further tenants with an agent each, one in shadow, and a tool that a person must approve."""
    refund = {"tier": "T3", "action_type": "PAYMENT", "reversible": False, "trusts_row_claims": True}
    org = {"enforcement": "shadow", "forbidden_targets": []}
    specs: dict[tuple[str, str], dict[str, Any]] = {
        ("tool", ESCALATING_TOOL): refund,
        ("org", SHADOW_TENANT): org,
        ("agent", OTHER_AGENT): {"tenant_id": OTHER_TENANT, "tier": "T2"},
        ("agent", SHADOW_AGENT): {"tenant_id": SHADOW_TENANT, "tier": "T2"},
    }
    return [{"kind": kind, "id": name, "revision": 1, "spec": spec} for (kind, name), spec in specs.items()]


@dataclass
class Gateway:
    """A running gateway. `keys`: its file of API keys."""

    url: str
    keys: Path
    process: ForkedProcess
    log: Path

    def key(
        self,
        tenant: str = neutral_policy.TENANT,
        agents: list[str] | None = None,
        role: KeyRole | None = None,
    ) -> str:
        """A new API key."""
        key, words = make_key(tenant, agents, "", "2026-11-23T00:00:00.000Z", role)
        write_keys(self.keys, ApiKeyFile(keys=[*read_keys(self.keys).keys, key]))
        return words

    def client(self, key: str | None = None, **headers: str) -> httpx2.Client:
        """A client that sends this key; None: a new one of the load tenant's agent."""
        given = key or self.key(agents=[neutral_policy.AGENT])
        return httpx2.Client(
            base_url=self.url,
            headers={"X-Mnemom-Api-Key": given, **headers},
            timeout=DEADLINE_S,
            verify=PLAIN,
        )

    def kill(self) -> None:
        """As if its machine had gone."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(END_S)

    def read_log(self) -> str:
        """Its log."""
        return self.log.read_text(encoding="utf-8", errors="replace")


def action(session: str, **more: Any) -> dict[str, Any]:
    """A request of seed 001 that is allowed, unless `more` says otherwise."""
    return {
        "toolName": neutral_policy.READ_TOOL,
        "parameters": {"table": "orders"},
        "sessionId": session,
        "mode": "high_stakes",
        "rows_affected": 10,
    } | more


def redis_keys(installation: TestInstallation) -> Path:
    """The file of keys with which gateways of an installation seal what they keep in a Redis."""
    path = installation.folder / "redis.keys"
    if not path.exists():
        write_seal_keys(path, (make_seal_key(),))
    return path


def find_port() -> int:
    """A free port that the system gives no connection of another process until the gateway listens."""
    while True:
        port = secrets.randbelow(10_000) + 20_000
        with socket.socket() as free, suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port


def start(
    installation: TestInstallation, name: str, module: str = command_process.__name__, **settings: Any
) -> Gateway:
    """A gateway that is ready; all of an installation have the same keys. `module`: whose `main` it runs;
    `settings`: of its group."""
    port = find_port()
    keys, log = installation.folder / "api_keys.json", installation.folder / f"{name}.log"
    own = {key: value for key, value in os.environ.items() if not key.startswith(("SLUICE_", "KAFKA_"))}
    given = {"port": port, "api_keys": keys, "requests_per_s": 10_000, "burst": 10_000, **settings}
    environment = {
        f"SLUICE_GATEWAY__{name.upper()}": value if isinstance(value, str) else json.dumps(value, default=str)
        for name, value in given.items()
    }
    environment["SLUICE_GATEWAY__API_KEYS"] = str(keys)
    if "redis_url" in settings:
        environment["SLUICE_REDIS__KEY_FILE"] = str(redis_keys(installation))
    process = start_command(["gateway"], {**own, **installation.settings, **environment}, log, module)
    gateway = Gateway(f"http://127.0.0.1:{port}", keys, process, log)
    _await_ready(gateway)
    return gateway


def _await_ready(gateway: Gateway) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while True:
        assert gateway.process.poll() is None, gateway.read_log()
        assert time.monotonic() < deadline, gateway.read_log()
        with suppress(httpx2.TransportError):
            if httpx2.get(f"{gateway.url}/readyz", verify=PLAIN).status_code == 200:
                return
        time.sleep(0.05)


@contextmanager
def run_gateway(installation: TestInstallation, name: str = "gateway", **settings: Any) -> Iterator[Gateway]:
    """The same, stopped in good order afterwards, unless it was killed."""
    gateway = start(installation, name, **settings)
    try:
        yield gateway
    finally:
        if gateway.process.poll() is None:
            gateway.process.terminate()
            assert gateway.process.wait(END_S) == 0, gateway.read_log()
