"""Where records go: the ledger's into the chain, released content beside it, internal ones to their owner."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sluice.core.foundation.chain import Chain
from sluice.stream.engine.outbox import Outbox, home_of
from sluice_topics.catalog import ADMITTED, MEMORY_DECISIONS, QUARANTINE, SOURCE_FEEDBACK
from tests.unit.core.memory.write_scene import STRANGER, Place, place
from tests.unit.core.scene import entry

if TYPE_CHECKING:
    from sluice.core.foundation.chain import OutRecord

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
PARTITIONS = 8


def outputs(records: list[OutRecord], chain: Chain) -> dict[str, Any]:
    outbox = Outbox(chain, "/test", PARTITIONS)
    outbox.add(records, TRACE)
    return {output.topic: output for output in outbox.take()}


def test_a_decision_and_its_quarantine_event_are_chained_in_their_order() -> None:
    chain = Chain(3)
    found = outputs(Place().write(derived_from=[STRANGER]).records, chain)
    decided, entered = (json.loads(found[topic].value) for topic in (MEMORY_DECISIONS, QUARANTINE))
    assert (decided["sequence"], entered["sequence"], chain.sequence) == (1, 2, 2)
    assert entered["prev_hash"] == decided["event_hash"]
    assert (found[QUARANTINE].partition, found[QUARANTINE].key) == (None, b"s-1")


def test_released_content_is_no_part_of_the_chain_and_lies_beside_its_decision() -> None:
    chain = Chain(3)
    released = outputs(Place().write(content="Grüße, 東京 ☃").records, chain)[ADMITTED]
    body = json.loads(released.value)
    assert (body["content"], "sequence" in body) == ("Grüße, 東京 ☃", False)
    assert (released.partition, chain.sequence) == (None, 1)
    headers = dict(released.headers)
    assert headers["ce_type"]
    assert b"4bf92f3577b34da6a3ce929d0e0e4736" in headers["traceparent"]


def test_feedback_goes_to_the_partition_of_its_source_without_headers() -> None:
    feedback = outputs(Place().write().records, Chain(3))[SOURCE_FEEDBACK]
    assert feedback.key == b'["acme","mail"]'
    assert (feedback.partition, feedback.headers) == (home_of(feedback.key, PARTITIONS), [])


def test_what_an_exempt_source_sends_for_metadata_is_released_where_it_has_its_form() -> None:
    """A class is a text and a time is of its form: a number as a class, or a list that could outgrow what the
    broker takes, is released as null."""
    exempt: dict[str, Any] = {"quality_exempt": True, "reason": "an archive from before the rule"}
    archive = entry("source", "acme/mail", tenant_id="acme", source_id="mail", **exempt)
    allowed = place(archive).write(content_class=10**30, timestamp=[1e20] * 50_000, confidence_score=0.5)
    released = json.loads(outputs(allowed.records, Chain(0))[ADMITTED].value)
    assert (released["content_class"], released["timestamp"]) == (None, None)
    assert released["confidence_score"] == 0.5
