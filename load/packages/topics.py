"""What an attacker with all rights on a broker would do to live topics: the ledger's and the heads'.

A ledger is read once, from an export of real topics or from a made ledger; each change is made to its records
in memory, and they go to the verifier of `sluice ledger verify`, which is given the heads that somebody kept
elsewhere: without those nobody can tell the newest head's absence from a head not yet signed.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from load.packages.made_ledger import PREFIX
from load.packages.tamper import (
    change_head,
    choose_partition,
    list_chain,
    mark_changed,
    relink,
    sign_as_stranger,
)
from load.packages.unpacked import UnpackedPackage, read_fields
from load.tamper import seal
from sluice.adapters.archive.package_plan import LEDGER
from sluice.adapters.kafka.kafka_read import StoredRecord
from sluice.core.foundation.canonical import canonical
from sluice.verifier.export import Located, read_lines
from sluice.verifier.verify import Verifier
from sluice_topics.catalog import TREE_HEADS

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from load.packages.made_ledger import MadeLedger
    from load.packages.unpacked import Part
    from sluice.verifier.head_check import HeadSources

    Topics = UnpackedPackage
    Change = Callable[[Topics, random.Random], None]


def read_export(path: Path) -> Topics:
    """The topics' records in an export (`sluice ledger export`)."""
    records: dict[Part, list[StoredRecord]] = defaultdict(list)
    with path.open("rb") as lines:
        for each in read_lines(lines):
            stored = StoredRecord(
                each.topic, each.partition, each.offset, each.timestamp_ms or 0, each.key, each.value, ()
            )
            records[each.topic, each.partition].append(stored)
    prefix = next(topic for topic, _ in records if topic.endswith(TREE_HEADS)).removesuffix(TREE_HEADS)
    return UnpackedPackage({"topic_prefix": prefix}, records, {})


def open_made(made: MadeLedger) -> Topics:
    """The same of a made ledger."""
    records: dict[Part, list[StoredRecord]] = defaultdict(list)
    topics = {f"{PREFIX}{base}" for base in (*LEDGER, TREE_HEADS)}
    for each in (record for topic in sorted(topics) for record in made.records[topic]):
        records[each.topic, each.partition].append(each)
    return UnpackedPackage({"topic_prefix": PREFIX}, records, {})


def copy_topics(topics: Topics) -> Topics:
    """Another one, which may be changed."""
    return UnpackedPackage(topics.manifest, {part: list(each) for part, each in topics.records.items()}, {})


def keep_heads(topics: Topics, path: Path) -> None:
    """Write the heads to a file, as somebody keeps them elsewhere."""
    heads = topics.records[f"{topics.prefix}{TREE_HEADS}", 0]
    path.write_bytes(b"".join((head.value or b"") + b"\n" for head in heads))


def is_intact(topics: Topics, sources: HeadSources, rng: random.Random | None = None) -> bool:
    """What the verifier says. `rng`: topics and partitions are read in turns at random, as a broker gives
    them."""
    heads_topic = f"{topics.prefix}{TREE_HEADS}"
    heads = sources.read(
        _locate(record)
        for part, records in sorted(topics.records.items())
        if part[0] == heads_topic
        for record in records
    )
    verifier = Verifier(None, heads)
    for record in _take_turns(topics, rng):
        if record.topic != heads_topic:
            verifier.add(_locate(record))
    return verifier.make_report().intact


def _take_turns(topics: Topics, rng: random.Random | None) -> Iterator[StoredRecord]:
    if rng is None:
        yield from (record for _, records in sorted(topics.records.items()) for record in records)
        return
    left = [iter(records) for _, records in sorted(topics.records.items()) if records]
    while left:
        reader = rng.choice(left)
        taken = list(islice(reader, rng.randrange(1, 20)))
        yield from taken
        if not taken:
            left.remove(reader)


def _locate(record: StoredRecord) -> Located:
    at = (record.topic, record.partition, record.offset)
    return Located(*at, record.key, record.value, record.timestamp_ms)


def flip_bit(topics: Topics, rng: random.Random) -> None:
    """Change one bit of a record."""
    records, at = _choose(topics, rng)
    value = bytearray(records[at].value or b"")
    value[rng.randrange(len(value))] ^= 1 << rng.randrange(8)
    records[at] = replace(records[at], value=bytes(value))


def alter(topics: Topics, rng: random.Random) -> None:
    """Change a decision."""
    records, at = _choose(topics, rng)
    records[at] = replace(records[at], value=canonical(mark_changed(read_fields(records[at]))))


def alter_and_seal(topics: Topics, rng: random.Random) -> None:
    """Change a decision and make its hash again."""
    records, at = _choose(topics, rng)
    records[at] = replace(records[at], value=canonical(seal(mark_changed(read_fields(records[at])))))


def delete(topics: Topics, rng: random.Random) -> None:
    """Delete a record; the others keep their offsets."""
    records, at = _choose(topics, rng)
    del records[at]


def empty(topics: Topics, rng: random.Random) -> None:
    """Put a tombstone in a record's place."""
    records, at = _choose(topics, rng)
    records[at] = replace(records[at], value=None)


def repeat(topics: Topics, rng: random.Random) -> None:
    """Publish a record once more."""
    records, at = _choose(topics, rng)
    records.append(replace(records[at], offset=records[-1].offset + 1))


def insert(topics: Topics, rng: random.Random) -> None:
    """Publish a forged record under the number of a genuine one."""
    records, at = _choose(topics, rng)
    value = canonical(seal(mark_changed(read_fields(records[at]))))
    records.append(replace(records[at], offset=records[-1].offset + 1, value=value))


def extend(topics: Topics, rng: random.Random) -> None:
    """Publish a forged record behind the last one, with its number left out of the chain's order."""
    records, at = _choose(topics, rng)
    fields = mark_changed(read_fields(records[at]))
    number = max(read_fields(record)["sequence"] for record in records) + rng.randrange(2, 9)
    value = canonical(seal({**fields, "sequence": number}))
    records.append(replace(records[at], offset=records[-1].offset + 1, value=value))


def swap(topics: Topics, rng: random.Random) -> None:
    """Let two records of a topic's partition change places; of one alone, delete it."""
    records, at = _choose(topics, rng)
    other = rng.choice([each for each in range(len(records)) if each != at] or [at])
    if other == at:
        del records[at]
        return
    first, second = records[at], records[other]
    records[at] = replace(second, offset=first.offset)
    records[other] = replace(first, offset=second.offset)


def rename(topics: Topics, rng: random.Random) -> None:
    """Give a session's record to another session."""
    while True:
        records, at = _choose(topics, rng)
        if isinstance(read_fields(records[at]).get("session_id"), str):
            records[at] = replace(records[at], key=b"another")
            return


def move(topics: Topics, rng: random.Random) -> None:
    """Publish a record in another partition, and delete it where it was."""
    records, at = _choose(topics, rng)
    record = records.pop(at)
    numbers = [number for topic, number in topics.records if topic == record.topic]
    target = rng.choice([number for number in numbers if number != record.partition] or [max(numbers) + 1])
    there = topics.records.setdefault((record.topic, target), [])
    there.append(replace(record, partition=target, offset=there[-1].offset + 1 if there else 0))


def delete_head(topics: Topics, rng: random.Random) -> None:
    """Delete a head."""
    heads = _get_heads(topics)
    del heads[rng.randrange(len(heads))]


def alter_head(topics: Topics, rng: random.Random) -> None:
    """Change what a head states."""
    heads = _get_heads(topics)
    at = rng.randrange(len(heads))
    heads[at] = replace(heads[at], value=change_head(heads[at], rng))


def sign_head_otherwise(topics: Topics, rng: random.Random) -> None:
    """Let a stranger sign a head."""
    heads = _get_heads(topics)
    at = rng.randrange(len(heads))
    heads[at] = replace(heads[at], value=sign_as_stranger(heads[at]))


def rewrite_suffix(topics: Topics, rng: random.Random) -> None:
    """Write the end of a chain again, all hashes made anew; with some luck a stranger signs the newest head
    again."""
    number = choose_partition(topics, rng)
    chained = list_chain(topics, number)
    start = rng.randrange(len(chained))
    marked = [
        (part, at, mark_changed(fields) if index >= start else fields)
        for index, (part, at, fields) in enumerate(chained)
    ]
    relink(topics, number, marked)
    if rng.random() < 1 / 2:
        heads = _get_heads(topics)
        heads[-1] = replace(heads[-1], value=sign_as_stranger(heads[-1]))


def drop_session(topics: Topics, rng: random.Random) -> None:
    """Take every record of a session away, and number and link the rest anew."""
    number = choose_partition(topics, rng)
    chained = list_chain(topics, number)
    session = rng.choice(chained)[2].get("session_id")
    relink(topics, number, [each for each in chained if each[2].get("session_id") != session])


def swap_partitions(topics: Topics, rng: random.Random) -> None:
    """Let two partitions change places, with some luck all hashes made anew."""
    numbers = sorted({part[1] for part in topics.list_ledger(LEDGER)})
    first, second = rng.sample(numbers, 2)
    swapped: dict[Part, list[StoredRecord]] = {}
    for part, records in topics.records.items():
        of_both = part[1] in (first, second) and not part[0].endswith(TREE_HEADS)
        target = (part[0], first + second - part[1]) if of_both else part
        swapped[target] = [replace(record, partition=target[1]) for record in records]
    topics.records = swapped
    if rng.random() < 1 / 2:
        for number in (first, second):
            relink(topics, number, list_chain(topics, number))


def drop_partition(topics: Topics, rng: random.Random) -> None:
    """Take every record of a partition away."""
    number = choose_partition(topics, rng)
    for part in topics.list_ledger(LEDGER):
        if part[1] == number:
            del topics.records[part]


def keep_old_heads(topics: Topics, rng: random.Random) -> None:
    """Cut the newest heads off, and a partition's records that only they state."""
    heads = _get_heads(topics)
    del heads[rng.randrange(len(heads)) :]
    cut_end(topics, rng)


def cut_end(topics: Topics, rng: random.Random) -> None:
    """Cut a partition's end off."""
    number = choose_partition(topics, rng)
    chained = list_chain(topics, number)
    relink(topics, number, chained[: rng.randrange(len(chained))])


SINGLE: dict[str, Change] = {
    change.__name__: change
    for change in (
        flip_bit,
        alter,
        alter_and_seal,
        delete,
        empty,
        repeat,
        insert,
        extend,
        swap,
        rename,
        move,
        delete_head,
        alter_head,
        sign_head_otherwise,
    )
}
COMBINED: dict[str, Change] = {
    change.__name__: change
    for change in (rewrite_suffix, drop_session, swap_partitions, drop_partition, keep_old_heads, cut_end)
}


def _choose(topics: Topics, rng: random.Random) -> tuple[list[StoredRecord], int]:
    """A record of the ledger."""
    records = topics.records[rng.choice(topics.list_ledger(LEDGER))]
    return records, rng.randrange(len(records))


def _get_heads(topics: Topics) -> list[StoredRecord]:
    return topics.records[f"{topics.prefix}{TREE_HEADS}", 0]
