"""Why nobody is let in: in one line, in one time for all addresses, final only where a login is refused."""

from __future__ import annotations

import asyncio
import ssl
import time
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError, SaslAuthenticationFailed

from sluice.client import BrokerUnreachable, KafkaConnection, LoginRefused
from sluice.client import kafka_login as probe
from sluice.client.exchange import Exchange
from sluice.client.kafka_login import find_login_fault


def use_answers(monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any]) -> KafkaConnection:
    """What each host does: an error to raise, the brokers that it names, or `silent`."""

    async def connect(host: str, _port: int, **_: Any) -> Any:
        answer = answers[host]
        if answer == "silent":
            await asyncio.sleep(60)
        if isinstance(answer, Exception):
            raise answer

        async def send(_: object) -> Any:
            if answer == "answers nothing more":
                raise TimeoutError
            if answer == "closes later":
                raise KafkaConnectionError
            return SimpleNamespace(brokers=answer)

        return SimpleNamespace(send=send, close=lambda: None)

    monkeypatch.setattr(probe, "create_conn", connect)
    return KafkaConnection(
        ",".join(answers), "SASL_SSL", None, None, None, None, "SCRAM-SHA-512", "worker", "x"
    )


def make_tls_error(reason: str, kind: type[ssl.SSLError] = ssl.SSLError) -> ssl.SSLError:
    error = kind(1, reason)
    error.reason = reason
    if isinstance(error, ssl.SSLCertVerificationError):
        error.verify_message = reason
    return error


REFUSED = SaslAuthenticationFailed("wrong")
CLOSED = KafkaConnectionError("closed")


@pytest.mark.parametrize("bad", [REFUSED, CLOSED, ConnectionRefusedError(), "silent", "closes later", []])
async def test_one_address_that_lets_us_in_is_enough(monkeypatch: pytest.MonkeyPatch, bad: object) -> None:
    assert await find_login_fault(use_answers(monkeypatch, {"bad": bad, "good": ["broker"]})) is None


@pytest.mark.parametrize(
    ("answers", "is_final", "told"),
    [
        ([CLOSED], False, "a0:9092 closed the connection"),
        (["closes later"], False, "a0:9092 closed the connection"),
        (["answers nothing more"], False, "a0:9092 answers no request"),
        ([[]], False, "a0:9092 names no brokers"),
        ([ConnectionRefusedError()], False, "a0:9092 does not answer"),
        ([CLOSED, ConnectionRefusedError()], False, "a1:9092 does not answer"),
        ([make_tls_error("WRONG_VERSION_NUMBER")], False, "no TLS with a0:9092: WRONG"),
        ([make_tls_error("UNEXPECTED_EOF_WHILE_READING")], False, "no TLS with a0:9092"),
        ([make_tls_error("TLSV13_ALERT_CERTIFICATE_REQUIRED")], True, "no TLS with a0:9092"),
        ([make_tls_error("TLSV1_ALERT_UNKNOWN_CA")], True, "no TLS with a0:9092"),
        ([CLOSED, REFUSED], True, "a1:9092 refuses user worker"),
        ([make_tls_error("expired", ssl.SSLCertVerificationError)], True, "a0:9092 is not trusted"),
    ],
)
async def test_only_what_is_refused_is_final(
    monkeypatch: pytest.MonkeyPatch, answers: list[object], is_final: bool, told: str
) -> None:
    cluster = use_answers(monkeypatch, {f"a{i}": one for i, one in enumerate(answers)})
    fault = await find_login_fault(cluster)
    assert fault is not None
    assert told in fault.message
    assert "\n" not in fault.message
    assert fault.is_final == is_final
    with pytest.raises(BrokerUnreachable) as raised:
        await Exchange(cluster, "t.").start(1)
    assert isinstance(raised.value, LoginRefused) == is_final


async def test_silent_addresses_share_one_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = use_answers(monkeypatch, dict.fromkeys(("a0", "a1", "a2"), "silent"))
    started = time.monotonic()
    with pytest.raises(BrokerUnreachable, match=r"a0:9092, a1:9092, a2:9092 did not answer within 0\.3 s"):
        await Exchange(cluster, "t.").start(0.3)
    assert time.monotonic() - started < 0.8
