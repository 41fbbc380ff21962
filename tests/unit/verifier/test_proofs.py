"""Mend 22.3: with a key the verifier finds what no worker signed, even where every chain is whole."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sluice.core.registry.keys import SigningKey
from sluice.stream.engine.outbox import Output
from sluice.stream.engine.record_signer import RecordSigner
from sluice.verifier import __main__ as command
from sluice.verifier.export import Located, read_lines, write_line
from sluice.verifier.proof_check import SignedBy, UnusableKey
from sluice.verifier.verify import verify
from sluice_topics.audience import Audience
from sluice_topics.record_proof import find_proof
from tests.unit.verifier.ledgers import genuine_ledger

if TYPE_CHECKING:
    from pathlib import Path

KEY, OTHER = (SigningKey(Ed25519PrivateKey.generate()) for _ in range(2))
HERE = SignedBy([KEY.public.text], "here")
TRANSACTION = 5


def sign(ledger: list[Located], key: SigningKey = KEY, prefix: str = "") -> list[Located]:
    """As a worker signs it: some records of a partition at a time."""
    signer = RecordSigner(key, Audience("here", prefix))
    proofs: dict[int, bytes | None] = {}
    for partition in {one.partition for one in ledger}:
        own = [one for one in ledger if one.partition == partition]
        for at in range(0, len(own), TRANSACTION):
            some = own[at : at + TRANSACTION]
            outputs = [
                Output(one.topic.removeprefix(prefix), one.key or b"", one.value or b"", []) for one in some
            ]
            signer.sign(partition, outputs)
            proofs |= {id(one): find_proof(out.headers) for one, out in zip(some, outputs, strict=True)}
    return [replace(one, proof=proofs[id(one)]) for one in ledger]


def codes(ledger: list[Located], signed_by: SignedBy | None = HERE) -> set[str]:
    return {one.code for one in verify(ledger, signed_by).findings}


@pytest.mark.parametrize("prefix", ["", "staging."])
def test_a_signed_ledger_is_intact(prefix: str) -> None:
    ledger = sign(genuine_ledger(1, 40, prefix=prefix), prefix=prefix)
    assert codes(ledger) == set()
    assert codes(ledger, None) == set()
    assert codes(list(read_lines(write_line(one, 1).encode() for one in ledger))) == set()


def test_a_partition_that_was_written_again_as_a_whole_is_found_with_the_key_alone() -> None:
    """Its chain is consistent: every number, link, hash and id is right."""
    rewritten = genuine_ledger(2, 40)
    assert codes(rewritten, None) == set()
    assert codes(rewritten) == {"unsigned"}
    assert codes(sign(rewritten, OTHER)) == {"unsigned"}
    old = {(one.partition, one.topic, one.offset): one.proof for one in sign(genuine_ledger(1, 40))}
    with_old = [replace(one, proof=old.get((one.partition, one.topic, one.offset))) for one in rewritten]
    report = verify(with_old, HERE)
    assert {one.code for one in report.findings} == {"unsigned"}
    assert len(report.findings) == len(rewritten)


def test_keys_that_followed_each_other_are_given_together() -> None:
    ledger = genuine_ledger(1, 40)
    old, new = sign(ledger, OTHER), sign(ledger)
    mixed = [*old[:20], *new[20:]]
    assert codes(mixed, SignedBy([KEY.public.text, OTHER.public.text], "here")) == set()
    assert codes(mixed) == {"unsigned"}


def test_a_proof_is_for_one_installation_one_partition_and_one_record() -> None:
    ledger = sign(genuine_ledger(1, 40))
    assert codes(ledger, SignedBy(HERE.keys, "there")) == {"unsigned"}
    swapped = [replace(ledger[0], proof=ledger[3].proof), *ledger[1:]]
    found = verify(swapped, HERE).findings
    assert [(one.code, one.offset) for one in found] == [("unsigned", ledger[0].offset)]
    for proof in (
        b"",
        b"v1",
        ledger[0].proof and ledger[0].proof[:-4],
        ledger[0].proof and ledger[0].proof + b"=",
    ):
        assert codes([replace(ledger[0], proof=proof), *ledger[1:]]) == {"unsigned"}


def test_a_text_that_is_no_key_is_refused() -> None:
    with pytest.raises(UnusableKey):
        verify([], SignedBy(["AAAA"], "here"))


def test_the_copied_folder_checks_proofs_too(tmp_path: Path) -> None:
    export = tmp_path / "ledger.jsonl"
    lines = [write_line(one, 1) + "\n" for one in sign(genuine_ledger(1, 40))]
    export.write_text("".join(lines))
    words = [str(export), "--verdict-key", KEY.public.text, "--installation", "here"]
    assert command.main(words) == 0
    assert command.main([str(export), "--verdict-key", OTHER.public.text, "--installation", "here"]) == 1
    assert command.main([str(export), "--verdict-key", "x"]) == 2
    bare = [sys.executable, "-S", "-m", "sluice.verifier", *words]
    folder = str(__import__("sluice").__path__[0]).removesuffix("sluice")
    told = subprocess.run(bare, env={"PYTHONPATH": folder}, capture_output=True, text=True, check=False)
    assert told.returncode == 2, "without the package it says so"
    assert "cryptography" in told.stderr
