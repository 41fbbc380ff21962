"""Mend 12: docker-compose.yml holds together. What `init` does: tests/kafka/test_init.py."""

from __future__ import annotations

import re
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from redis import Redis
from redis.exceptions import AuthenticationError
from redis.exceptions import ConnectionError as RedisConnectionError

from sluice.cli.main import VERBS
from sluice.secrets.redis_seal import add_password
from sluice.settings.reader import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from load.installations.redis_server import RedisServer

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def mounts(service: str) -> dict[str, str]:
    return dict(one.split(":", 1) for one in COMPOSE["services"][service].get("volumes", []))


def test_every_service_and_volume_that_is_named_is_there() -> None:
    services = COMPOSE["services"]
    for name, service in services.items():
        assert service.get("depends_on", {}).keys() <= services.keys(), name
        assert mounts(name).keys() <= COMPOSE["volumes"].keys(), name


def test_the_worker_waits_for_init_reads_its_settings_and_has_no_private_key() -> None:
    worker, init = COMPOSE["services"]["worker"], COMPOSE["services"]["init"]
    assert worker["depends_on"] == {"init": {"condition": "service_completed_successfully"}}
    assert worker["environment"]["SLUICE_CONFIG"] == init["environment"]["SLUICE_CONFIG"]
    home = init["command"][init["command"].index("--home") + 1]
    assert worker["environment"]["SLUICE_CONFIG"] == f"{home}/sluice.toml"
    assert mounts("init") == {
        "home": home,
        "keys": f"{home}/keys",
        "redis-secret": f"{home}/redis",
        "heads-key": f"{home}/heads",
    }
    assert mounts("worker") == {"home": f"{home}:ro"}
    assert f"install -d -o sluice -g sluice -m 0700 {home} {home}/keys {home}/redis" in DOCKERFILE


def test_no_container_may_gain_a_privilege_or_write_to_its_file_system() -> None:
    """Mend 22.10: what breaks into one container finds as little as can be."""
    for name, service in COMPOSE["services"].items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["read_only"] is True, name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert "privileged" not in service, name
        assert "cap_add" not in service, name
        written = [one.split(":")[0] for one in service["tmpfs"]]
        assert "/tmp" in written, name  # noqa: S108 - in a container
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), name


def test_redis_wants_a_password_that_init_makes_and_the_repository_does_not_have() -> None:
    """Mend 22.10: the password is in a volume of init, Redis and the gateway, and in no argument or line."""
    services = COMPOSE["services"]
    redis, gateway = services["redis"], services["gateway"]
    file = services["init"]["environment"]["SLUICE_REDIS__PASSWORD_FILE"]
    assert file == gateway["environment"]["SLUICE_REDIS__PASSWORD_FILE"]
    assert mounts("init")["redis-secret"] == str(Path(file).parent)
    assert mounts("gateway")["redis-secret"] == f"{Path(file).parent}:ro"
    assert mounts("redis") == {"redis-secret": "/run/sluice-redis:ro"}
    assert {name for name in services if "redis-secret" in mounts(name)} == {"init", "redis", "gateway"}
    (*_, script) = redis["command"]
    assert "requirepass" in script
    assert '"$$(cat /run/sluice-redis/password)" > /tmp/redis.conf' in script
    assert "--requirepass" not in script, "arguments are seen by every process"
    assert "@" not in gateway["environment"]["SLUICE_GATEWAY__REDIS_URL"]
    assert redis["depends_on"] == {"init": {"condition": "service_completed_successfully"}}
    assert f"--uid {redis['user'].split(':')[0]} sluice" in DOCKERFILE, "who may read the file"


def test_the_head_signers_key_is_in_no_other_container_but_that_which_makes_it() -> None:
    """A worker's host that is taken over can write a partition again, and must not sign the result."""
    services = COMPOSE["services"]
    init, signer = services["init"]["environment"], services["signer"]["environment"]
    path = Path(signer["SLUICE_HEADS__SIGNING_KEY"])
    assert init["SLUICE_HEADS__SIGNING_KEY"] == str(path)
    assert mounts("signer")["heads-key"] == f"{path.parent}:ro"
    assert {name for name in services if "heads-key" in mounts(name)} == {"init", "signer"}
    assert str(path.parent) in DOCKERFILE, "a new volume takes the owner of the folder in the image"


def test_the_archive_is_in_a_volume_of_its_own() -> None:
    path = COMPOSE["services"]["archiver"]["environment"]["SLUICE_ARCHIVE__LOCATION"]
    assert mounts("archiver")["archive"] == path
    assert path in DOCKERFILE


def test_every_variable_is_a_setting_that_takes_its_value() -> None:
    """An unknown one would end each of these processes when it starts."""
    for name, service in COMPOSE["services"].items():
        given = {key: expand(str(value)) for key, value in service.get("environment", {}).items()}
        ours = {key: value for key, value in given.items() if key.startswith("SLUICE_")}
        assert bool(ours) == (service.get("image") == "sluice:local"), name
        ours.pop("SLUICE_CONFIG", None)
        load_settings(environment=ours)


def expand(text: str) -> str:
    """A value as compose passes it on where the caller's environment says nothing."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


def test_each_process_that_stays_says_whether_it_works_and_is_started_again() -> None:
    for name, service in COMPOSE["services"].items():
        stays = name != "init"
        assert ("healthcheck" in service) == stays, name
        assert (service["restart"] != "no") == stays, name


def test_the_commands_are_verbs_of_sluice() -> None:
    ours = {name: one["command"][0] for name, one in COMPOSE["services"].items() if "build" in one}
    processes = {"worker": "worker", "gateway": "gateway", "notifier": "notify"}
    assert ours == {"init": "init", **processes, "signer": "ledger", "archiver": "archive"}
    assert set(ours.values()) <= VERBS.keys()


def test_the_redis_of_the_compose_file_refuses_who_has_no_password(
    real_redis: type[RedisServer], tmp_path: Path
) -> None:
    """Mend 22.10: the same line, with the paths of this test, in a real Redis."""
    assert real_redis
    (tmp_path / "password").write_text("a-secret\n")
    (*_, script) = COMPOSE["services"]["redis"]["command"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = (
        script.replace("$$", "$")
        .replace("/run/sluice-redis", str(tmp_path))
        .replace("/tmp/redis", f"{tmp_path}/redis")  # noqa: S108
    )
    server = subprocess.Popen(["sh", "-c", f"{script} --port {port} --dir {tmp_path}"])
    try:
        url = f"redis://127.0.0.1:{port}/0"
        with Redis.from_url(add_password(url, tmp_path / "password")) as client:
            retry(client.ping)
        with Redis.from_url(url) as stranger, pytest.raises(AuthenticationError):
            stranger.ping()
    finally:
        server.terminate()
        server.wait(10)


def retry(step: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            step()
        except RedisConnectionError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        else:
            return
