"""How a process connects to Kafka: addresses, TLS and SASL in one value that every client there is takes.

A bare `host:port,…` stands for a plain connection. No secret is part of a `repr` or of a message.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from sluice.client.answers import ClientError
from sluice.client.token_sources import TokenCommand, TokenEndpoint

if TYPE_CHECKING:
    from pathlib import Path

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
BEARER = "OAUTHBEARER"
DEFAULT_PORT = 9092


class ConnectionUnusable(ClientError):
    """A connection to Kafka cannot be made of what was given. The message names the part, and no secret."""


@dataclass(frozen=True, slots=True)
class KafkaConnection:
    """Where a cluster is, and how a client logs in. Raises ConnectionUnusable for parts that do not fit
    together.

    `ca_file`: PEM of the CAs that sign the brokers' certificates; None: those of the system. The name of a
    broker is always compared with its certificate. `certificate_file` and `key_file`: PEM, what the client
    shows for mTLS; `key_password` decrypts the key. `username` and `password`: of PLAIN and SCRAM; `tokens`:
    of OAUTHBEARER.
    """

    bootstrap_servers: str
    security_protocol: Protocol = "PLAINTEXT"
    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None
    key_password: str | None = field(default=None, repr=False)
    sasl_mechanism: Mechanism | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tokens: TokenCommand | TokenEndpoint | None = None

    def __post_init__(self) -> None:
        objection = find_objection(self)
        if objection is not None:
            raise ConnectionUnusable(objection, "Correct the connection to Kafka")

    def __str__(self) -> str:
        """The addresses, as messages name the cluster."""
        return self.bootstrap_servers

    @property
    def is_secured(self) -> bool:
        """Whether the client encrypts or logs in."""
        return self.security_protocol != "PLAINTEXT"

    @property
    def uses_tls(self) -> bool:
        """Whether the client encrypts."""
        return self.security_protocol in ("SSL", "SASL_SSL")

    def build_arguments(self) -> dict[str, Any]:
        """The arguments of aiokafka's clients. Raises ConnectionUnusable for a file that cannot be used."""
        arguments: dict[str, Any] = {"bootstrap_servers": self.bootstrap_servers}
        if not self.is_secured:
            return arguments
        arguments["security_protocol"] = self.security_protocol
        if self.uses_tls:
            arguments["ssl_context"] = _build_ssl_context(
                self.ca_file, self.certificate_file, self.key_file, self.key_password
            )
        if self.sasl_mechanism is not None:
            arguments["sasl_mechanism"] = self.sasl_mechanism
        if self.sasl_mechanism == BEARER:
            arguments["sasl_oauth_token_provider"] = _build_token_provider(self.tokens)
        elif self.sasl_mechanism is not None:
            arguments["sasl_plain_username"] = self.username
            arguments["sasl_plain_password"] = self.password
        return arguments


KafkaCluster: TypeAlias = KafkaConnection | str
"""What clients take: a connection, or the addresses of a plain one."""
ClientArguments: TypeAlias = KafkaCluster | Mapping[str, Any]
"""As well, or the arguments of aiokafka's clients that `build_client_arguments` made."""


def build_client_arguments(cluster: ClientArguments) -> dict[str, Any]:
    """The arguments of aiokafka's clients. Raises ConnectionUnusable for a file that cannot be used."""
    if isinstance(cluster, str):
        return {"bootstrap_servers": cluster}
    return dict(cluster) if isinstance(cluster, Mapping) else cluster.build_arguments()


def is_secured(cluster: KafkaCluster) -> bool:
    """Whether clients encrypt or log in."""
    return not isinstance(cluster, str) and cluster.is_secured


def find_objection(connection: KafkaConnection) -> str | None:
    """Why the parts do not fit together, in the words of the settings; None: they do."""
    try:
        list_addresses(connection.bootstrap_servers)
    except ValueError as error:
        if connection.is_secured or "://" in connection.bootstrap_servers:
            return f"bootstrap_servers: {error}"
    return _find_tls_objection(connection) or _find_sasl_objection(connection)


def _find_tls_objection(connection: KafkaConnection) -> str | None:
    protocol = connection.security_protocol
    files = (connection.ca_file, connection.certificate_file, connection.key_file)
    if not connection.uses_tls and any(file is not None for file in files):
        return f"ca_file, certificate_file and key_file need TLS, and security_protocol is {protocol}"
    if (connection.certificate_file is None) != (connection.key_file is None):
        return "certificate_file and key_file go together"
    if connection.key_password is not None and connection.key_file is None:
        return "a key_password without a key_file"
    return None


def _find_sasl_objection(connection: KafkaConnection) -> str | None:
    protocol, mechanism = connection.security_protocol, connection.sasl_mechanism
    if not protocol.startswith("SASL_"):
        parts = (mechanism, connection.username, connection.password, connection.tokens)
        is_plain = all(part is None for part in parts)
        return None if is_plain else f"a login needs security_protocol SASL_SSL, and it is {protocol}"
    if mechanism is None:
        return f"security_protocol {protocol} needs a sasl_mechanism"
    if protocol == "SASL_PLAINTEXT" and not _is_loopback(connection.bootstrap_servers):
        return "SASL_PLAINTEXT shows the login to all on the way: use SASL_SSL (only loopback is excepted)"
    return _find_token_objection(connection) if mechanism == BEARER else _find_password_objection(connection)


def _find_password_objection(connection: KafkaConnection) -> str | None:
    if connection.tokens is not None:
        return f"tokens are for {BEARER}, and sasl_mechanism is {connection.sasl_mechanism}"
    if not connection.username or not connection.password:
        return f"{connection.sasl_mechanism} needs a username and a password"
    return None


def _find_token_objection(connection: KafkaConnection) -> str | None:
    tokens = connection.tokens
    if connection.username is not None or connection.password is not None:
        return f"{BEARER} takes tokens, not a username and a password"
    if tokens is None:
        return f"{BEARER} needs a token_command or a token_url"
    if isinstance(tokens, TokenCommand):
        return None if tokens.words and tokens.words[0] else "token_command is empty"
    url = urlsplit(tokens.url)
    is_safe = url.scheme == "https" or (url.scheme == "http" and _is_loopback(url.netloc))
    if not is_safe or not url.hostname or url.username is not None:
        return "token_url must be https://… without a name and a password in it (loopback may be http)"
    is_whole = tokens.client_id and tokens.client_secret
    return None if is_whole else "token_url needs a client_id and a client_secret"


def list_addresses(servers: str) -> list[tuple[str, int]]:
    """Host and port of every server of a list; a port that is not given is Kafka's. Raises ValueError, also
    for the `SASL_SSL://host:port` that some providers print."""
    addresses = []
    for server in servers.split(","):
        protocol, has_protocol, address = server.strip().partition("://")
        if has_protocol:
            raise ValueError(f"give {address} without {protocol}://, which security_protocol says")
        parts = urlsplit(f"//{server.strip()}")
        if not parts.hostname:
            raise ValueError(f"{server!r} is no host:port")
        addresses.append((parts.hostname, parts.port or DEFAULT_PORT))
    return addresses


def _is_loopback(servers: str) -> bool:
    try:
        return all(host == "localhost" or ip_address(host).is_loopback for host, _ in list_addresses(servers))
    except ValueError:
        return False


class _UnansweredClose(ssl.SSLObject):
    """Says that it closes, and does not wait for the other side to say the same: a broker answers no close
    (uvloop then keeps the socket, and whoever closes a client, for 30 s), and nothing follows that a cut
    could hide, as each of Kafka's answers gives its length."""

    def unwrap(self) -> None:
        """Send the alert `close_notify`."""
        with suppress(ssl.SSLWantReadError):
            super().unwrap()


@lru_cache(maxsize=16)
def _build_ssl_context(
    ca_file: Path | None, certificate_file: Path | None, key_file: Path | None, key_password: str | None
) -> ssl.SSLContext:
    """One for all clients of a process. Raises ConnectionUnusable."""
    try:
        context = ssl.create_default_context(cafile=None if ca_file is None else str(ca_file.expanduser()))
    except OSError as error:
        raise _describe_file("the CA file", ca_file, error) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.sslobject_class = _UnansweredClose
    if certificate_file is not None and key_file is not None:
        certificate, key = certificate_file.expanduser(), key_file.expanduser()
        try:
            # An empty password in place of none: OpenSSL would ask for one at the terminal.
            context.load_cert_chain(certificate, key, key_password or "")
        except OSError as error:
            named = certificate if isinstance(error, FileNotFoundError) and not certificate.exists() else key
            raise _describe_file("the client's certificate and key", named, error) from None
    return context


def _describe_file(what: str, path: Path | None, error: OSError) -> ConnectionUnusable:
    if isinstance(error, ssl.SSLError):
        reason = error.reason or "not PEM, another key, or another password"
    else:
        reason = error.strerror or type(error).__name__
    return ConnectionUnusable(
        f"{what} cannot be used: {path}: {reason}", "Give the path of a PEM file that this process may read"
    )


@lru_cache(maxsize=16)
def _build_token_provider(tokens: TokenCommand | TokenEndpoint) -> Any:
    """One for all clients of a process, so that they share a token."""
    from sluice.client.kafka_tokens import TokenProvider  # noqa: PLC0415 - importing the client loads no Kafka

    return TokenProvider(tokens)
