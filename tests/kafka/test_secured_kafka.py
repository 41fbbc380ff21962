"""On a broker with TLS, logins and an authorizer: every way to log in works, and a failed one is one line."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from sluice.adapters.kafka.kafka_read import KafkaRefused, KafkaUnreachable, list_partitions
from sluice.broker.handle import LOOPBACK
from sluice.broker.secured import ADMIN, BrokerSecurity
from sluice.client import AsyncGateClient, KafkaConnection, LoginRefused, TokenCommand
from tests.unit.client.test_kafka_connection import make_jwt

if TYPE_CHECKING:
    from pathlib import Path

    from sluice.broker.local import LocalBroker

pytestmark = pytest.mark.kafka


def require_security(broker: LocalBroker) -> BrokerSecurity:
    assert broker.security is not None
    return broker.security


def log_in(broker: LocalBroker, mechanism: Any, user: str = ADMIN, **more: Any) -> KafkaConnection:
    security = require_security(broker)
    given: dict[str, Any] = {"ca_file": security.ca_file, "sasl_mechanism": mechanism}
    if mechanism == "OAUTHBEARER":
        now = time.time()
        jwt = more.pop("jwt", None) or make_jwt(sub=user, iat=now, exp=now + 600)
        given["tokens"] = TokenCommand((sys.executable, "-c", f"print({jwt!r})"))
    else:
        given |= {"username": user, "password": security.passwords[user]}
    return KafkaConnection(broker.bootstrap_servers, "SASL_SSL", **(given | more))


def show_certificate(broker: LocalBroker, user: str) -> KafkaConnection:
    security = require_security(broker)
    certificate, key = security.issue(user)
    servers = f"{LOOPBACK}:{security.tls_port}"
    return KafkaConnection(
        servers, "SSL", ca_file=security.ca_file, certificate_file=certificate, key_file=key
    )


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
async def test_every_mechanism_logs_in(secured_kafka: LocalBroker, mechanism: str) -> None:
    assert await list_partitions(log_in(secured_kafka, mechanism), []) == []


async def test_a_certificate_logs_in(secured_kafka: LocalBroker) -> None:
    assert await list_partitions(show_certificate(secured_kafka, "admin"), []) == []


@pytest.mark.parametrize(
    ("mechanism", "wrong", "told"),
    [
        ("PLAIN", {"password": "wrong"}, "refuses user admin (PLAIN): "),
        ("SCRAM-SHA-512", {"password": "wrong"}, "refuses user admin (SCRAM-SHA-512): "),
        ("SCRAM-SHA-512", {"ca_file": None}, "is not trusted by the CAs of this system: "),
        ("OAUTHBEARER", {"jwt": make_jwt(sub="admin", iat=1, exp=2)}, "the token that was answered ended "),
        ("OAUTHBEARER", {"jwt": "rubbish"}, "refuses the token (OAUTHBEARER)"),
    ],
)
async def test_a_failed_login_is_one_clear_line(
    secured_kafka: LocalBroker, mechanism: str, wrong: dict[str, Any], told: str
) -> None:
    with pytest.raises(KafkaUnreachable) as raised:
        await list_partitions(log_in(secured_kafka, mechanism, **wrong), [])
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "wrong" not in str(raised.value)
    started = time.monotonic()
    with pytest.raises(LoginRefused) as refused:
        async with AsyncGateClient(log_in(secured_kafka, mechanism, **wrong), "agent"):
            pass
    assert told in str(refused.value)
    assert time.monotonic() - started < 5, "a client says so at once"


async def test_without_a_certificate_the_line_says_what_may_be_missing(secured_kafka: LocalBroker) -> None:
    security = require_security(secured_kafka)
    nobody = KafkaConnection(f"{LOOPBACK}:{security.tls_port}", "SSL", ca_file=security.ca_file)
    with pytest.raises(KafkaRefused, match="it may ask for a client certificate"):
        await list_partitions(nobody, [])


def test_a_command_says_in_one_line_that_the_password_is_wrong(
    secured_kafka: LocalBroker, tmp_path: Path
) -> None:
    (tmp_path / "word").write_text("wrong")
    done = run_sluice(
        "topics",
        "list",
        settings=write_settings(secured_kafka, "nobody", PASSWORD_FILE=str(tmp_path / "word")),
    )
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "the broker refuses this: " in line
    assert "refuses user nobody (SCRAM-SHA-512)" in line


def write_settings(broker: LocalBroker, user: str, **more: str) -> dict[str, str]:
    """The environment of a process that logs in as a user."""
    security = require_security(broker)
    given = {
        "BOOTSTRAP_SERVERS": broker.bootstrap_servers,
        "SECURITY_PROTOCOL": "SASL_SSL",
        "CA_FILE": str(security.ca_file),
        "SASL_MECHANISM": "SCRAM-SHA-512",
        "USERNAME": user,
    }
    given |= more or {"PASSWORD": security.passwords[user]}
    return {f"SLUICE_KAFKA__{name}": value for name, value in given.items()}


def run_sluice(*words: str, settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
    environment.pop("KAFKA_BOOTSTRAP_SERVERS", None)
    command = [sys.executable, "-m", "sluice", *words]
    return subprocess.run(
        command, env=environment | settings, capture_output=True, text=True, check=False, timeout=60
    )
