"""What an attacker would do to an audit package. Each change takes a package's bytes and gives others; every
check of the result must find something wrong."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from load.packages.made_ledger import STRANGER
from load.packages.unpacked import UnpackedPackage, read_fields, unpack
from load.tamper import seal
from sluice.adapters.archive.package_plan import CONTROL, LEDGER
from sluice.core.foundation.canonical import canonical
from sluice.core.foundation.chain import PLACE, Chain
from sluice.core.trust.dsse import pae
from sluice_topics.catalog import ACTIONS, TREE_HEADS

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from load.packages.unpacked import Part
    from sluice.adapters.kafka.kafka_read import StoredRecord

Change = "Callable[[bytes, random.Random], bytes]"


def flip_bit(data: bytes, rng: random.Random) -> bytes:
    """Change one bit of the file."""
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def replace_byte(data: bytes, rng: random.Random) -> bytes:
    """Change one byte of the file into any other."""
    at = rng.randrange(len(data))
    return data[:at] + bytes([(data[at] + rng.randrange(1, 256)) % 256]) + data[at + 1 :]


def cut_off(data: bytes, rng: random.Random) -> bytes:
    """Cut the file's end off."""
    return data[: rng.randrange(len(data))]


def add_bytes(data: bytes, rng: random.Random) -> bytes:
    """Put bytes in between, or at the end."""
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.randbytes(rng.randrange(1, 40)) + data[at:]


def take_bytes(data: bytes, rng: random.Random) -> bytes:
    """Take bytes out."""
    at = rng.randrange(len(data))
    return data[:at] + data[at + rng.randrange(1, 40) :]


def alter_record(data: bytes, rng: random.Random) -> bytes:
    """Change a decision in place, with the file made anew."""
    package, part, at = _choose_record(data, rng)
    return _replace_value(package, part, at, mark_changed(read_fields(package.records[part][at])))


def alter_and_seal_record(data: bytes, rng: random.Random) -> bytes:
    """Change a decision and make its hash again."""
    package, part, at = _choose_record(data, rng)
    return _replace_value(package, part, at, seal(mark_changed(read_fields(package.records[part][at]))))


def delete_record(data: bytes, rng: random.Random) -> bytes:
    """Leave a record out."""
    package, part, at = _choose_record(data, rng)
    del package.records[part][at]
    return package.pack()


def repeat_record(data: bytes, rng: random.Random) -> bytes:
    """Put a record there once more, at a later offset."""
    package, part, at = _choose_record(data, rng)
    records = package.records[part]
    records.append(replace(records[at], offset=records[-1].offset + 1))
    return package.pack()


def insert_record(data: bytes, rng: random.Random) -> bytes:
    """Put a forged record beside a genuine one of its number."""
    package, part, at = _choose_record(data, rng)
    records = package.records[part]
    value = canonical(seal(mark_changed(read_fields(records[at]))))
    records.append(replace(records[at], offset=records[-1].offset + 1, value=value))
    return package.pack()


def swap_records(data: bytes, rng: random.Random) -> bytes:
    """Let two records of a partition change places."""
    package, part, at = _choose_record(data, rng)
    records = package.records[part]
    other = rng.choice([each for each in range(len(records)) if each != at] or [at])
    if other == at:
        del records[at]
    else:
        first, second = records[at], records[other]
        records[at] = replace(second, offset=first.offset)
        records[other] = replace(first, offset=second.offset)
    return package.pack()


def alter_input(data: bytes, rng: random.Random) -> bytes:
    """Change an input."""
    package, records, at = _choose_of(data, rng, ACTIONS)
    records[at] = replace(records[at], value=(records[at].value or b"") + b" ")
    return package.pack()


def move_input_in_time(data: bytes, rng: random.Random) -> bytes:
    """Change the broker's time of an input."""
    package, records, at = _choose_of(data, rng, ACTIONS)
    records[at] = replace(records[at], timestamp_ms=records[at].timestamp_ms + rng.choice((-1, 1, 10_000)))
    return package.pack()


def rename_input(data: bytes, rng: random.Random) -> bytes:
    """Give an input to another session."""
    package, records, at = _choose_of(data, rng, ACTIONS)
    records[at] = replace(records[at], key=b"another")
    return package.pack()


def delete_input(data: bytes, rng: random.Random) -> bytes:
    """Leave an input out, and state that it was gone."""
    package, records, at = _choose_of(data, rng, ACTIONS)
    gone = package.manifest["gone"].setdefault(ACTIONS, {})
    number = str(records[at].partition)
    gone[number] = gone.get(number, 0) + rng.randrange(2)
    del records[at]
    return package.pack()


def alter_policy(data: bytes, rng: random.Random) -> bytes:
    """Change what was signed."""
    package, records, at = _choose_of(data, rng, *CONTROL)
    envelope = read_fields(records[at])
    document = orjson.loads(base64.b64decode(envelope["payload"])) | {"revision": 7}
    envelope["payload"] = base64.b64encode(orjson.dumps(document)).decode()
    records[at] = replace(records[at], value=canonical(envelope))
    return package.pack()


def strip_policy(data: bytes, rng: random.Random) -> bytes:
    """Take the signatures away."""
    package, records, at = _choose_of(data, rng, *CONTROL)
    records[at] = replace(records[at], value=canonical(read_fields(records[at]) | {"signatures": []}))
    return package.pack()


def sign_policy_otherwise(data: bytes, rng: random.Random) -> bytes:
    """Let a stranger sign the policy, under a name of its own or of the one who signed."""
    package, records, at = _choose_of(data, rng, *CONTROL)
    envelope = read_fields(records[at])
    signature = STRANGER.sign(pae(envelope["payloadType"], base64.b64decode(envelope["payload"])))
    keyid = rng.choice([STRANGER.public.keyid, envelope["signatures"][0]["keyid"]])
    envelope["signatures"] = [{"keyid": keyid, "sig": base64.b64encode(signature).decode()}]
    records[at] = replace(records[at], value=canonical(envelope))
    return package.pack()


def delete_policy(data: bytes, rng: random.Random) -> bytes:
    """Leave a control record out."""
    package, records, at = _choose_of(data, rng, *CONTROL)
    del records[at]
    return package.pack()


def delete_head(data: bytes, rng: random.Random) -> bytes:
    """Leave a tree head out."""
    package, records, at = _choose_of(data, rng, TREE_HEADS)
    del records[at]
    return package.pack()


def alter_head(data: bytes, rng: random.Random) -> bytes:
    """Change what a head states."""
    package, records, at = _choose_of(data, rng, TREE_HEADS)
    records[at] = replace(records[at], value=change_head(records[at], rng))
    return package.pack()


def alter_manifest(data: bytes, rng: random.Random) -> bytes:
    """Change a number of the manifest, with the file made anew."""
    package = unpack(data)
    stated = rng.choice(package.manifest["partitions"])
    name = rng.choice(["size", "complete_from", "records", "selected", "partition"])
    stated[name] += rng.choice((1, 2, 100))
    return package.pack(recount=False)


SINGLE: dict[str, Callable[[bytes, random.Random], bytes]] = {
    change.__name__: change
    for change in (
        flip_bit,
        replace_byte,
        cut_off,
        add_bytes,
        take_bytes,
        alter_record,
        alter_and_seal_record,
        delete_record,
        repeat_record,
        insert_record,
        swap_records,
        alter_input,
        move_input_in_time,
        rename_input,
        delete_input,
        alter_policy,
        strip_policy,
        sign_policy_otherwise,
        delete_policy,
        delete_head,
        alter_head,
        alter_manifest,
    )
}


def rewrite_suffix(data: bytes, rng: random.Random) -> bytes:
    """Write the end of a chain again, with all hashes made anew; with some luck the newest heads too, by a
    stranger's key."""
    package = unpack(data)
    number = choose_partition(package, rng)
    chained = list_chain(package, number)
    start = rng.randrange(len(chained))
    relink(
        package,
        number,
        [
            (part, at, mark_changed(fields) if number_in_chain >= start else fields)
            for number_in_chain, (part, at, fields) in enumerate(chained)
        ],
    )
    if rng.random() < 1 / 2:
        heads = package.records[f"{package.prefix}{TREE_HEADS}", 0]
        heads[-1] = replace(heads[-1], value=sign_as_stranger(heads[-1]))
    return package.pack()


def drop_session(data: bytes, rng: random.Random) -> bytes:
    """Take every record and input of a session away, and number and link the rest anew."""
    package = unpack(data)
    number = choose_partition(package, rng)
    chained = list_chain(package, number)
    session = rng.choice(chained)[2].get("session_id")
    left = [each for each in chained if each[2].get("session_id") != session]
    relink(package, number, left)
    topic = f"{package.prefix}{ACTIONS}"
    package.records[topic, number] = [
        record for record in package.records[topic, number] if record.key != str(session).encode()
    ]
    if rng.random() < 1 / 2:
        _state_size(package, number, len(left))
    return package.pack()


def swap_partitions(data: bytes, rng: random.Random) -> bytes:
    """Let two partitions of the ledger change places, with all hashes made anew; or cut one off."""
    package = unpack(data)
    numbers = sorted({part[1] for part in package.list_ledger(LEDGER)})
    if len(numbers) == 1:
        return drop_partition(data, rng)
    first, second = rng.sample(numbers, 2)
    swapped: dict[Part, list[StoredRecord]] = {}
    for part, records in package.records.items():
        of_both = part[1] in (first, second) and part[0] not in _list_shared(package)
        target = (part[0], first + second - part[1]) if of_both else part
        swapped[target] = [replace(record, partition=target[1]) for record in records]
    package.records = swapped
    if rng.random() < 1 / 2:
        for number in (first, second):
            relink(package, number, list_chain(package, number))
    return package.pack()


def drop_partition(data: bytes, rng: random.Random) -> bytes:
    """Take a whole partition away, and let the manifest not name it."""
    package = unpack(data)
    number = choose_partition(package, rng)
    shared = _list_shared(package)
    package.records = {
        part: records for part, records in package.records.items() if part[0] in shared or part[1] != number
    }
    stated = package.manifest["partitions"]
    package.manifest["partitions"] = [each for each in stated if each["partition"] != number]
    return package.pack()


def keep_old_heads(data: bytes, rng: random.Random) -> bytes:
    """Cut the newest heads off; the records stay, or are cut in one partition alone."""
    package = unpack(data)
    part = f"{package.prefix}{TREE_HEADS}", 0
    heads = package.records[part]
    left = rng.randrange(len(heads))
    package.records[part] = heads[:left]
    package.manifest["head"] = _describe_head(heads[left - 1]) if left else None
    number = choose_partition(package, rng)
    if left and rng.random() < 1 / 2:
        _state_size(package, number, _read_head(heads[left - 1])["partitions"][number]["size"])
    return package.pack()


def cut_end(data: bytes, rng: random.Random) -> bytes:
    """Cut a partition's end off, with its inputs and all counts."""
    package = unpack(data)
    number = choose_partition(package, rng)
    chained = list_chain(package, number)
    left = chained[: rng.randrange(len(chained))]
    relink(package, number, left)
    _state_size(package, number, len(left))
    return package.pack()


def keep_selected_alone(data: bytes, rng: random.Random) -> bytes:
    """Make it a package of selected records alone, and leave some of them out."""
    package = unpack(data)
    number = choose_partition(package, rng)
    chained = list_chain(package, number)
    dropped = rng.choice(chained)[2].get("session_id")
    hashes = b"".join(bytes.fromhex(str(fields["event_hash"])[7:]) for _, _, fields in chained)
    package.hashes[number] = hashes
    for part in package.list_ledger(LEDGER):
        if part[1] == number:
            records = package.records[part]
            package.records[part] = [
                each for each in records if read_fields(each).get("session_id") != dropped
            ]
    for stated in package.manifest["partitions"]:
        if stated["partition"] == number:
            stated["complete_from"] = len(chained) + 1
    package.manifest["selection"]["only_selected"] = True
    return package.pack()


COMBINED: dict[str, Callable[[bytes, random.Random], bytes]] = {
    change.__name__: change
    for change in (
        rewrite_suffix,
        drop_session,
        swap_partitions,
        drop_partition,
        keep_old_heads,
        cut_end,
        keep_selected_alone,
    )
}
_Chained = list[tuple["Part", int, dict[str, Any]]]


def _choose_record(data: bytes, rng: random.Random) -> tuple[UnpackedPackage, Part, int]:
    package = unpack(data)
    part = rng.choice(package.list_ledger(LEDGER))
    return package, part, rng.randrange(len(package.records[part]))


def _choose_of(
    data: bytes, rng: random.Random, *bases: str
) -> tuple[UnpackedPackage, list[StoredRecord], int]:
    package = unpack(data)
    topics = {f"{package.prefix}{base}" for base in bases}
    records = rng.choice(
        [each for part, each in sorted(package.records.items()) if part[0] in topics and each]
    )
    return package, records, rng.randrange(len(records))


def choose_partition(package: UnpackedPackage, rng: random.Random) -> int:
    return rng.choice(package.list_ledger(LEDGER))[1]


def _list_shared(package: UnpackedPackage) -> set[str]:
    return {f"{package.prefix}{base}" for base in (*CONTROL, TREE_HEADS)}


def list_chain(package: UnpackedPackage, number: int) -> _Chained:
    """The partition's records in the order of their numbers: part, offset and fields."""
    chained = [
        (part, record.offset, read_fields(record))
        for part in package.list_ledger(LEDGER)
        if part[1] == number
        for record in package.records[part]
    ]
    return sorted(chained, key=lambda each: each[2]["sequence"])


def relink(package: UnpackedPackage, number: int, chained: _Chained) -> None:
    """Let the partition consist of these records, linked anew."""
    chain = Chain(number)
    values: dict[tuple[Part, int], bytes] = {}
    for part, offset, fields in chained:
        body = {name: value for name, value in fields.items() if name not in (*PLACE, "event_hash")}
        if isinstance(body.get("input"), dict):
            body["input"] = body["input"] | {"partition": number}
        values[part, offset] = chain.link(body)
    for part in package.list_ledger(LEDGER):
        if part[1] == number:
            package.records[part] = [
                replace(record, value=values[part, record.offset])
                for record in package.records[part]
                if (part, record.offset) in values
            ]


def _state_size(package: UnpackedPackage, number: int, size: int) -> None:
    for stated in package.manifest["partitions"]:
        if stated["partition"] == number:
            stated["size"] = size


def mark_changed(fields: dict[str, Any]) -> dict[str, Any]:
    return {**fields, "decided_at": "1999-12-31T23:59:59.999Z"}


def _replace_value(package: UnpackedPackage, part: Part, at: int, fields: dict[str, Any]) -> bytes:
    records = package.records[part]
    records[at] = replace(records[at], value=canonical(fields))
    return package.pack()


def _read_head(record: StoredRecord) -> dict[str, Any]:
    fields: dict[str, Any] = orjson.loads(base64.b64decode(read_fields(record)["payload"]))
    return fields


def change_head(record: StoredRecord, rng: random.Random) -> bytes:
    envelope, head = read_fields(record), _read_head(record)
    part = rng.choice(head["partitions"])
    part["size"] += 1
    head["size"] += 1
    return canonical(envelope | {"payload": base64.b64encode(canonical(head)).decode()})


def sign_as_stranger(record: StoredRecord) -> bytes:
    envelope, head = read_fields(record), _read_head(record)
    payload = canonical(head)
    signature = base64.b64encode(STRANGER.sign(pae(envelope["payloadType"], payload))).decode()
    return canonical(envelope | {"signatures": [{"keyid": STRANGER.public.keyid, "sig": signature}]})


def _describe_head(record: StoredRecord) -> dict[str, Any]:
    from hashlib import sha256  # noqa: PLC0415

    head = _read_head(record)
    digest = f"sha256:{sha256(canonical(head)).hexdigest()}"
    return {"number": head["number"], "digest": digest, "size": head["size"]}
