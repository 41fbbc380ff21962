"""What of the client needs no broker: its imports, its journal, and the signature of an outcome."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from sluice.client.answers import InputPlace
from sluice.client.journal import Journal
from sluice.client.sender import signature_of
from sluice.core.registry.keys import signed_by
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
    record = {
        "action_id": "änderung-\u2028-1",
        "session_id": 's"1',
        "rows_affected": 2**53 - 1,
        "reported_by": "point",
        "action_digest": digest,
        "input": place,
    }
    signed = ActionOutcome.model_validate({**record, "signature": signature_of(record, pem, HERE)})
    assert signed_by(key.public_key(), signed, HERE)
    assert not signed_by(key.public_key(), signed.model_copy(update={"rows_affected": 1}), HERE)


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
        first.place("s", name, InputPlace(1, 2, 3))
        if name != "asked":
            first.decide("s", name, {"verdict": "allowed", "name": name})
            first.start("s", name)
        if name in ("done", "told"):
            first.finish("s", name, b"outcome")
    first.report("s", "told")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        _opened_soon(tmp_path / "journal")
    first.close()
    second = Journal(tmp_path / "journal")
    assert {one.action_id: (one.step, one.outcome) for one in second.unreported()} == {
        "begun": ("started", None),
        "done": ("finished", b"outcome"),
    }
    asked = second.propose("s", "asked", b"")
    assert (asked.step, asked.place, asked.value) == ("proposed", InputPlace(1, 2, 3), b"asked")


def test_ids_of_another_session_are_other_actions() -> None:
    journal = Journal()
    journal.propose("s", "a", b"1")
    journal.decide("s", "a", {})
    assert journal.propose("t", "a", b"2").step == "proposed"
    assert not journal.start("t", "a")


def _opened_soon(path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sluice.client.journal.BUSY_S", 0.1)
        Journal(path)


def test_the_worked_example_of_a_signature_is_what_a_worker_accepts() -> None:
    lines = (Path(__file__).parents[3] / "docs" / "clients.md").read_text().split("```text\n")[1].splitlines()
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
