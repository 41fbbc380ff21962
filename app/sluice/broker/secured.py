"""What makes a local broker a secured one: certificates of a CA of its own, users, and an authorizer that
lets nobody do what no ACL allows."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING

from sluice.broker.handle import LOOPBACK
from sluice.client.kafka_connection import KafkaConnection
from sluice.secrets.secret_files import create_secret, replace_secret

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate

ADMIN = "admin"
BROKER = "sluice-broker"
"""The name in the broker's own certificate, with which it talks to itself."""
FOLDER_OF_OWNER = 0o700
LIFE = timedelta(days=30)
ITERATIONS = 4096
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
SECURITY_MODULES = "org.apache.kafka.common.security"
BEARER_HANDLER = (
    f"{SECURITY_MODULES}.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)


@dataclass(frozen=True, slots=True)
class BrokerSecurity:
    """The CA, the users and the ports of a secured broker, for tests and trials on one machine. `folder` has
    its PEM files; keys and passwords are in files that only their owner may read.

    Everyone but `ADMIN` may do nothing until an ACL says otherwise. A client comes with a password (PLAIN,
    SCRAM), with an unsigned token (OAUTHBEARER: for tests alone), or to `tls_port` with a certificate of
    `issue`. `passwords`: by user; `more`: broker properties.
    """

    folder: Path
    tls_port: int
    passwords: Mapping[str, str] = field(repr=False)
    more: Mapping[str, str] = field(default_factory=dict)

    @property
    def ca_file(self) -> Path:
        return self.folder / "ca.pem"

    def issue(self, name: str) -> tuple[Path, Path]:
        """The files of a certificate and its key for a client; its principal is `User:` and the name."""
        return self.folder / f"{name}.pem", self._write_pair(name)

    def connect(self, port: int, user: str = ADMIN) -> KafkaConnection:
        """As a user with its password, by SCRAM-SHA-512, to the broker on `port`."""
        return KafkaConnection(
            f"{LOOPBACK}:{port}",
            "SASL_SSL",
            ca_file=self.ca_file,
            sasl_mechanism="SCRAM-SHA-512",
            username=user,
            password=self.passwords[user],
        )

    def write_settings(self, port: int, user: str) -> dict[str, str]:
        """The environment by which a command of ours connects as `connect` does."""
        connection = self.connect(port, user)
        settings = {
            "bootstrap_servers": connection.bootstrap_servers,
            "security_protocol": connection.security_protocol,
            "ca_file": connection.ca_file,
            "sasl_mechanism": connection.sasl_mechanism,
            "username": connection.username,
            "password": connection.password,
        }
        return {f"SLUICE_KAFKA__{name.upper()}": str(value) for name, value in settings.items()}

    def write_login(self, port: int, user: str) -> Path:
        """A settings file of `folder` by which a command of ours connects as `connect` does. The password is
        in a file beside it (`require_passwords`)."""
        connection = self.connect(port, user)
        values = {
            "bootstrap_servers": connection.bootstrap_servers,
            "security_protocol": connection.security_protocol,
            "ca_file": str(connection.ca_file),
            "sasl_mechanism": connection.sasl_mechanism,
            "username": user,
            "password_file": str(_locate_password(self.folder, user)),
        }
        lines = [
            f"# How {user} logs in to the broker of `sluice broker start --secured`.",
            "[kafka]",
            *(f"{name} = {json.dumps(value)}" for name, value in values.items()),
        ]
        path = self.folder / f"{user}.toml"
        replace_secret(path, "".join(f"{line}\n" for line in lines).encode())
        return path

    def write_files(self) -> None:
        """The CA and the broker's own key and certificate, unless they are there."""
        if self.ca_file.exists():
            return
        self.folder.mkdir(mode=FOLDER_OF_OWNER, parents=True, exist_ok=True)
        self.folder.chmod(FOLDER_OF_OWNER)
        key = _make_key()
        certificate = _sign("Sluice test CA", key, None, key)
        replace_secret(self.folder / "ca-key.pem", _write_key(key))
        replace_secret(self.ca_file, _write_certificate(certificate))
        self._write_pair(BROKER)
        pair = (self.folder / f"{BROKER}-key.pem", self.folder / f"{BROKER}.pem")
        replace_secret(self._keystore, b"".join(path.read_bytes() for path in pair))

    def write_properties(self, port: int, controller_port: int) -> dict[str, str]:
        """Beyond those of every broker of ours, in whose place they come."""
        plain = " ".join(f'user_{name}="{word}"' for name, word in self.passwords.items())
        listener = "listener.name.sasl_ssl"
        return {
            "listeners": ",".join(
                f"{name}://{LOOPBACK}:{number}"
                for name, number in (
                    ("SASL_SSL", port),
                    ("SSL", self.tls_port),
                    ("CONTROLLER", controller_port),
                )
            ),
            "advertised.listeners": f"SASL_SSL://{LOOPBACK}:{port},SSL://{LOOPBACK}:{self.tls_port}",
            "listener.security.protocol.map": "SASL_SSL:SASL_SSL,SSL:SSL,CONTROLLER:SSL",
            "inter.broker.listener.name": "SSL",
            "listener.name.ssl.ssl.client.auth": "required",
            "listener.name.controller.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._keystore),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca_file),
            f"{listener}.sasl.enabled.mechanisms": ",".join(("PLAIN", *SCRAM, "OAUTHBEARER")),
            f"{listener}.plain.sasl.jaas.config": (
                f"{SECURITY_MODULES}.plain.PlainLoginModule required {plain};"
            ),
            **{
                f"{listener}.{mechanism.lower()}.sasl.jaas.config": (
                    f"{SECURITY_MODULES}.scram.ScramLoginModule required;"
                )
                for mechanism in SCRAM
            },
            f"{listener}.oauthbearer.sasl.jaas.config": (
                f"{SECURITY_MODULES}.oauthbearer.OAuthBearerLoginModule required;"
            ),
            f"{listener}.oauthbearer.sasl.server.callback.handler.class": BEARER_HANDLER,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "false",
            "super.users": f"User:{ADMIN};User:{BROKER}",
            **self.more,
        }

    def write_users(self) -> Path:
        """A file of the arguments, one a line, by which the tool that formats the storage adds the users: a
        process list shows the arguments of a command to everyone. The caller removes it."""
        parts = [
            f"--add-scram\n{mechanism}=[name={name},iterations={ITERATIONS},password={word}]\n"
            for mechanism in SCRAM
            for name, word in self.passwords.items()
        ]
        path = self.folder / "users.arguments"
        replace_secret(path, "".join(parts).encode())
        return path

    @property
    def _keystore(self) -> Path:
        return self.folder / "keystore.pem"

    def _write_pair(self, name: str) -> Path:
        from cryptography import x509  # noqa: PLC0415 - few processes make certificates
        from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415 - as above

        key_path = self.folder / f"{name}-key.pem"
        if key_path.exists():
            return key_path
        ca_key = load_pem_private_key((self.folder / "ca-key.pem").read_bytes(), None)
        ca = x509.load_pem_x509_certificate(self.ca_file.read_bytes())
        key = _make_key()
        certificate = _sign(name, key, ca, ca_key)  # type: ignore[arg-type]
        replace_secret(self.folder / f"{name}.pem", _write_certificate(certificate))
        replace_secret(key_path, _write_key(key))
        return key_path


def draw_passwords(*users: str) -> dict[str, str]:
    """One for each user, and for the admin."""
    return {name: secrets.token_hex(16) for name in (ADMIN, *users)}


def require_passwords(folder: Path, users: Iterable[str]) -> dict[str, str]:
    """Those of the users and of the admin: what an earlier call drew, else new ones. Each is in a file of
    `folder` that only its owner may read."""
    folder.mkdir(mode=FOLDER_OF_OWNER, parents=True, exist_ok=True)
    folder.chmod(FOLDER_OF_OWNER)
    passwords = {}
    for name, drawn in draw_passwords(*users).items():
        path = _locate_password(folder, name)
        if not path.exists():
            create_secret(path, f"{drawn}\n".encode())
        passwords[name] = path.read_text(encoding="ascii").strip()
    return passwords


def _locate_password(folder: Path, user: str) -> Path:
    return folder / f"{user}.password"


def _make_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - as above

    return ec.generate_private_key(ec.SECP256R1())


def _sign(
    name: str,
    key: EllipticCurvePrivateKey,
    issuer: Certificate | None,
    issuer_key: EllipticCurvePrivateKey,
) -> Certificate:
    """A certificate; of the CA itself without an `issuer`."""
    from cryptography import x509  # noqa: PLC0415 - as above
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415 - as above

    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    hosts = [x509.DNSName("localhost"), x509.IPAddress(ip_address(LOOPBACK))]
    public = key.public_key()
    built = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + LIFE)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False
        )
    )
    if issuer is None:
        usage = dict.fromkeys(_USES, False) | {"key_cert_sign": True, "crl_sign": True}
        built = built.add_extension(x509.KeyUsage(**usage), critical=True)
    else:
        built = built.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
    return built.sign(issuer_key, SHA256())


_USES = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


def _write_certificate(certificate: Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415 - as above

    return certificate.public_bytes(Encoding.PEM)


def _write_key(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 - as above
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
