"""Ways to have a witness co-sign two histories, or to have a proof hold that must not, that somebody has
looked for and that must stay shut. The attacker has the head signer's key, or hands over the proof."""

from __future__ import annotations

import base64
import fcntl
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

from sluice.core.foundation.clock import rfc3339
from sluice.core.trust.dsse import pae
from sluice.verifier.head_proof_check import check_proof
from sluice.verifier.ledger_record import canonicalize
from tests.unit.core.trust.scene import ALICE, START
from tests.unit.verifier.test_head_check import HEADS, SIGNERS
from tests.unit.verifier.test_head_proofs import find_id, prove, prove_growth
from tests.unit.verifier.test_witnesses import Witness

if TYPE_CHECKING:
    from pathlib import Path

ODD: tuple[Any, ...] = (
    None,
    True,
    [],
    {},
    ["x"],
    {"a": 1},
    -1,
    1.5,
    2**60,
    10**400,
    "",
    "\0",
    "\ud800",
    [[[]]],
)


@pytest.fixture
def witness(tmp_path: Path) -> Witness:
    return Witness(tmp_path, "witness")


def sign_again(envelope: dict[str, Any], **changed: Any) -> dict[str, Any]:
    """The head with other fields, by the head signer's key."""
    payload = json.loads(base64.b64decode(envelope["payload"])) | changed
    raw = canonicalize(payload, plain=True)
    signature = base64.b64encode(ALICE.sign(pae(envelope["payloadType"], raw))).decode()
    return {
        "payload": base64.b64encode(raw).decode(),
        "payloadType": envelope["payloadType"],
        "signatures": [{"keyid": ALICE.public.keyid, "sig": signature}],
    }


@pytest.mark.control
def test_a_later_head_that_continues_the_last(witness: Witness) -> None:
    for first, second in ((1, 2), (2, 3)):
        assert witness.cosign(prove_growth(first, second)).exit_code == 0
    assert witness.count() == 2


@pytest.mark.parametrize(
    "changed",
    [{"number": 2}, {"number": 1}, {"number": 0}, {"signed_at": rfc3339(START - 1)}],
    ids=str,
)
def test_another_head_of_a_number_that_was_cosigned(witness: Witness, changed: dict[str, Any]) -> None:
    assert witness.cosign(prove_growth(1, 2)).exit_code == 0
    growth = prove_growth(2, 3)
    refused = witness.cosign(growth | {"second": sign_again(growth["second"], **changed)})
    assert (refused.exit_code, "does not come after head 2" in refused.stderr) == (1, True)
    assert witness.count() == 1


def test_two_commands_at_one_time_that_both_begin_at_the_last(witness: Witness) -> None:
    assert witness.cosign(prove_growth(1, 2)).exit_code == 0
    other = Witness(witness.seen.parent, "other")
    for first, second in ((1, 2), (2, 3)):
        assert other.cosign(prove_growth(first, second)).exit_code == 0
    codes: list[int] = []
    late = threading.Thread(target=lambda: codes.append(witness.cosign(prove_growth(2, 3)).exit_code))
    lock = witness.seen.with_name(f"{witness.seen.name}.lock")
    with lock.open("ab") as locked, witness.seen.open("ab") as memory:
        fcntl.flock(locked, fcntl.LOCK_EX)
        late.start()
        late.join(0.5)
        assert (late.is_alive(), codes) == (True, [])
        memory.write(other.seen.read_bytes().splitlines(keepends=True)[-1])
    late.join(30)
    assert (codes, witness.count()) == ([1], 2)


def test_a_line_that_a_full_disk_cut_off_leaves_the_witness_its_memory(witness: Witness) -> None:
    assert witness.cosign(prove_growth(1, 2)).exit_code == 0
    whole = witness.seen.read_bytes()
    witness.seen.write_bytes(whole + whole[: len(whole) // 2])
    assert witness.cosign(prove_growth(2, 3)).exit_code == 0
    assert witness.cosign(prove_growth(2, 3)).exit_code == 1
    assert [json.loads(line)["payloadType"] for line in witness.seen.read_bytes().splitlines()] == [
        json.loads(HEADS[0].value or b"")["payloadType"]
    ] * 2


def list_places(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every field and member within a value."""
    members = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    return [
        each for name, member in members for each in [(*place, name), *list_places(member, (*place, name))]
    ]


def put(value: Any, place: tuple[Any, ...], odd: Any) -> Any:
    """The value with something else in a place."""
    if not place:
        return odd
    members = dict(value) if isinstance(value, dict) else dict(enumerate(value))
    members[place[0]] = put(members[place[0]], place[1:], odd)
    return members if isinstance(value, dict) else list(members.values())


@pytest.mark.parametrize("proof", [prove(find_id(0)), prove_growth(1, 3)], ids=["inclusion", "consistency"])
def test_a_proof_with_something_else_in_any_place(proof: dict[str, Any]) -> None:
    for place in list_places(proof):
        if place[-1] in {"keyid", "topic", "offset"}:
            continue  # no hash covers them
        for odd in ODD:
            if odd is True and place == ("partitions", 1, "partition"):
                continue  # Python's 1
            raw = json.dumps(put(proof, place, odd)).encode()
            assert not check_proof(raw, SIGNERS).holds, (place, odd)


@pytest.mark.parametrize(
    "raw",
    [
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b'{"schema":"sluice/inclusion_proof/v1","head":' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"schema":"sluice/inclusion_proof/v1","schema":"sluice/inclusion_proof/v1"}',
        b'{"schema":NaN}',
        b"\xff",
        b"",
    ],
    ids=lambda raw: repr(raw[:50]),
)
def test_a_file_that_is_no_proof(raw: bytes) -> None:
    assert not check_proof(raw, SIGNERS).holds
