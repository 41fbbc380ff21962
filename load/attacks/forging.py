"""What a forger does with records: change one, put one in, take one out, and compute the chain again."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from load.attacks.recorded_installation import (
    BEGAN_MS,
    PARTITION,
    TERMS,
    VERSION,
    RecordedInstallation,
    make_decision,
)
from sluice.core.actions.verdict import RERUN_FIELDS
from sluice.core.foundation.canonical import canonical, digest
from sluice.core.metadata.provenance import Resolution
from sluice.core.rerun.walk import WrittenRecord, get_kind
from sluice.core.state.decision import Shared
from sluice.core.state.history import History, SourceName
from sluice.text.places import normal_uri
from sluice_topics.catalog import (
    ACTIONS,
    MEMORY_DECISIONS,
    MEMORY_WRITES,
    QUALITY_DECISIONS,
    RETRIEVALS,
    SESSION_EVENTS,
    VERDICTS,
)
from sluice_topics.headers import make_output_headers

if TYPE_CHECKING:
    from collections.abc import Callable

    Forge = Callable[[RecordedInstallation], list[WrittenRecord]]

PLACED = {"decider_version": VERSION, "partition": PARTITION}
HASH = "sha256:" + "0a" * 32


def change(topic: str, at: int, **changes: Any) -> Forge:
    """The `at`-th record of a topic with other fields, and everything after it linked again."""

    def forge(installation: RecordedInstallation) -> list[WrittenRecord]:
        records = list(installation.records)
        index = [position for position, record in enumerate(records) if record.topic == topic][at]
        fields = json.loads(records[index].value)
        for path, value in changes.items():
            *holders, name = path.split("__")
            holder = fields
            for step in holders:
                holder = holder[int(step) if step.isdigit() else step]
            holder[name] = value
        records[index] = replace_value(records[index], rehash(fields))
        return relink(records)

    return forge


def decide_under(records_until_ms: int, without: bytes, at: int) -> Forge:
    """The `at`-th verdict as another policy would have had it: what was published until then, less one
    entry."""

    def forge(installation: RecordedInstallation) -> list[WrittenRecord]:
        control = [
            record
            for record in installation.control
            if record.timestamp_ms <= records_until_ms and without not in (record.key or b"")
        ]
        records = list(installation.records)
        index = [position for position, record in enumerate(records) if record.topic == VERDICTS][at]
        source = json.loads(records[index].value)["input"]
        input_record = installation.inputs[source["topic"], source["partition"], source["offset"]]
        body = make_decision(installation, control, input_record)
        records[index] = replace_value(records[index], {**body, **PLACED})
        return relink(records)

    return forge


def decide_on_nothing(topic: str, kind: str, at: int) -> Forge:
    """The `at`-th decision as the core gives it on a session in which nothing happened: whole and
    consistent."""

    def forge(installation: RecordedInstallation) -> list[WrittenRecord]:
        records = list(installation.records)
        index = [position for position, record in enumerate(records) if record.topic == topic][at]
        source = json.loads(records[index].value)["input"]
        input_record = installation.inputs[source["topic"], source["partition"], source["offset"]]
        body = make_decision(installation, installation.control, input_record, kind, how="alone")
        records[index] = replace_value(records[index], {**body, **PLACED})
        return relink(records)

    return forge


def fold(records: list[WrittenRecord]) -> list[WrittenRecord]:
    """A session folded away, so that it starts from nothing."""
    settled = next(record for record in records if record.topic == SESSION_EVENTS)
    fields = {
        "schema": "sluice/session_folded/v1",
        "session_id": "s-1",
        "tenants": {"acme": {"aggregateRowsAffected": 900, "aggregateActionCount": 2}},
        "opened_at": "2025-11-21T13:00:00.000Z",
        "last_at": "2025-11-21T13:00:00.000Z",
        "reason": "idle",
        "decided_at": json.loads(settled.value)["decided_at"],
        "input": None,
        **PLACED,
    }
    index = records.index(settled)
    return [*records[:index], replace_value(settled, fields), *records[index:]]


def never_read(installation: RecordedInstallation) -> list[WrittenRecord]:
    """A verdict that denies its action for having crashed workers."""
    records = list(installation.records)
    input_record = installation.inputs[ACTIONS, PARTITION, 5]
    body = make_decision(installation, installation.control, input_record, "Verdict", how="unread")
    index = [position for position, record in enumerate(records) if record.topic == VERDICTS][5]
    records[index] = replace_value(records[index], {**body, **PLACED})
    return relink(records)


def move(change: Callable[[list[WrittenRecord]], list[WrittenRecord]], *, again: bool = True) -> Forge:
    """Records taken out, put in or moved; `again`: the chain is computed again."""

    def forge(installation: RecordedInstallation) -> list[WrittenRecord]:
        records = change(list(installation.records))
        return relink(records) if again else relaid(records)

    return forge


def lie_otherwise(**changes: Any) -> Forge:
    def forge(installation: RecordedInstallation) -> list[WrittenRecord]:
        index = next(at for at, record in enumerate(installation.records) if record.topic == VERDICTS)
        records = list(installation.records)
        records[index] = records[index]._replace(**changes)
        return records

    return forge


def change_header(name: str, value: bytes) -> Forge:
    def forge(installation: RecordedInstallation) -> list[WrittenRecord]:
        first = next(record for record in installation.records if record.topic == VERDICTS)
        headers = tuple((key, value if key == name else old) for key, old in first.headers)
        return lie_otherwise(headers=headers)(installation)

    return forge


def append(**changes: Any) -> Forge:
    """A second verdict on the wipe's input, appended with a right chain hash."""

    def forge(installation: RecordedInstallation) -> list[WrittenRecord]:
        wiped = [record for record in installation.records if record.topic == VERDICTS][1]
        fields = rehash({**json.loads(wiped.value), **changes})
        return relink([*installation.records, replace_value(wiped, fields)])

    return forge


def review(installation: RecordedInstallation) -> list[WrittenRecord]:
    """A history of its source that no input of the session shows, and what follows from it."""
    records = list(installation.records)
    index = next(position for position, record in enumerate(records) if record.topic == MEMORY_DECISIONS)
    input_record = installation.inputs[MEMORY_WRITES, PARTITION, 0]
    fields = json.loads(records[index].value)
    history = History(None, 40, 0, 40)
    tenant, source = fields["tenant_id"], json.loads(input_record.value or b"")["source"]["id"]
    beside = Shared(histories={SourceName(tenant, source): history})
    body = make_decision(installation, installation.control, input_record, "MemoryDecision", shared=beside)
    records[index] = replace_value(records[index], {**body, **PLACED})
    return relink(records)


def resolve(installation: RecordedInstallation) -> list[WrittenRecord]:
    records = list(installation.records)
    input_record = installation.inputs[RETRIEVALS, PARTITION, 1]
    resolution = Resolution("resolved", HASH, "http", BEGAN_MS, "")
    beside = Shared(provenance={("acme", normal_uri(TERMS)): resolution})
    index = [position for position, record in enumerate(records) if record.topic == QUALITY_DECISIONS][-1]
    body = make_decision(installation, installation.control, input_record, "QualityDecision", shared=beside)
    records[index] = replace_value(records[index], {**body, **PLACED})
    return relink(records)


def replace_value(record: WrittenRecord, fields: dict[str, Any]) -> WrittenRecord:
    """The record with other fields, and the headers that follow from them."""
    headers = tuple(make_output_headers(fields, get_kind(fields), "/sluice/attacked", None))
    return record._replace(value=canonical(fields), headers=headers)


def relink(records: list[WrittenRecord]) -> list[WrittenRecord]:
    """Numbers, links and hashes computed again from the first record on: what a forger would do."""
    head, made = "GENESIS", []
    for number, record in enumerate(records, start=1):
        fields = {name: value for name, value in json.loads(record.value).items() if name != "event_hash"}
        fields |= {"sequence": number, "prev_hash": head}
        head = "sha256:" + hashlib.sha256(canonical(fields)).hexdigest()
        made.append(record._replace(value=canonical({**fields, "event_hash": head})))
    return relaid(made)


def relaid(records: list[WrittenRecord]) -> list[WrittenRecord]:
    """With the offsets that they get when they are appended in turn."""
    ends: dict[str, int] = {}
    laid = []
    for record in records:
        laid.append(record._replace(offset=ends.get(record.topic, 0)))
        ends[record.topic] = ends.get(record.topic, 0) + 1
    return laid


def rehash(fields: dict[str, Any]) -> dict[str, Any]:
    """A verdict's rerun_hash as it ought to be."""
    if "verdict_id" not in fields:
        return fields
    gates = [
        {name: value for name, value in gate.items() if name != "durationMs"}
        for gate in fields["gateResults"]
    ]
    hashed = {**fields, "gateResults": gates}
    return {**fields, "rerun_hash": digest([hashed[name] for name in RERUN_FIELDS if name in hashed])}


def swap(records: list[WrittenRecord]) -> list[WrittenRecord]:
    first, second = [at for at, record in enumerate(records) if record.topic == VERDICTS][1:3]
    records[first], records[second] = records[second], records[first]
    return records
