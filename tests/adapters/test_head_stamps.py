"""Time stamps of heads, by a real authority: `openssl ts -reply` behind a loopback server."""

from __future__ import annotations

import asyncio
import json
import subprocess
from base64 import b64decode, b64encode
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from load.installations.loopback_http import HttpAnswer, HttpCall, serve_http
from sluice.adapters.head_copies import HeadTimestamps
from sluice.core.trust.tree_heads import HeadRefused, digest_head, open_head
from sluice.verifier.head_stamp_check import check_stamps
from sluice.verifier.proof_check import UnusableKey
from tests.unit.verifier.test_head_check import HEADS, RECORDS_WRITTEN, sign_heads

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VALUES = [head.value or b"" for head in HEADS]
DIGESTS = [digest_head(open_head(value, 0)[0]) for value in VALUES]
CONFIGURATION = """[tsa]
default_tsa = stamping
[stamping]
serial = {folder}/serial
default_policy = 1.2.3.4
digests = sha256
signer_digest = sha256
accuracy = secs:1
ess_cert_id_alg = sha256
"""


class Authority(NamedTuple):
    """What `openssl ts` needs to stamp, and the root certificate that vouches for it."""

    folder: Path
    root: bytes

    def stamp(self, query: bytes) -> bytes:
        """The answer to a TimeStampReq."""
        (self.folder / "query").write_bytes(query)
        command = ["openssl", "ts", "-reply", "-config", "openssl.cnf", "-queryfile", "query", "-signer"]
        files = ["stamping.pem", "-inkey", "stamping.key"]
        done = subprocess.run(
            [*command, *files], cwd=self.folder, capture_output=True, check=True, timeout=30
        )
        return done.stdout


def make_authority(folder: Path) -> Authority:
    folder.mkdir()
    root_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    root = issue(
        "root", root_key.public_key(), "root", root_key, x509.BasicConstraints(ca=True, path_length=0)
    )
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING])
    stamping = issue("stamping", key.public_key(), "root", root_key, usage)
    (folder / "root.pem").write_bytes(root)
    (folder / "stamping.pem").write_bytes(stamping)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "stamping.key").write_bytes(pem)
    (folder / "serial").write_text("01\n")
    (folder / "openssl.cnf").write_text(CONFIGURATION.format(folder=folder))
    return Authority(folder, root)


def issue(
    name: str,
    key: ec.EllipticCurvePublicKey,
    issuer: str,
    issuer_key: ec.EllipticCurvePrivateKey,
    extension: x509.ExtensionType,
) -> bytes:
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(extension, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False
        )
    )
    return builder.sign(issuer_key, hashes.SHA256()).public_bytes(Encoding.PEM)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("tsa") / "authority")


class Service:
    """The authority's HTTP service. `refusing`: so many requests are answered with 503; `answering`: what it
    sends in place of a stamp."""

    def __init__(self, authority: Authority) -> None:
        self.authority = authority
        self.refusing = 0
        self.answering: bytes | None = None
        self.types: list[str | None] = []

    def take(self, call: HttpCall) -> HttpAnswer:
        """One request."""
        self.types.append(call.headers["content-type"])
        if self.refusing:
            self.refusing -= 1
            return HttpAnswer(503, b"later")
        return HttpAnswer(200, self.authority.stamp(call.body) if self.answering is None else self.answering)

    @contextmanager
    def serve(self) -> Iterator[str]:
        """Its address."""
        with serve_http(self.take) as url:
            yield f"{url}/"


async def stamp(url: str, path: Path, *numbers: int, times: int = 1) -> None:
    stamps = HeadTimestamps(url, path, 30)
    for number in numbers:
        stamps.take(number, DIGESTS[number - 1], VALUES[number - 1])
    await stamps.require_no_later(numbers[-1])
    for _ in range(times):
        await stamps.deliver()
    await stamps.close()


async def test_the_newest_head_is_stamped_once_whatever_a_restart_gives_again(
    authority: Authority, tmp_path: Path
) -> None:
    service, path = Service(authority), tmp_path / "stamped.jsonl"
    with service.serve() as url:
        service.refusing = 1
        await stamp(url, path, 1, 2, times=3)
        await stamp(url, path, 1, 2)
        await stamp(url, path, 1, 2, 3)
    numbers = [open_head(line, 0)[1].number for line in path.read_bytes().splitlines()]
    assert (numbers, service.types) == ([2, 3], ["application/timestamp-query"] * 3)
    result = check_stamps(path.read_bytes(), None, [authority.root])
    assert result.holds, result.lines
    assert [line.split(", was there at ")[0] for line in result.lines[:2]] == [
        f"Head {number}, over {open_head(VALUES[number - 1], 0)[1].size} records" for number in (2, 3)
    ]
    stamped_at = datetime.fromisoformat(result.lines[0].rpartition(" at ")[2].rstrip("."))
    assert abs(datetime.now(UTC) - stamped_at) < timedelta(minutes=10)


def test_another_checks_a_stamp_with_openssl_alone(authority: Authority, tmp_path: Path) -> None:
    path = tmp_path / "stamped.jsonl"
    with Service(authority).serve() as url:
        asyncio.run(stamp(url, path, 1))
    line = json.loads(path.read_bytes())
    (tmp_path / "payload").write_bytes(b64decode(line["payload"]))
    (tmp_path / "stamp").write_bytes(b64decode(line["timestamp"]))
    (tmp_path / "root.pem").write_bytes(authority.root)
    command = ["openssl", "ts", "-verify", "-data", "payload", "-in", "stamp", "-CAfile", "root.pem"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=30)
    assert "Verification: OK" in done.stdout + done.stderr


async def test_what_is_no_stamp_of_this_head_is_not_written(authority: Authority, tmp_path: Path) -> None:
    service, path = Service(authority), tmp_path / "stamped.jsonl"
    with service.serve() as url:
        await stamp(url, path, 1)
        first = path.read_bytes()
        for answer in (b"", b"no stamp", b64decode(json.loads(first)["timestamp"]), b"x" * 100_000):
            service.answering = answer
            await stamp(url, path, 2)
        assert path.read_bytes() == first
    await stamp("http://127.0.0.1:1/", path, 2)
    assert path.read_bytes() == first


async def test_a_stamp_that_a_kill_cut_off_stops_no_later_start(authority: Authority, tmp_path: Path) -> None:
    path = tmp_path / "stamped.jsonl"
    with Service(authority).serve() as url:
        await stamp(url, path, 1)
        with path.open("ab") as cut:
            cut.write(b'{"cut off by a kill')
        await stamp(url, path, 2)
        await stamp(url, path, 3)
    numbers = [open_head(line, 0)[1].number for line in path.read_bytes().splitlines()]
    assert numbers == [1, 2, 3]


async def test_a_stamped_head_shows_that_the_topic_lost_heads(authority: Authority, tmp_path: Path) -> None:
    path = tmp_path / "stamped.jsonl"
    with Service(authority).serve() as url:
        await stamp(url, path, 3)
        with pytest.raises(HeadRefused, match=r"the topic ends with head 2, and head 3 .* was stamped"):
            await HeadTimestamps(url, path, 30).require_no_later(2)


async def test_two_heads_of_one_number_do_not_hold_whoever_stamped_both(
    authority: Authority, tmp_path: Path
) -> None:
    path = tmp_path / "stamped.jsonl"
    forked = sign_heads(RECORDS_WRITTEN[:-1], (len(RECORDS_WRITTEN) - 1,))[0].value or b""
    with Service(authority).serve() as url:
        await stamp(url, path, 1)
        stamps = HeadTimestamps(url, tmp_path / "other.jsonl", 30)
        stamps.take(1, "", forked)
        await stamps.deliver()
        await stamps.close()
    one, other = path.read_bytes(), (tmp_path / "other.jsonl").read_bytes()
    assert check_stamps(other, None, [authority.root]).holds
    result = check_stamps(one + other, None, [authority.root])
    assert (result.holds, "two heads 1" in result.lines[-1]) == (False, True)


async def test_a_false_stamp_does_not_hold(authority: Authority, tmp_path: Path) -> None:
    path = tmp_path / "stamped.jsonl"
    with Service(authority).serve() as url:
        await stamp(url, path, 1)
        await stamp(url, path, 2)
    first, second = map(json.loads, path.read_bytes().splitlines())
    changed = bytearray(b64decode(first["timestamp"]))
    changed[-10] ^= 1
    false = [
        first | {"timestamp": second["timestamp"]},
        first | {"timestamp": b64encode(changed).decode()},
        first | {"timestamp": "no base64"},
        {name: value for name, value in first.items() if name != "timestamp"},
        first | {"payload": second["payload"]},
    ]
    for line in false:
        result = check_stamps(json.dumps(line).encode(), None, [authority.root])
        assert (result.holds, "does not hold" in result.lines[-1]) == (False, True), result.lines
    other = make_authority(tmp_path / "other")
    assert not check_stamps(path.read_bytes(), None, [other.root]).holds
    assert check_stamps(path.read_bytes(), None, [other.root, authority.root]).holds
    assert not check_stamps(b"", None, [authority.root]).holds
    with pytest.raises(UnusableKey, match="authority 1 is no certificate"):
        check_stamps(path.read_bytes(), None, [b"no certificate"])
