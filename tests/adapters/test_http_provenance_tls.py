"""References by https: the name, and not the address, is what a certificate must vouch for."""

from __future__ import annotations

import datetime as dt
import ssl
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from sluice.ports import ProvenanceAnswer
from tests.adapters.web import HOST, answer, page, resolve, rules, web

if TYPE_CHECKING:
    from pathlib import Path

UNTRUSTED = ProvenanceAnswer(None, "no connection, or none that TLS vouches for", "passing")
NOW = dt.datetime.now(dt.UTC)


class Pair:
    """A server's context with a certificate of its own for this name, and a client's that believes it."""

    def __init__(self, folder: Path, name: str) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(1)
            .not_valid_before(NOW - dt.timedelta(days=1))
            .not_valid_after(NOW + dt.timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        pem = certificate.public_bytes(Encoding.PEM)
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        chain = folder / f"{name}.pem"
        chain.write_bytes(pem + secret)
        self.asked: list[str | None] = []
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server.load_cert_chain(chain)
        self.server.sni_callback = lambda _, host, __: self.asked.append(host)
        self.client = ssl.create_default_context(cadata=pem.decode())


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path, HOST)


async def test_the_servers_name_is_asked_for_and_vouched_for(pair: Pair) -> None:
    async with web(page(), pair.server) as site:
        uri = site.uri().replace("http:", "https:")
        found = await resolve(uri, rules(site.port), tls=pair.client)
        assert found.resolution is not None
        assert pair.asked == [HOST]
        assert site.read_sent_fields()["host"] == f"{HOST}:{site.port}"


async def test_a_certificate_that_nobody_vouches_for_is_refused(pair: Pair) -> None:
    async with web(page(), pair.server) as site:
        uri = site.uri().replace("http:", "https:")
        assert await resolve(uri, rules(site.port)) == UNTRUSTED
        assert site.requests == []


async def test_a_certificate_for_another_name_is_refused(tmp_path: Path) -> None:
    pair = Pair(tmp_path, "other.example.com")
    async with web(page(), pair.server) as site:
        uri = site.uri().replace("http:", "https:")
        assert await resolve(uri, rules(site.port), tls=pair.client) == UNTRUSTED


async def test_a_server_that_speaks_no_tls_is_refused(pair: Pair) -> None:
    async with web(page()) as site:
        uri = site.uri().replace("http:", "https:")
        assert await resolve(uri, rules(site.port, timeout_ms=300), tls=pair.client) in (
            UNTRUSTED,
            ProvenanceAnswer(None, "no whole answer within 300 ms", "passing"),
        )


async def test_a_redirect_from_https_to_http_is_refused(pair: Pair) -> None:
    async with web(page()) as plain, web(b"", pair.server) as site:
        site.answer = answer("302 Found", location=plain.uri())
        uri = site.uri().replace("http:", "https:")
        found = await resolve(uri, rules(site.port, plain.port), tls=pair.client)
        assert (found, plain.requests) == (ProvenanceAnswer(None, "redirected from https to http"), [])
