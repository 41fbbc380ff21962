"""Mend 22.3: a proof fits the one record for which a worker made it; one signature serves a transaction."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from sluice.adapters.kafka.kafka_read import StoredRecord
from sluice.client.answers import ClientError
from sluice.client.record_proofs import NO_PROOFS, RecordProofs
from sluice.core.registry.keys import SigningKey
from sluice.stream.engine.outbox import Output
from sluice.stream.engine.record_signer import RecordSigner
from sluice_topics.audience import Audience
from sluice_topics.catalog import SOURCE_FEEDBACK, VERDICTS
from sluice_topics.record_proof import HEADER, LONGEST_HEADER, RecordProof, Tree, find_proof, read_proof

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE = Audience("installation-1", "p.")
OLD, NEW = (SigningKey(Ed25519PrivateKey.generate()) for _ in range(2))
PARTITION = 3


def outputs(count: int) -> list[Output]:
    return [
        Output(VERDICTS, b"s-%d" % number, b'{"n":%d}' % number, [("ce_id", b"x")]) for number in range(count)
    ]


def sign(count: int, key: SigningKey = NEW) -> list[Output]:
    made = outputs(count)
    RecordSigner(key, HERE).sign(PARTITION, made)
    return made


def objection(
    one: Output, keys: Sequence[SigningKey] = (NEW,), partition: int = PARTITION, audience: Audience = HERE
) -> str | None:
    proofs = RecordProofs([key.public.text for key in keys], audience)
    return proofs.find_objection(one.topic, read_committed(one, partition))


def read_committed(one: Output, partition: int = PARTITION) -> StoredRecord:
    return StoredRecord(one.topic, partition, 0, 0, one.key, one.value, tuple(one.headers))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 8, 9, 33, 1000])
def test_every_record_of_a_transaction_has_a_proof_under_one_signature(count: int) -> None:
    made = sign(count)
    assert {objection(one) for one in made} == {None}
    found = [read_proof(find_proof(one.headers) or b"") for one in made]
    assert len({one.signature for one in found if one is not None}) == 1
    assert max(len(find_proof(one.headers) or b"") for one in made) < LONGEST_HEADER / 2


@given(st.integers(1, 40), st.data())
def test_no_proof_fits_another_record(count: int, data: st.DataObject) -> None:
    made = sign(count)
    one, other = (made[data.draw(st.integers(0, count - 1))] for _ in range(2))
    moved = replace(one, headers=other.headers)
    assert (objection(moved) is None) == (one is other)


def test_a_changed_record_has_no_proof() -> None:
    (one,) = sign(1)
    assert objection(replace(one, value=one.value + b" ")) is not None
    assert objection(replace(one, key=b"s-1")) is not None
    assert objection(replace(one, topic="gate.escalations")) is not None
    assert objection(one, partition=4) is not None
    assert objection(one, audience=Audience("installation-2", "p.")) is not None
    assert objection(one, audience=Audience("installation-1", "q.")) is not None


def test_an_unsigned_record_counts_only_for_a_reader_that_knows_no_key() -> None:
    (one,) = outputs(1)
    assert "not signed" in str(objection(one))
    assert NO_PROOFS.find_objection(one.topic, read_committed(one)) is None


@pytest.mark.parametrize("value", [b"x", b"", b"[]", b"null", b"\xff", b"[" * 100_000])
def test_what_is_no_record_counts_for_no_reader_and_ends_none(value: bytes) -> None:
    one = replace(outputs(1)[0], value=value)
    assert NO_PROOFS.read_fields(one.topic, read_committed(one)) is None
    RecordSigner(NEW, HERE).sign(PARTITION, [one])
    assert RecordProofs([NEW.public.text], HERE).read_fields(one.topic, read_committed(one)) is None


def test_a_record_that_counts_is_read() -> None:
    (one,) = sign(1)
    assert RecordProofs([NEW.public.text], HERE).read_fields(one.topic, read_committed(one)) == {"n": 0}
    assert RecordProofs([OLD.public.text], HERE).read_fields(one.topic, read_committed(one)) is None


def test_while_a_key_is_replaced_both_count_and_afterwards_the_new_one_alone() -> None:
    old, new = sign(2, OLD)[0], sign(2, NEW)[0]
    assert [objection(one, (OLD, NEW)) for one in (old, new)] == [None, None]
    assert "none of those that count" in str(objection(old, (NEW,)))


def test_a_root_cannot_pass_for_a_leaf_nor_a_tree_for_a_smaller_one() -> None:
    made = sign(4)
    proof = read_proof(find_proof(made[0].headers) or b"")
    assert proof is not None
    for changed in (
        proof._replace(leaves=2, path=proof.path[1:]),
        proof._replace(leaves=3),
        proof._replace(leaves=5),
        proof._replace(number=1),
        proof._replace(path=(*proof.path, proof.path[0])),
        proof._replace(path=proof.path[:1]),
        proof._replace(number=4),
    ):
        assert objection(replace(made[0], headers=[(HEADER, changed.header())])) is not None


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"v1",
        b"v2 0000000000000000 0 1 %s -" % base64.b64encode(bytes(64)),
        b"v1 0000000000000000 0 0 %s -" % base64.b64encode(bytes(64)),
        b"v1 0000000000000000 00 1 %s -" % base64.b64encode(bytes(64)),
        b"v1 0000000000000000 0 1 %s " % base64.b64encode(bytes(64)) + base64.b64encode(bytes(31)),
        b"v1 0000000000000000 0 1 %s " % base64.b64encode(bytes(63)) + b"-",
        b"v1 0000000000000000 0 1 %s -\n" % base64.b64encode(bytes(64)),
        b"v1 0000000000000000 0 1 %s %s" % (base64.b64encode(bytes(64)), b"A" * LONGEST_HEADER),
    ],
)
def test_what_is_not_written_as_a_proof_is_none(raw: bytes) -> None:
    assert read_proof(raw) is None
    (one,) = outputs(1)
    assert objection(replace(one, headers=[(HEADER, raw)])) is not None


@given(st.integers(1, 70).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1))))
def test_a_proof_is_read_as_it_was_written_and_leads_to_the_root(place: tuple[int, int]) -> None:
    count, number = place
    tree = Tree([bytes([one]) * 32 for one in range(count)])
    proof = RecordProof("0" * 16, number, count, bytes(range(64)), tree.path(number))
    assert read_proof(proof.header()) == proof
    assert proof.root(bytes([number]) * 32) == tree.root


def test_records_of_internal_topics_are_not_signed() -> None:
    made = [*outputs(1), Output(SOURCE_FEEDBACK, b"k", b"{}", [], 5)]
    RecordSigner(NEW, HERE).sign(PARTITION, made)
    assert [find_proof(one.headers) is None for one in made] == [False, True]
    RecordSigner(NEW, HERE).sign(PARTITION, [])


def test_a_reader_is_told_keys_and_their_installation() -> None:
    with pytest.raises(ClientError, match="no public key"):
        RecordProofs(["AAAA"], HERE)
    with pytest.raises(ClientError, match="installation"):
        RecordProofs([NEW.public.text], Audience())
