"""Proofs from tree heads: made by the core, checked by the verifier, and every change to one found."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest

from sluice.core.trust.head_proofs import ProofMaker, prove_consistency, prove_inclusion
from sluice.core.trust.tree_heads import LedgerBroken, open_head
from sluice.verifier.__main__ import main
from sluice.verifier.head_check import HeadSigners
from sluice.verifier.head_proof_check import check_proof
from tests.unit.core.trust.scene import ALICE, STRANGER
from tests.unit.verifier.test_head_check import HEADS, OTHER_HEADS, RECORDS_WRITTEN, SIGNERS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sluice_topics.records.tree_heads import TreeHead


def read_head(number: int) -> tuple[TreeHead, bytes]:
    value = HEADS[number - 1].value or b""
    return open_head(value, number)[1], value


def take_all(maker: ProofMaker) -> ProofMaker:
    for record in reversed(RECORDS_WRITTEN):
        maker.take(record.topic, record.partition, record.offset, record.value)
    return maker


def prove(an_id: str, number: int = 2) -> dict[str, Any]:
    head, envelope = read_head(number)
    maker = take_all(ProofMaker(head, range(len(head.partitions)), an_id))
    return prove_inclusion(head, envelope, maker.build_trees(), maker.records)


def prove_growth(first: int, second: int) -> dict[str, Any]:
    (then, before), (now, after) = read_head(first), read_head(second)
    maker = take_all(ProofMaker(now, range(len(now.partitions))))
    return prove_consistency((then, now), (before, after), maker.build_trees())


def find_id(index: int) -> str:
    fields = json.loads(RECORDS_WRITTEN[index].value or b"")
    return next(
        str(fields[name]) for name in ("verdict_id", "escalation_id", "dead_letter_id") if name in fields
    )


def holds(proof: dict[str, Any], signers: HeadSigners | None = SIGNERS) -> bool:
    return check_proof(json.dumps(proof).encode(), signers).holds


def test_every_record_that_a_head_states_is_proven() -> None:
    for index in range(41):
        proof = prove(find_id(index))
        assert [each["record"].encode() for each in proof["proofs"]] == [RECORDS_WRITTEN[index].value]
        result = check_proof(json.dumps(proof).encode(), SIGNERS)
        assert result.holds, result.lines


@pytest.mark.parametrize(("first", "second"), [(1, 2), (1, 3), (2, 3), (2, 2)])
def test_a_head_is_proven_to_begin_a_later_one(first: int, second: int) -> None:
    result = check_proof(json.dumps(prove_growth(first, second)).encode(), SIGNERS)
    assert (result.holds, result.lines) == (
        True,
        (f"The ledger of head {first} begins that of head {second}.",),
    )


def test_who_gives_no_key_is_told_that_the_signature_was_not_checked() -> None:
    result = check_proof(json.dumps(prove(find_id(3))).encode(), None)
    assert result.holds
    assert "who signed the head was not checked" in result.lines[-1]


INCLUSION, GROWTH = prove(find_id(5)), prove_growth(1, 3)


def alter_record(proof: dict[str, Any]) -> None:
    proof["proofs"][0]["record"] = proof["proofs"][0]["record"].replace("session-", "session+")


def swap_record(proof: dict[str, Any]) -> None:
    """Another record of the ledger, whole, with the path of this one."""
    proof["proofs"][0]["record"] = (RECORDS_WRITTEN[8].value or b"").decode()


def unknown_record(proof: dict[str, Any]) -> None:
    """A record that the head does not state yet."""
    proof["proofs"][0]["record"] = (RECORDS_WRITTEN[59].value or b"").decode()


def flip(path: list[str]) -> None:
    path[0] = path[0][:-1] + ("0" if path[0][-1] != "0" else "1")


ON_INCLUSION: list[Callable[[dict[str, Any]], object]] = [
    alter_record,
    swap_record,
    unknown_record,
    lambda proof: flip(proof["proofs"][0]["path"]),
    lambda proof: flip(proof["proofs"][0]["partition_path"]),
    lambda proof: proof["proofs"][0]["path"].pop(),
    lambda proof: proof["proofs"][0]["path"].append("sha256:" + "0" * 64),
    lambda proof: proof["proofs"][0]["path"].append("0"),
    lambda proof: proof["proofs"].clear(),
    lambda proof: proof["proofs"].append(None),
    lambda proof: proof.update(schema="other"),
    lambda proof: proof.pop("head"),
    lambda proof: proof.update(head=json.loads(OTHER_HEADS[1].value or b"")),
    lambda proof: proof["head"].update(signatures=[]),
    lambda proof: proof["head"].update(payload=GROWTH["second"]["payload"]),
]
ON_GROWTH: list[Callable[[dict[str, Any]], object]] = [
    lambda proof: flip(proof["partitions"][1]["path"]),
    lambda proof: proof["partitions"][2]["path"].pop(),
    lambda proof: proof["partitions"].pop(),
    lambda proof: proof["partitions"].reverse(),
    lambda proof: proof["partitions"].append(None),
    lambda proof: proof.update(first=proof["second"], second=proof["first"]),
    lambda proof: proof.update(second=json.loads(OTHER_HEADS[2].value or b"")),
    lambda proof: proof["first"].update(signatures=[{"keyid": "x", "sig": "AAAA"}]),
]


@pytest.mark.parametrize(
    ("proof", "change"),
    [*((INCLUSION, change) for change in ON_INCLUSION), *((GROWTH, change) for change in ON_GROWTH)],
)
def test_a_changed_proof_does_not_hold(
    proof: dict[str, Any], change: Callable[[dict[str, Any]], object]
) -> None:
    changed = copy.deepcopy(proof)
    change(changed)
    assert holds(proof)
    assert not holds(changed)


def test_a_proof_of_another_signer_or_installation_does_not_hold() -> None:
    assert not holds(INCLUSION, HeadSigners([STRANGER.public.text]))
    assert not holds(INCLUSION, HeadSigners([ALICE.public.text], "there"))
    assert not check_proof(b"[]", SIGNERS).holds


def test_nothing_is_proven_from_a_ledger_that_is_not_what_the_head_signs() -> None:
    head, _ = read_head(2)
    maker = ProofMaker(head, [0], "x")
    for record in RECORDS_WRITTEN[1:]:
        maker.take(record.topic, record.partition, record.offset, record.value)
    maker.take("t", 0, 0, b"no record")
    with pytest.raises(LedgerBroken, match="partition 0: its first 14 records are not those that head 2"):
        maker.build_trees()


def test_the_program_for_auditors_checks_a_proof(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "proof.json"
    file.write_text(json.dumps(INCLUSION))
    assert main([str(file), "--proof", "--head-key", ALICE.public.text]) == 0
    assert "it holds: " in capsys.readouterr().out
    assert main([str(file), "--proof", "--json", "--head-key", STRANGER.public.text]) == 1
    assert json.loads(capsys.readouterr().out)["holds"] is False
    assert main([str(tmp_path / "none"), "--proof"]) == 2
