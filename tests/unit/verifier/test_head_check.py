"""A ledger held against signed heads, by code that shares nothing with the signer."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from load.tamper import TAMPERINGS, relaid
from sluice.core.foundation.chain import Chain
from sluice.core.trust.tree_heads import HeadKeys, HeadSeries, LedgerTree, read_link, sign_head
from sluice.verifier.__main__ import main
from sluice.verifier.export import Located, write_line
from sluice.verifier.head_check import HeadCheck, HeadSigners, HeadSources
from sluice.verifier.proof_check import UnusableKey
from sluice.verifier.verify import verify
from sluice_topics.audience import Audience
from tests.kafka.laid_ledger import PARTITIONS, RECORDS, genuine
from tests.unit.core.trust.scene import ALICE, BOB, START, STRANGER

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sluice.core.registry.keys import SigningKey

RECORDS_WRITTEN = genuine()
TOPIC = "gate.tree_heads"
LENGTHS = (20, 41, RECORDS)
SIGNERS = HeadSigners([ALICE.public.text], "here")


def sign_heads(
    records: Sequence[Located], lengths: Sequence[int] = LENGTHS, key: SigningKey = ALICE
) -> list[Located]:
    """What a signer publishes that signs after so many records, at START and every second after."""
    tree, series = LedgerTree(PARTITIONS), HeadSeries(HeadKeys([key.public]), Audience("here", ""))
    heads: list[Located] = []
    for count, record in enumerate(records, 1):
        tree.trees[record.partition].take(read_link(record.value))
        if count in lengths:
            at_ms = START + 1000 * len(heads)
            value = sign_head(tree.make_head(series, at_ms), [key]).encode()
            series.take(value)
            heads.append(Located(TOPIC, 0, len(heads), b"1", value, at_ms))
    return heads


HEADS = sign_heads(RECORDS_WRITTEN)


def check(
    records: Sequence[Located],
    heads: Sequence[Located] = HEADS,
    signers: HeadSigners | None = SIGNERS,
    copies: Sequence[Path] = (),
) -> list[tuple[str, int, str]]:
    """Code, partition and message of each finding."""
    report = verify(records, None, HeadSources(signers, copies).read(heads))
    return [(each.code, each.partition, each.message) for each in report.findings]


def continue_otherwise(records: Sequence[Located], partition: int, kept: int, count: int) -> list[Located]:
    """The partition's chain written again from a number on, with all hashes made anew."""
    own = [record for record in records if record.partition == partition]
    chain = Chain(partition)
    written = [record for record in records if record.partition != partition]
    for number in range(count):
        fields = json.loads(own[number].value or b"")
        if number >= kept:
            fields["note"] = "written again"
        for name in ("partition", "sequence", "prev_hash", "event_hash"):
            del fields[name]
        written.append(replace(own[number], value=chain.link(fields)))
    return relaid(written)


def test_an_untouched_ledger_is_intact_with_heads_and_with_newer_records() -> None:
    assert check(RECORDS_WRITTEN) == []
    assert check(RECORDS_WRITTEN, HEADS[:2]) == []
    assert check(RECORDS_WRITTEN, HEADS, None) == []
    assert check(continue_otherwise(RECORDS_WRITTEN, 1, 99, RECORDS // PARTITIONS)) == []
    report = verify(RECORDS_WRITTEN, None, HeadCheck())
    assert (report.intact, report.heads) == (True, None)


@pytest.mark.parametrize("cut", [1, 5, 12])
def test_a_tail_that_was_cut_off_is_found(cut: int) -> None:
    """A chain without heads is intact without its tail."""
    last = max(at for at, record in enumerate(RECORDS_WRITTEN) if record.partition == 2)
    end = RECORDS // PARTITIONS - cut
    own = [record for record in RECORDS_WRITTEN if record.partition == 2][:end]
    left = [record for record in RECORDS_WRITTEN if record.partition != 2 or record in own]
    assert last == RECORDS - 1
    assert check(left, []) == [("head_missing", 0, check(left, [])[0][2])]
    message = f"the chain ends at record {end}: head 3 signs 20, so the end was cut off"
    assert check(left) == [("truncated", 2, message)]


def test_a_partition_that_was_dropped_is_found() -> None:
    left = [record for record in RECORDS_WRITTEN if record.partition != 1]
    message = "no record of the partition is there: head 3 signs 20"
    assert check(left) == [("dropped", 1, message)]
    assert [code for code, *_ in check([])] == ["dropped"] * PARTITIONS


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        (0, "records 1 to 7 are not those that head 1 signs"),
        (6, "records 1 to 7 are not those that head 1 signs"),
        (7, "records 8 to 14 are not those that head 2 signs; head 1 agrees"),
        (19, "records 15 to 20 are not those that head 3 signs; head 2 agrees"),
    ],
)
def test_a_suffix_that_was_written_again_with_all_hashes_is_found(kept: int, message: str) -> None:
    again = continue_otherwise(RECORDS_WRITTEN, 0, kept, RECORDS // PARTITIONS)
    assert check(again, [], None) == []
    assert check(again) == [("rewritten", 0, message)]


def test_partitions_that_changed_places_are_found() -> None:
    """Each rebuilt as the other, with all hashes and places made again."""
    own = [record for record in RECORDS_WRITTEN if record.partition == 0]
    short = continue_otherwise(RECORDS_WRITTEN, 1, 0, len(own))
    assert [code for code, *_ in check(short)] == ["rewritten"]


@pytest.mark.parametrize("kind", TAMPERINGS)
def test_what_a_chain_finds_is_found_with_heads_too(kind: str) -> None:
    tampered = TAMPERINGS[kind](RECORDS_WRITTEN, random.Random(7))  # noqa: S311 - seeded, not secret
    codes = {code for code, *_ in check(relaid(tampered.records))}
    assert tampered.codes <= codes


def put_head(at: int, head: Located | None, heads: Sequence[Located] = HEADS) -> list[Located]:
    rest = [*heads[:at], *([] if head is None else [replace(head, offset=at)]), *heads[at + 1 :]]
    return [replace(each, offset=offset) for offset, each in enumerate(rest)]


OTHER_HEADS = sign_heads(continue_otherwise(RECORDS_WRITTEN, 0, 0, 20), (30, 45, 60))
STRANGERS = sign_heads(RECORDS_WRITTEN, key=STRANGER)


@pytest.mark.parametrize(
    ("heads", "codes"),
    [
        (put_head(1, None), {"head_broken"}),
        (put_head(1, STRANGERS[1]), {"head_forged", "head_broken"}),
        (put_head(1, replace(HEADS[1], value=b"{}")), {"head_broken"}),
        (put_head(1, replace(HEADS[1], value=None)), {"head_broken"}),
        ([*HEADS, HEADS[2]], {"head_broken"}),
        ([HEADS[1], HEADS[0], HEADS[2]], {"head_broken"}),
        ([*HEADS, OTHER_HEADS[2]], {"head_forked", "rewritten"}),
        (STRANGERS, {"head_forged", "head_missing"}),
        ([], {"head_missing"}),
    ],
)
def test_what_was_done_to_heads_is_found(heads: list[Located], codes: set[str]) -> None:
    assert {code for code, *_ in check(RECORDS_WRITTEN, heads)} == codes


def test_a_copy_elsewhere_shows_that_the_topic_lost_heads_or_has_others(tmp_path: Path) -> None:
    copy = tmp_path / "heads.jsonl"
    copy.write_bytes(b"".join((head.value or b"") + b"\n" for head in HEADS) + b'{"cut')
    assert check(RECORDS_WRITTEN, copies=[copy]) == []
    left = [record for record in RECORDS_WRITTEN if record.partition != 1]
    assert {code for code, *_ in check(left, HEADS[:0], copies=[copy])} == {"head_missing", "dropped"}
    (code, _, message), *rest = check(RECORDS_WRITTEN, HEADS[:2], copies=[copy])
    assert (code, rest) == ("head_missing", [])
    assert "the topic ends with head 2" in message
    codes = {code for code, *_ in check(RECORDS_WRITTEN, OTHER_HEADS, copies=[copy])}
    assert {"head_forked", "rewritten"} <= codes


def test_keys_are_replaced_with_an_overlap() -> None:
    until = "2025-11-21T13:00:00.500Z"
    later = HeadSigners([BOB.public.text, f"{ALICE.public.text}@{until}"])
    found = check(RECORDS_WRITTEN, HEADS, later)
    assert [code for code, *_ in found] == ["head_forged", "head_forged"]
    assert "replaced before" in found[0][2]
    assert check(RECORDS_WRITTEN, HEADS, HeadSigners([BOB.public.text, ALICE.public.text])) == []
    elsewhere = check(RECORDS_WRITTEN, HEADS, HeadSigners([ALICE.public.text], "there"))
    assert {code for code, *_ in elsewhere} == {"head_forged", "head_missing"}
    for unusable in ("AAAA", "no", f"{ALICE.public.text}@noon"):
        with pytest.raises(UnusableKey):
            HeadCheck(HeadSigners([unusable]))


def test_the_program_for_auditors_takes_heads_from_an_export_and_from_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left = [record for record in RECORDS_WRITTEN if record.partition != 1]
    export, copy = tmp_path / "ledger.jsonl", tmp_path / "heads.jsonl"
    copy.write_bytes(b"".join((head.value or b"") + b"\n" for head in HEADS))
    key = ("--head-key", ALICE.public.text)
    for records, heads, more, code in (
        (RECORDS_WRITTEN, HEADS, key, 0),
        (left, HEADS, key, 1),
        (left, [], (), 0),
        (left, [], ("--heads", str(copy)), 1),
        (RECORDS_WRITTEN, [], ("--heads", str(copy), *key, "--installation", "there"), 1),
        (RECORDS_WRITTEN, [], ("--heads", str(tmp_path / "none")), 2),
    ):
        lines = [write_line(each, each.timestamp_ms or 0) for each in [*records, *heads]]
        export.write_text("\n".join(lines))
        assert main([str(export), *more]) == code
    assert "head 3 states 60 records, 0 are newer" in capsys.readouterr().out
