"""What the head signer signs, and every ledger and every series of heads over which it must not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from sluice.core.foundation.canonical import canonical
from sluice.core.foundation.chain import GENESIS, Chain
from sluice.core.foundation.merkle import MerkleTree, hash_leaf
from sluice.core.trust.dsse import sign
from sluice.core.trust.tree_heads import (
    HeadKeys,
    HeadRefused,
    HeadSeries,
    LedgerBroken,
    LedgerTree,
    read_link,
    sign_head,
)
from sluice_topics.audience import Audience
from sluice_topics.records.tree_heads import PAYLOAD_TYPE, TreeHead
from tests.unit.core.trust.scene import ALICE, BOB, START, STRANGER

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluice.core.registry.keys import SigningKey

HERE = Audience("here", "t.")
POLICY = "sha256:" + "5" * 64


def write_chain(partition: int, count: int, text: str = "x") -> list[bytes]:
    """Some records; the second says which policy is in force."""
    chain = Chain(partition)
    return [
        chain.link(
            {"schema": "sluice/policy_in_force/v1", "digest": POLICY}
            if number == 1
            else {"schema": "sluice/verdict/v1", "text": text}
        )
        for number in range(count)
    ]


def read(chains: dict[int, list[bytes]], published: TreeHead | None = None) -> LedgerTree:
    """A tree over two partitions that has read these records."""
    tree = LedgerTree(2, published)
    for partition, values in chains.items():
        for value in values:
            tree.trees[partition].take(read_link(value))
    return tree


def make_series(*heads: TreeHead, keys: HeadKeys | None = None) -> HeadSeries:
    """A series that has taken these heads, each signed by Alice."""
    series = HeadSeries(HeadKeys([ALICE.public]) if keys is None else keys, HERE)
    for head in heads:
        series.take(sign_head(head, [ALICE]).encode())
    return series


FIRST = read({0: write_chain(0, 5), 1: write_chain(1, 3)}).make_head(make_series(), START)
SECOND = read({0: write_chain(0, 9), 1: write_chain(1, 3)}).make_head(make_series(FIRST), START + 1000)


def test_a_head_states_every_partition_and_names_the_head_before() -> None:
    chain = write_chain(0, 5)
    leaves = [hash_leaf(bytes.fromhex(json.loads(value)["event_hash"][7:])) for value in chain]
    part = FIRST.partitions[0]
    assert part.root == "sha256:" + MerkleTree(leaves).compute_root(5).hex()
    assert (part.size, part.policy, part.last) == (5, POLICY, json.loads(chain[-1])["event_hash"])
    over = [hash_leaf(canonical(each.model_dump())) for each in FIRST.partitions]
    assert FIRST.root == "sha256:" + MerkleTree(over).compute_root(2).hex()
    assert (FIRST.number, FIRST.previous, FIRST.size) == (1, GENESIS, 8)
    assert (SECOND.number, SECOND.previous, SECOND.size) == (2, make_series(FIRST).digest, 12)
    assert make_series(FIRST, SECOND).last == SECOND


def test_records_of_a_chain_may_come_from_its_topics_in_any_order() -> None:
    chain = write_chain(0, 7)
    tree = LedgerTree(1)
    for at in (1, 0, 4, 3):
        tree.trees[0].take(read_link(chain[at]))
    assert tree.find_gap() == "partition 0: record 3 is missing, though record 4 is there"
    assert tree.size == 2
    for at in (2, 6, 5):
        tree.trees[0].take(read_link(chain[at]))
    assert tree.find_gap() is None
    assert tree.make_head(make_series(), START).partitions[0] == read({0: chain}).trees[0].make_head()


def alter(value: bytes) -> bytes:
    return value.replace(b'"x"', b'"y"')


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([alter(write_chain(0, 1)[0])], "record 1 was altered"),
        ([write_chain(0, 2)[0], write_chain(0, 2, "y")[1]], "record 2 does not link"),
        ([write_chain(0, 1)[0], write_chain(0, 1)[0]], "a second record 1"),
        ([b"{}"], "cannot be read"),
        ([b'{"sequence":"1","event_hash":"","prev_hash":"","schema":""}'], "another type"),
        ([b'{"sequence":1,"event_hash":"sha256:0","prev_hash":"","schema":""}'], "no SHA-256"),
    ],
)
def test_nothing_is_signed_over_a_broken_chain(values: list[bytes], reason: str) -> None:
    with pytest.raises(LedgerBroken, match=reason):
        read({0: values})


def test_a_record_that_spells_its_hash_elsewhere_is_read_too() -> None:
    """Whole and in another order than a worker's: the hash is over the canonical form."""
    fields = json.loads(write_chain(0, 1)[0])
    moved = json.dumps({"event_hash": fields.pop("event_hash"), **fields}).encode()
    assert read({0: [moved]}).size == 1


@pytest.mark.parametrize(
    "inner",
    [{"sequence": 9, "prev_hash": "sha256:" + "9" * 64}, '"sequence":9,"prev_hash":"', "policy_in_force"],
)
def test_what_lies_within_a_record_is_not_taken_for_its_own(inner: object) -> None:
    chain = Chain(0)
    first = chain.link({"schema": "sluice/verdict/v1", "inner": inner})
    second = chain.link({"inner": inner, "schema": "sluice/verdict/v1"})
    before, link = read_link(first), read_link(second)
    assert (before.sequence, before.previous, before.policy) == (1, GENESIS, None)
    assert (link.sequence, link.previous, link.policy) == (2, before.event_hash, None)
    assert link.event_hash == json.loads(second)["event_hash"]


@pytest.mark.parametrize(
    ("chains", "reason"),
    [
        (
            {0: write_chain(0, 5, "y"), 1: write_chain(1, 3)},
            "partition 0 was written again: its first 5 rec.*1",
        ),
        ({0: write_chain(0, 4), 1: write_chain(1, 3)}, "partition 0 ends at record 4: head 1 signs 5"),
        ({0: write_chain(0, 5)}, "partition 1 ends at record 0: head 1 signs 3"),
        (
            {0: [*write_chain(0, 5)[:2], write_chain(0, 5)[4]], 1: write_chain(1, 3)},
            "partition 0: records 3 to 4 are missing, though record 5 is there: head 1",
        ),
    ],
)
def test_nothing_is_signed_where_the_last_head_is_not_the_beginning(
    chains: dict[int, list[bytes]], reason: str
) -> None:
    with pytest.raises(LedgerBroken, match=reason):
        read(chains, FIRST).require_published()


def test_a_ledger_with_fewer_partitions_than_the_last_head_is_refused() -> None:
    with pytest.raises(LedgerBroken, match="partition 1 is gone: head 1 signs 3"):
        LedgerTree(1, FIRST)


def test_what_is_published_is_not_signed_again() -> None:
    tree = read({0: write_chain(0, 5), 1: write_chain(1, 3)})
    assert tree.unsigned == 8
    tree.note_published(FIRST)
    assert tree.unsigned == 0
    assert read({0: write_chain(0, 9), 1: write_chain(1, 3)}, FIRST).unsigned == 4


def change(head: TreeHead, **fields: Any) -> TreeHead:
    return TreeHead.model_validate(head.model_dump() | fields, by_name=True)


def shrink(head: TreeHead) -> TreeHead:
    """Self-consistent, and with less of partition 1."""
    tree = read({0: write_chain(0, 9), 1: write_chain(1, 2)})
    return change(tree.make_head(make_series(FIRST), START + 1000), previous=head.previous)


def rewrite(head: TreeHead) -> TreeHead:
    """Self-consistent, and another partition 1 of the same size."""
    tree = read({0: write_chain(0, 9), 1: write_chain(1, 3, "y")})
    return change(tree.make_head(make_series(FIRST), START + 1000), previous=head.previous)


@pytest.mark.parametrize(
    ("forge", "reason"),
    [
        (lambda head: sign_head(head, [STRANGER]).encode(), "head 2: no key"),
        (lambda head: sign_head(head, [ALICE]).encode().replace(b'"sig":"', b'"sig":"AAAA'), "head 2"),
        (lambda _: b"{}", "head 2 is no DSSE envelope"),
        (lambda _: None, "head 2 is no DSSE envelope"),
        (lambda _: sign("application/other", b"{}", [ALICE]).encode(), "head 2 is no tree head"),
        (lambda _: sign(PAYLOAD_TYPE, b"{}", [ALICE]).encode(), "head 2 cannot be read"),
        (
            lambda head: sign_head(change(head, number=3), [ALICE]).encode(),
            "head 3 does not follow from head 1",
        ),
        (lambda head: sign_head(change(head, previous=GENESIS), [ALICE]).encode(), "head 2 does not follow"),
        (
            lambda head: sign_head(change(head, installation="there"), [ALICE]).encode(),
            "another installation",
        ),
        (lambda head: sign_head(change(head, signed_at=FIRST.signed_at[:-2] + "0Z"), [ALICE]).encode(), None),
        (
            lambda head: sign_head(change(head, signed_at="2020-01-01T00:00:00.000Z"), [ALICE]).encode(),
            "older",
        ),
        (lambda head: sign_head(change(head, size=99), [ALICE]).encode(), "root or size"),
        (lambda head: sign_head(change(head, root=POLICY), [ALICE]).encode(), "root or size"),
        (lambda head: sign_head(shrink(head), [ALICE]).encode(), "less of a partition"),
        (lambda head: sign_head(rewrite(head), [ALICE]).encode(), "less of a partition"),
    ],
)
def test_a_head_that_does_not_follow_is_refused_by_its_name(
    forge: Callable[[TreeHead], bytes | None], reason: str | None
) -> None:
    series = make_series(FIRST)
    if reason is None:
        assert series.take(forge(SECOND)).number == 2
        return
    with pytest.raises(HeadRefused, match=reason):
        series.take(forge(SECOND))
    assert (series.number, series.last) == (1, FIRST)


def test_keys_are_replaced_with_an_overlap() -> None:
    """The old key's heads count until its time, in the signer's words and the broker's; the new one's too."""
    until = START + 500
    keys = HeadKeys([BOB.public], {ALICE.public: until})
    series = make_series(FIRST, keys=keys)
    with pytest.raises(HeadRefused, match="head 2: the key that signed it was retired before"):
        series.take(sign_head(SECOND, [ALICE]).encode())
    backdated = change(SECOND, signed_at=FIRST.signed_at)
    with pytest.raises(HeadRefused, match="head 2: the key that signed it was retired before"):
        series.take(sign_head(backdated, [ALICE]).encode(), stored_at_ms=until + 1)
    assert series.take(sign_head(SECOND, [ALICE, BOB]).encode()).number == 2
    assert (
        HeadKeys([ALICE.public], {ALICE.public: 0}).find_objection(sign_head(SECOND, [ALICE]), START) is None
    )


THIRD = read({0: write_chain(0, 9), 1: write_chain(1, 7)}).make_head(make_series(FIRST, SECOND), START + 2000)


def resume(*heads: TreeHead, signer: SigningKey = ALICE) -> HeadSeries:
    """A series that was told the earlier heads by their links, and has taken the last."""
    series = HeadSeries(HeadKeys([ALICE.public]), HERE)
    for head in heads[:-1]:
        series.link(sign_head(head, [STRANGER]).encode())
    series.take(sign_head(heads[-1], [signer]).encode())
    return series


def test_the_last_head_vouches_for_those_that_it_names_by_their_digests() -> None:
    resumed, followed = resume(FIRST, SECOND, THIRD), make_series(FIRST, SECOND, THIRD)
    assert (resumed.number, resumed.digest, resumed.last) == (3, followed.digest, THIRD)
    assert resumed.signed_at_ms == followed.signed_at_ms
    with pytest.raises(HeadRefused, match="no key that counts"):
        resume(FIRST, SECOND, THIRD, signer=STRANGER)


@pytest.mark.parametrize(
    "heads",
    [
        (SECOND, THIRD),
        (FIRST, THIRD),
        (FIRST, FIRST, THIRD),
        (SECOND, FIRST, THIRD),
        (change(FIRST, size=7), SECOND, THIRD),
        (FIRST, change(SECOND, signed_at="2026-01-01T00:00:00.000Z"), THIRD),
        (FIRST, change(SECOND, previous=GENESIS), THIRD),
        (FIRST, SECOND, change(THIRD, partitions=SECOND.partitions)),
    ],
)
def test_a_head_that_is_missing_or_changed_breaks_the_links(heads: tuple[TreeHead, ...]) -> None:
    with pytest.raises(HeadRefused):
        resume(*heads)


@pytest.mark.parametrize("value", [None, b"", b"x", b"{}", sign(PAYLOAD_TYPE, b"[1]", [ALICE]).encode()])
def test_what_is_no_head_has_no_link(value: bytes | None) -> None:
    with pytest.raises(HeadRefused, match="head 1 does not follow"):
        make_series().link(value)
