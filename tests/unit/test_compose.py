"""Mend 12: docker-compose.yml holds together. What `init` does: tests/kafka/test_init.py."""

from __future__ import annotations

from pathlib import Path

import yaml

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
    assert mounts("init") == {"home": home, "keys": f"{home}/keys"}
    assert mounts("worker") == {"home": f"{home}:ro"}
    assert f"install -d -o sluice -m 0700 {home} {home}/keys" in DOCKERFILE
