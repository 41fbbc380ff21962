"""A connection to Kafka is one value: what does not fit together is named, secrets are not shown, and tokens
are renewed before they end."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import ssl
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import uvloop

from load.installations.loopback_http import HttpAnswer, HttpCall, serve_http
from sluice.broker.secured import BrokerSecurity
from sluice.client.kafka_connection import (
    ConnectionUnusable,
    KafkaConnection,
    build_client_arguments,
)
from sluice.client.kafka_tokens import TokenProvider
from sluice.client.token_sources import TokenCommand, TokenEndpoint, TokenUnavailable, read_token
from sluice.settings.reader import SettingsError, load_settings
from sluice.stream.application import _build_credentials
from tests.documents.blocks import blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = "s3cret-word"  # noqa: S105 - of nobody
FAR = "kafka.example.com:9093"
SCRAM: dict[str, Any] = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "SCRAM-SHA-512",
    "username": "worker",
    "password": SECRET,
}


def test_a_plain_connection_gives_the_addresses_alone() -> None:
    assert build_client_arguments("a:1,b:2") == {"bootstrap_servers": "a:1,b:2"}
    assert KafkaConnection("a:1,b:2").build_arguments() == {"bootstrap_servers": "a:1,b:2"}
    assert str(KafkaConnection("a:1,b:2")) == "a:1,b:2"
    assert _build_credentials("a:1") is None


def test_a_login_by_password_gives_what_aiokafka_and_faust_take() -> None:
    connection = KafkaConnection(FAR, **SCRAM)
    given = connection.build_arguments()
    assert given.pop("ssl_context").check_hostname
    assert given == {
        "bootstrap_servers": FAR,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "worker",
        "sasl_plain_password": SECRET,
    }
    faust: Any = _build_credentials(connection)
    assert (faust.protocol.value, faust.mechanism.value) == ("SASL_SSL", "SCRAM-SHA-512")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"ca_file": Path("ca.pem")}, "need TLS"),
        ({"security_protocol": "SSL", "certificate_file": Path("c.pem")}, "go together"),
        ({"security_protocol": "SSL", "username": "x"}, "needs security_protocol SASL_SSL"),
        ({"security_protocol": "SASL_SSL"}, "needs a sasl_mechanism"),
        ({**SCRAM, "security_protocol": "SASL_PLAINTEXT"}, "shows the login"),
        ({**SCRAM, "password": None}, "needs a username and a password"),
        ({**SCRAM, "sasl_mechanism": "OAUTHBEARER"}, "takes tokens"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}, "token_command or a token_url"),
        ({**SCRAM, "tokens": TokenCommand(("true",))}, "tokens are for OAUTHBEARER"),
        (
            {
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": "OAUTHBEARER",
                "tokens": TokenEndpoint("http://login.example.com/t", "id", SECRET),
            },
            "must be https",
        ),
    ],
)
def test_what_does_not_fit_together_is_named_without_a_secret(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ConnectionUnusable, match=told) as raised:
        KafkaConnection(FAR, **given)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("given", [SCRAM, {}])
def test_an_address_with_its_protocol_is_refused_with_what_to_write(given: dict[str, Any]) -> None:
    told = r"give b:9092 without SASL_SSL://, which security_protocol says"
    with pytest.raises(ConnectionUnusable, match=told):
        KafkaConnection("a:9092,SASL_SSL://b:9092", **given)


def test_no_secret_is_in_a_repr() -> None:
    tokens = TokenEndpoint("https://login.example.com/t", "id", SECRET)
    bearer = KafkaConnection(FAR, "SASL_SSL", sasl_mechanism="OAUTHBEARER", tokens=tokens)
    keyed = KafkaConnection(FAR, "SSL", certificate_file=Path("c"), key_file=Path("k"), key_password=SECRET)
    for one in (KafkaConnection(FAR, **SCRAM), bearer, keyed, TokenProvider(tokens), read_token(SECRET, 0)):
        assert SECRET not in repr(one)


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    security = BrokerSecurity(tmp_path, 0, {"admin": "x"})
    security.write_files()
    certificate, key = security.issue("one")
    _, other_key = security.issue("other")
    (tmp_path / "no.pem").write_text("nothing")
    for ca_file, key_file, told in (
        (tmp_path / "absent.pem", key, "absent.pem: No such file"),
        (tmp_path / "no.pem", key, "no.pem: "),
        (security.ca_file, tmp_path / "absent-key.pem", "absent-key.pem: No such file"),
        (security.ca_file, other_key, "other-key.pem: KEY_VALUES_MISMATCH"),
    ):
        connection = KafkaConnection(
            FAR, "SSL", ca_file=ca_file, certificate_file=certificate, key_file=key_file
        )
        with pytest.raises(ConnectionUnusable, match=told):
            connection.build_arguments()
    assert KafkaConnection(
        FAR, "SSL", ca_file=security.ca_file, certificate_file=certificate, key_file=key
    ).build_arguments()["ssl_context"]


def test_a_client_closes_though_the_broker_does_not_answer_the_close_of_tls(tmp_path: Path) -> None:
    """On the loop of gateways and workers, which would wait 30 s for the other side's close."""
    security = BrokerSecurity(tmp_path, 0, {"admin": "x"})
    security.write_files()
    certificate, key = security.issue("localhost")
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(certificate, key)
    arguments = KafkaConnection(FAR, "SSL", ca_file=security.ca_file).build_arguments()

    async def close_one(port: int) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=arguments["ssl_context"])
        writer.close()
        async with asyncio.timeout(10):
            await writer.wait_closed()

    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        accepting = pool.submit(lambda: serving.wrap_socket(server.accept()[0], server_side=True))
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(close_one(server.getsockname()[1]))
        accepting.result().close()  # until now it is open, and silent


def test_settings_read_a_secret_from_its_file_when_a_client_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    word = tmp_path / "word"
    for name, value in {
        "BOOTSTRAP_SERVERS": FAR,
        "SECURITY_PROTOCOL": "SASL_SSL",
        "SASL_MECHANISM": "PLAIN",
        "USERNAME": "worker",
        "PASSWORD_FILE": str(word),
    }.items():
        monkeypatch.setenv(f"SLUICE_KAFKA__{name}", value)
    kafka = load_settings().kafka
    with pytest.raises(ConnectionUnusable, match=r"kafka.password_file: .*word: No such file"):
        _ = kafka.connection
    word.write_text(f"{SECRET}\n")
    assert kafka.connection.password == SECRET
    monkeypatch.setenv("SLUICE_KAFKA__PASSWORD", SECRET)
    with pytest.raises(SettingsError, match="password and password_file are both set") as raised:
        load_settings()
    assert SECRET not in str(raised.value)
    monkeypatch.delenv("SLUICE_KAFKA__PASSWORD_FILE")
    settings = load_settings()
    assert settings.kafka.connection.password == SECRET
    assert SECRET not in repr(settings)
    assert SECRET not in settings.model_dump_json()


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("SECURITY_PROTOCOL", "TLS", "kafka.security_protocol"),
        ("SASL_MECHANISM", "GSSAPI", "kafka.sasl_mechanism"),
        ("USERNAME", "x", "needs security_protocol SASL_SSL"),
        ("CLIENT_ID", "x", "for a token_url"),
        ("TOKEN_COMMAND", "get-token", "must be JSON"),
    ],
)
def test_a_wrong_setting_of_the_connection_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, told: str
) -> None:
    monkeypatch.setenv(f"SLUICE_KAFKA__{name}", value)
    with pytest.raises(SettingsError, match=told):
        load_settings()


EXAMPLES = [one.text for one in blocks("docs/secured-kafka.md") if one.text.startswith("[kafka]")]


@pytest.mark.parametrize("text", EXAMPLES)
def test_the_settings_of_the_guide_fit_together(text: str, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(text)
    assert load_settings(tmp_path / "own.toml", environment={}).kafka.security_protocol != "PLAINTEXT"


def make_jwt(**claims: float | str) -> str:
    parts = (base64.urlsafe_b64encode(json.dumps(one).encode()).decode() for one in ({"alg": "none"}, claims))
    return ".".join([*(one.rstrip("=") for one in parts), ""])


def test_the_end_of_a_token_is_that_of_the_answer_or_of_the_token_itself() -> None:
    said = read_token(json.dumps({"access_token": "abc", "expires_in": 100}), 1000)
    assert (said.text, said.renew_s, said.ends_s) == ("abc", 1080, 1100)
    own = read_token(make_jwt(sub="x", exp=1200), 1000)
    assert (own.renew_s, own.ends_s) == (1160, 1200)
    unknown = read_token("opaque\n", 1000)
    assert (unknown.text, unknown.ends_s) == ("opaque", 1000)
    for wrong in ("", "two words", "{}", "{", make_jwt(exp=900), json.dumps({"access_token": 5})):
        with pytest.raises(TokenUnavailable):
            read_token(wrong, 1000)


class Clock:
    now = 1000.0

    def read(self) -> float:
        return self.now


def test_a_token_serves_many_logins_and_is_renewed_before_it_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    count = tmp_path / "count"
    program = tmp_path / "token.py"
    program.write_text(
        f"import json, pathlib\np = pathlib.Path({str(count)!r})\n"
        "n = int(p.read_text()) + 1 if p.exists() else 1\np.write_text(str(n))\n"
        f"if n == 3: raise SystemExit('POST with {SECRET}')\n"
        "print(json.dumps({'access_token': f'token-{n}', 'expires_in': 100}))\n"
    )
    clock = Clock()
    provider = TokenProvider(TokenCommand((sys.executable, str(program))), clock.read)

    def ask() -> str:
        return asyncio.run(provider.token())

    async def ask_at_once() -> set[str]:
        return set(await asyncio.gather(*(provider.token() for _ in range(5))))

    assert asyncio.run(ask_at_once()) == {"token-1"}
    clock.now = 1079
    assert ask() == "token-1"
    clock.now = 1081
    assert ask() == "token-2", "renewed at four fifths of its life"
    clock.now = 1162
    assert ask() == "token-2", "the third try failed, and the second token is valid until 1181"
    count.write_text("2")
    clock.now = 1182
    with pytest.raises(TokenUnavailable, match="ended with status 1: run it by hand") as raised:
        ask()
    assert SECRET not in str(raised.value)
    assert SECRET not in caplog.text


def test_a_command_that_cannot_be_run_is_named() -> None:
    with pytest.raises(TokenUnavailable, match="/no/such/program cannot be run"):
        asyncio.run(TokenProvider(TokenCommand(("/no/such/program",))).token())


class Endpoint:
    asked: list[tuple[str, str]]

    @classmethod
    def answer(cls, call: HttpCall) -> HttpAnswer:
        cls.asked.append((call.headers["Authorization"], call.body.decode()))
        if call.path == "/moved":
            return HttpAnswer(307, b"", {"Location": "/token"})
        if call.path == "/token":
            return HttpAnswer(200, json.dumps({"access_token": "granted", "expires_in": 60}).encode())
        return HttpAnswer(401, json.dumps({"error": "invalid_client"}).encode())


@pytest.fixture
def endpoint() -> Iterator[str]:
    Endpoint.asked = []
    with serve_http(Endpoint.answer) as url:
        yield url


def test_an_endpoint_grants_a_token_for_the_client_s_credentials(endpoint: str) -> None:
    tokens = TokenEndpoint(f"{endpoint}/token", "the id", SECRET, "kafka")
    assert asyncio.run(TokenProvider(tokens).token()) == "granted"
    basic = base64.b64encode(f"the%20id:{SECRET}".encode()).decode()
    assert Endpoint.asked == [(f"Basic {basic}", "grant_type=client_credentials&scope=kafka")]


@pytest.mark.parametrize(("path", "told"), [("/refused", "401: invalid_client"), ("/moved", "answered 307")])
def test_a_refusal_is_told_and_a_redirect_is_not_followed(endpoint: str, path: str, told: str) -> None:
    with pytest.raises(TokenUnavailable, match=told) as raised:
        asyncio.run(TokenProvider(TokenEndpoint(endpoint + path, "id", SECRET)).token())
    assert SECRET not in str(raised.value)
    assert len(Endpoint.asked) == 1
