"""Settings of the connection to Kafka and of what lies there."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - pydantic reads the annotations
from typing import Annotated

from pydantic import Field, SecretStr, model_validator

from sluice.client.kafka_connection import (
    ConnectionUnusable,
    KafkaConnection,
    Mechanism,
    Protocol,
)
from sluice.client.token_sources import TokenCommand, TokenEndpoint
from sluice.settings.base import SettingGroup

STAND_IN = "-"
"""For a secret that is not read yet: whether the settings fit together does not depend on it."""


class KafkaSettings(SettingGroup):
    """Where the brokers are, how each process logs in, and how the topics are laid out."""

    bootstrap_servers: str = "127.0.0.1:29092"
    security_protocol: Protocol = "PLAINTEXT"
    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None
    key_password: SecretStr | None = None
    key_password_file: Path | None = None
    sasl_mechanism: Mechanism | None = None
    username: str | None = None
    password: SecretStr | None = None
    password_file: Path | None = None
    token_command: tuple[str, ...] = ()
    token_url: str | None = None
    token_scope: str = ""
    token_ca_file: Path | None = None
    client_id: str | None = None
    client_secret: SecretStr | None = None
    client_secret_file: Path | None = None
    topic_prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]*$", max_length=100)] = ""
    partitions: Annotated[int, Field(ge=1, le=1024)] = 8
    replication_factor: Annotated[int, Field(ge=1, le=32767)] = 1
    input_retention_days: Annotated[int, Field(ge=1, le=36_500)] = 30

    @property
    def connection(self) -> KafkaConnection:
        """What every client takes, with the secrets out of their files. Raises ConnectionUnusable."""
        return self._connect(
            _read_secret("key_password", self.key_password, self.key_password_file),
            _read_secret("password", self.password, self.password_file),
            _read_secret("client_secret", self.client_secret, self.client_secret_file),
        )

    @model_validator(mode="after")
    def _check_connection(self) -> KafkaSettings:
        secrets = []
        for name in ("key_password", "password", "client_secret"):
            text, file = getattr(self, name), getattr(self, f"{name}_file")
            if text is not None and file is not None:
                raise ValueError(f"{name} and {name}_file are both set: give one")
            secrets.append(None if text is None and file is None else STAND_IN)
        try:
            self._connect(*secrets)
        except ConnectionUnusable as error:
            raise ValueError(error.message) from None
        return self

    def _connect(
        self, key_password: str | None, password: str | None, client_secret: str | None
    ) -> KafkaConnection:
        return KafkaConnection(
            self.bootstrap_servers,
            self.security_protocol,
            ca_file=self.ca_file,
            certificate_file=self.certificate_file,
            key_file=self.key_file,
            key_password=key_password,
            sasl_mechanism=self.sasl_mechanism,
            username=self.username,
            password=password,
            tokens=self._choose_tokens(client_secret),
        )

    def _choose_tokens(self, client_secret: str | None) -> TokenCommand | TokenEndpoint | None:
        if self.token_url is None:
            if self.client_id is not None or client_secret is not None:
                raise ConnectionUnusable("client_id and client_secret are for a token_url", "Set it too")
            return TokenCommand(self.token_command) if self.token_command else None
        if self.token_command:
            raise ConnectionUnusable("token_command and token_url are both set: give one", "Unset one")
        return TokenEndpoint(
            self.token_url, self.client_id or "", client_secret or "", self.token_scope, self.token_ca_file
        )


def _read_secret(name: str, text: SecretStr | None, file: Path | None) -> str | None:
    if file is None:
        return None if text is None else text.get_secret_value()
    try:
        secret = file.expanduser().read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no UTF-8 text"
        raise ConnectionUnusable(f"kafka.{name}_file: {file}: {reason}", "Give a readable file") from None
    if not secret:
        raise ConnectionUnusable(f"kafka.{name}_file: {file} is empty", "Write the secret into it")
    return secret
