"""What of the client needs no broker: its imports, its journal, and the signature of an outcome."""

from __future__ import annotations

import base64
import socket
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from sluice.client import AsyncGateClient, ClientError, ClientOptions, GateClient, delegation_grant
from sluice.client.answers import ActionAnswer, InputLocation, make_refusal
from sluice.client.journal import Journal
from sluice.client.sender import read_values_key, sign_record
from sluice.core.registry.keys import is_signed_by
from sluice_topics.agent_signature import read_signature
from sluice_topics.audience import Audience, SignedInput
from sluice_topics.records import ActionOutcome

ONLY = """
import sys
allowed = set(sys.stdlib_module_names) | {"sluice", "sluice_topics", "aiokafka", "pydantic", "pydantic_core",
    "cryptography", "_cffi_backend", "cffi", "annotated_types", "typing_extensions", "typing_inspection",
    "async_timeout", "packaging", "cramjam", "_cython_3_1_4", "_pytest", "sitecustomize"}
class Refuse:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in allowed and not top.startswith("_"):
            raise ModuleNotFoundError(f"the client imports {name}")
sys.meta_path.insert(0, Refuse())
import sluice.client, sluice_topics.headers, aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from cryptography.hazmat.primitives.serialization import load_pem_private_key
strange = [m for m in sys.modules if m.startswith("app.") and not m.startswith("sluice.client")]
assert not strange, strange
"""
LIGHT = """
import sys
import sluice.client
heavy = [m for m in ("aiokafka", "pydantic", "cryptography", "sluice_topics.catalog") if m in sys.modules]
assert not heavy, heavy
"""

HERE = Audience("acme-production", "prod.")


@pytest.mark.parametrize("program", [ONLY, LIGHT], ids=["what it needs", "what its import loads"])
def test_the_client_rests_on_few_packages(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_signed_outcome_bears_the_signature_that_the_worker_asks_for() -> None:
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    digest = "sha256:" + "ab" * 32
    place = {
        "topic": "gate.actions.proposed",
        "partition": 3,
        "offset": 12,
        "timestamp": 1_790_000_000_000,
        "digest": digest,
    }
    record: dict[str, Any] = {
        "action_id": "änderung-\u2028-1",
        "session_id": 's"1',
        "rows_affected": 2**53 - 1,
        "reported_by": "point",
        "action_digest": digest,
        "input": place,
    }
    signed = ActionOutcome.model_validate({**record, "signature": sign_record(record, pem, HERE)})
    assert is_signed_by(key.public_key(), signed, HERE)
    assert not is_signed_by(key.public_key(), signed.model_copy(update={"rows_affected": 1}), HERE)

    record["values"] = {"fingerprints": ["A" * 22 + "=="], "truncated": True}
    with_values = {**record, "signature": sign_record(record, pem, HERE)}
    assert is_signed_by(key.public_key(), ActionOutcome.model_validate(with_values), HERE)
    for changed in ({"fingerprints": [], "truncated": True}, {**record["values"], "truncated": False}, None):
        other = ActionOutcome.model_validate({**with_values, "values": changed})
        assert not is_signed_by(key.public_key(), other, HERE), "a signature covers the values too"


def test_a_key_of_values_is_its_text_or_its_file_and_is_never_shown(tmp_path: Path) -> None:
    key = bytes(range(32))
    file = tmp_path / "values.key"
    file.write_text(key.hex() + "\n")
    text = base64.b64encode(key).decode()
    for form in (key, key.hex(), text, text.encode(), file, str(file)):
        assert read_values_key(form) == key
        assert "values_key" not in repr(ClientOptions(values_key=form))
    for wrong in ("secret-no-key", b"secret-no-key", tmp_path / "none", key.hex()[:-2]):
        with pytest.raises(ClientError, match="values_key: ") as refused:
            read_values_key(wrong)
        assert str(wrong) not in str(refused.value)


def test_one_call_alone_gets_to_start_an_action(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    assert journal.propose("s", "a", b"1").step == "proposed"
    assert not journal.start("s", "a"), "nothing is started before it is decided"
    journal.decide("s", "a", {"verdict": "allowed"})
    assert [journal.start("s", "a"), journal.start("s", "a")] == [True, False]
    journal.decide("s", "a", {"verdict": "denied"})
    assert journal.propose("s", "a", b"2").value == b"1"
    assert journal.propose("s", "a", b"2").step == "started"


def test_a_journal_tells_the_next_process_what_was_begun(tmp_path: Path) -> None:
    first = Journal(tmp_path / "journal")
    for name in ("asked", "begun", "done", "told"):
        first.propose("s", name, name.encode())
        first.set_location("s", name, InputLocation(1, 2, 3))
        if name != "asked":
            first.decide("s", name, {"verdict": "allowed", "name": name})
            first.start("s", name)
        if name in ("done", "told"):
            first.finish("s", name, b"outcome")
    first.report("s", "told")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        _open_soon(tmp_path / "journal")
    first.close()
    second = Journal(tmp_path / "journal")
    assert {one.action_id: (one.step, one.outcome) for one in second.list_unreported()} == {
        "begun": ("started", None),
        "done": ("finished", b"outcome"),
    }
    asked = second.propose("s", "asked", b"")
    assert (asked.step, asked.location, asked.value) == ("proposed", InputLocation(1, 2, 3), b"asked")


def test_ids_of_another_session_are_other_actions() -> None:
    journal = Journal()
    journal.propose("s", "a", b"1")
    journal.decide("s", "a", {})
    assert journal.propose("t", "a", b"2").step == "proposed"
    assert not journal.start("t", "a")


def _open_soon(path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sluice.client.journal.BUSY_S", 0.1)
        Journal(path)


def test_the_worked_example_of_a_signature_is_what_a_worker_accepts() -> None:
    lines = (
        (Path(__file__).parents[3] / "docs" / "other-languages.md")
        .read_text()
        .split("```text\n")[1]
        .splitlines()
    )
    said = dict(line.strip().split(None, 1) for line in lines[:11])
    key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    read = read_signature(said["header"].encode())
    assert read is not None
    assert key.public_key().public_bytes_raw().hex() == said["public"]
    audience = Audience(said["installation"], said["prefix"])
    signed = SignedInput(said["topic"], said["key"].encode(), *read[:3], said["value"].encode())
    message = signed.message(audience)
    assert message.decode() == said["signed"]
    assert (read.signed_at_ms, read.nonce) == (int(said["time"]), said["nonce"])
    assert read.signature.hex() == said["ed25519"] == key.sign(message).hex()


PEM = Ed25519PrivateKey.from_private_bytes(bytes(range(32))).private_bytes(
    Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
)
GRANTED = ("parent", "child"), "s", datetime(2027, 1, 1, tzinfo=UTC)


def test_a_key_is_its_pem_text_or_the_path_of_its_file(tmp_path: Path) -> None:
    """Mend 22.21: as bytes, as str, as a path and as the text of a path; all sign the same."""
    file = tmp_path / "agent.pem"
    file.write_bytes(PEM)
    forms: list[Any] = [PEM, PEM.decode(), file, str(file)]
    made = [ClientOptions(agent_key=one, signing_key=one, installation="here") for one in forms]
    signers = [one.signer for one in made]
    assert len({delegation_grant(one, *GRANTED)["signature"] for one in signers if one is not None}) == 1
    assert None not in signers
    for one in made:
        AsyncGateClient("127.0.0.1:1", "agent", one)


@pytest.mark.parametrize("field", ["agent_key", "signing_key"])
def test_a_key_without_an_installation_is_found_in_the_constructor(field: str) -> None:
    with pytest.raises(ClientError, match="none is named"):
        AsyncGateClient("127.0.0.1:1", "agent", ClientOptions(**{field: PEM}))  # type: ignore[arg-type]


def _unusable() -> dict[str, tuple[Any, str]]:
    key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"word"))
    other = generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return {
        "no such file": (Path("/nowhere/agent.pem"), "no file at /nowhere/agent.pem: No such file"),
        "a text that is neither": ("SECRET" * 8, "which is no PEM text: No such file"),
        "a text with a NUL": ("SECRET\0", "which is no PEM text: no path"),
        "bytes that are no PEM": (b"SECRET", "no private key in PEM"),
        "under a password": (locked, "under a password"),
        "of another kind": (other, "no Ed25519 key"),
        "public": (public.decode(), "no private key in PEM"),
    }


@pytest.mark.parametrize("field", ["agent_key", "signing_key"])
@pytest.mark.parametrize("name", _unusable())
@pytest.mark.parametrize("client", [AsyncGateClient, GateClient])
def test_a_key_that_cannot_sign_is_found_in_the_constructor(client: Any, name: str, field: str) -> None:
    """Mend 22.21: the error names the option, and shows nothing that may be a key."""
    given, said = _unusable()[name]
    with pytest.raises(ClientError, match=f"{field}: ") as error:
        client("127.0.0.1:1", "agent", ClientOptions(**{field: given}, installation="here"))
    assert said in str(error.value)
    assert "SECRET" not in str(error.value)


NO_BROKER = """
import asyncio, gc, sys
from sluice.client import AsyncGateClient, BrokerUnreachable, ClientOptions, GateClient

options = ClientOptions(connect_timeout_s=1)
def plain():
    with GateClient(sys.argv[1], "agent", options):
        raise AssertionError("there is no broker")
async def with_loop():
    async with AsyncGateClient(sys.argv[1], "agent", options):
        raise AssertionError("there is no broker")
for connect in (plain, lambda: asyncio.run(with_loop())):
    try:
        connect()
    except BrokerUnreachable as error:
        print(error)
        assert isinstance(error, ConnectionError) and error.__cause__ is None and error.__context__ is None
gc.collect()
"""


@pytest.mark.parametrize("listens", [False, True], ids=["nobody listens", "who listens says nothing"])
def test_without_a_broker_there_is_one_readable_error_in_time_and_nothing_is_left_open(listens: bool) -> None:
    """Mend 22.21: no chain of aiokafka's errors, and no "Unclosed AIOKafkaProducer"."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if listens:
            server.listen()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        words = [sys.executable, "-X", "dev", "-c", NO_BROKER, address]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert all(one not in done.stderr for one in ("Unclosed", "Traceback", "never retrieved")), done.stderr
    first, second = done.stdout.splitlines()
    assert first == second
    assert first.startswith(f"no connection to the broker at {address} within 1 s: it does not answer")
    assert "`sluice broker status`" in first


@pytest.mark.parametrize("code", ["deadline_elapsed", "port_busy"])
def test_a_denial_to_which_nobody_objected_is_told_as_one(code: str) -> None:
    """Mend 22.9: there was no time or no room to ask, so the model may call again."""
    reason = f"{code}: grader got no answer"
    refused = make_refusal(ActionAnswer("denied", "v", "grader", reason, "T1", None, None, (), 0, {}, {}))
    assert "once more" in refused.advice
    assert str(refused).startswith("denied by grader")
