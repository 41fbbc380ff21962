"""Witnesses co-sign heads that continue what they saw, and a verifier can ask for enough of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from sluice.cli.main import cli
from sluice.cli.policy.key_files import make_private_key
from sluice.verifier.__main__ import main
from sluice.verifier.export import write_line
from sluice.verifier.head_check import HeadSources, Witnesses, find_witnesses
from sluice.verifier.proof_check import UnusableKey
from sluice.verifier.verify import verify
from tests.unit.core.trust.scene import ALICE
from tests.unit.verifier.test_head_check import HEADS, OTHER_HEADS, RECORDS_WRITTEN, SIGNERS
from tests.unit.verifier.test_head_proofs import prove, prove_growth

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result


class Witness:
    """A witness of its own: key, memory, and the command set to both."""

    def __init__(self, place: Path, name: str) -> None:
        self.seen = place / f"{name}.seen.jsonl"
        self.pem = place / f"{name}.pem"
        self.key = make_private_key(self.pem).public.text

    def cosign(self, proof: object, head_key: str = ALICE.public.text) -> Result:
        """`sluice witness` on a proof."""
        file = self.seen.with_suffix(".proof")
        file.write_text(json.dumps(proof))
        words = ["witness", str(file), "--key", str(self.pem), "--seen", str(self.seen)]
        environment = {"SLUICE_POLICY__INSTALLATION": "here"}
        return CliRunner().invoke(cli, [*words, "--head-key", head_key], env=environment)

    def count(self) -> int:
        """How many heads it co-signed."""
        return len(self.seen.read_bytes().splitlines()) if self.seen.exists() else 0


@pytest.fixture
def witnesses(tmp_path: Path) -> list[Witness]:
    return [Witness(tmp_path, name) for name in ("first", "second", "third")]


def find_codes(witnesses: list[Witness], enough: int, heads: int = 3) -> tuple[list[str], int | None]:
    """The findings of a verification that demands so many, and the last head with enough."""
    sources = HeadSources(
        SIGNERS,
        witnesses=Witnesses([each.key for each in witnesses], enough),
        cosigned=[each.seen for each in witnesses if each.seen.exists()],
    )
    report = verify(RECORDS_WRITTEN, None, sources.read(HEADS[:heads]))
    return [each.code for each in report.findings], report.heads.witnessed if report.heads else None


def test_a_verifier_asks_for_enough_of_the_witnesses(witnesses: list[Witness]) -> None:
    first, second, third = witnesses
    assert find_codes(witnesses, 1) == (["unwitnessed"], None)
    assert first.cosign(prove_growth(1, 1)).exit_code == 0
    assert first.cosign(prove_growth(1, 2)).exit_code == 0
    assert second.cosign(prove_growth(1, 2)).exit_code == 0
    assert find_codes(witnesses, 1) == ([], 2)
    assert find_codes(witnesses, 2) == ([], 2)
    assert find_codes(witnesses, 3) == (["unwitnessed"], None)
    assert first.cosign(prove_growth(2, 3)).exit_code == 0
    assert third.cosign(prove_growth(1, 3)).exit_code == 0
    assert find_codes(witnesses, 2) == ([], 3)
    assert "head_missing" in find_codes(witnesses, 2, heads=2)[0]
    assert find_codes([first, first], 2) == (["unwitnessed"], None)


def test_a_witness_does_not_sign_what_does_not_continue_what_it_saw(witnesses: list[Witness]) -> None:
    witness = witnesses[0]
    other = prove_growth(1, 3) | {"second": json.loads(OTHER_HEADS[2].value or b"")}
    for proof, reason in (
        (other, "do not begin"),
        (prove(json.loads(RECORDS_WRITTEN[0].value or b"").get("verdict_id", "x")), ""),
        ({}, "it is no proof"),
    ):
        refused = witness.cosign(proof)
        assert (refused.exit_code, witness.count()) == (1, 0)
        assert reason in refused.stderr
    assert witness.cosign(prove_growth(1, 2), witness.key).exit_code == 1
    assert witness.cosign(prove_growth(1, 2)).exit_code == 0
    early = witness.cosign(prove_growth(1, 3))
    assert (early.exit_code, "it must at head 2" in early.stderr) == (1, True)
    forked = {**prove_growth(2, 2)}
    forked["first"] = forked["second"] = json.loads(OTHER_HEADS[1].value or b"")
    forked["partitions"] = [{**each, "path": []} for each in forked["partitions"]]
    two = witness.cosign(forked)
    assert (two.exit_code, "two histories" in two.stderr) == (1, True)
    assert witness.count() == 1


def test_a_head_that_a_witness_has_otherwise_is_a_fork(witnesses: list[Witness]) -> None:
    """The signer showed the witness one history and the auditors another."""
    growth = prove_growth(1, 1)
    growth["first"] = growth["second"] = json.loads(OTHER_HEADS[2].value or b"")
    growth["partitions"] = [{**each, "path": []} for each in growth["partitions"]]
    assert witnesses[0].cosign(growth).exit_code == 0
    codes, witnessed = find_codes(witnesses, 1)
    assert ({"head_forked", "rewritten", "unwitnessed"} <= set(codes), witnessed) == (True, None)


def test_how_many_is_asked_for_needs_as_many_keys() -> None:
    assert find_witnesses([], None) is None
    assert find_witnesses(["a", "b"], None) == Witnesses(["a", "b"], 2)
    for keys, enough in (([], 1), (["a", "a"], 2)):
        with pytest.raises(UnusableKey):
            find_witnesses(keys, enough)


def test_the_program_for_auditors_asks_for_witnesses(witnesses: list[Witness], tmp_path: Path) -> None:
    export = tmp_path / "ledger.jsonl"
    lines = [write_line(each, each.timestamp_ms or 0) for each in [*HEADS, *RECORDS_WRITTEN]]
    export.write_text("\n".join(lines))
    witness = witnesses[0]
    more = ("--head-key", ALICE.public.text, "--witness-key", witness.key)
    assert main([str(export), *more]) == 1
    assert witness.cosign(prove_growth(2, 3)).exit_code == 0
    assert main([str(export), *more, "--cosigned", str(witness.seen)]) == 0
    assert main([str(export), *more, "--witnesses", "2", "--cosigned", str(witness.seen)]) == 2
