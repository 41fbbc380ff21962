"""What holds of every decision: its records are what the catalog says, and what is served is decided on."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

import orjson

from sluice.core.foundation.canonical import canonical
from sluice_topics import records
from sluice_topics.catalog import BY_NAME, MAX_OUTPUT_MESSAGE_BYTES, QUALITY_DECISIONS, RETRIEVALS, SERVED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluice.core.foundation.chain import Chain, OutRecord
    from sluice.core.state.decision import Decision

OUTCOMES = ("pass", "flag", "downgrade", "deny")
STAGES = ("controls", "access", "poisoning", "quality", "content")
FRAME_BYTES = 64 * 1024
"""For key, headers and the batch around a record; the producer keeps as much free."""


def hold(decision: Decision, chain: Chain) -> Iterator[tuple[OutRecord, bytes]]:
    """Each record with its wire value; fails where one could not be written or says what must not be."""
    for one in decision.records:
        topic = BY_NAME[one.topic]
        value = chain.link(one.body, ordered=one.ordered) if topic.ledger else canonical(one.body)
        assert orjson.loads(value).keys() == one.body.keys()
        assert not topic.ledger or value == _serialize(one.body)
        assert len(value) <= min(topic.max_message_bytes, MAX_OUTPUT_MESSAGE_BYTES) - FRAME_BYTES, one.kind
        getattr(records, one.kind).model_validate(orjson.loads(value))
        assert getattr(records, one.kind) in topic.records
        yield one, value
    events = [one.body for one in decision.records if one.topic == QUALITY_DECISIONS]
    for event in events:
        _hold_event(event)
    for one in decision.records:
        if one.topic == SERVED:
            hold_served(one.body, events)


def _serialize(body: dict[str, Any]) -> bytes:
    """A ledger record's wire value, whatever its maker vouches for."""
    sealed = canonical({name: value for name, value in body.items() if name != "event_hash"})
    return sealed[:-1] + f',"event_hash":"{body["event_hash"]}"'.encode() + b"}"


def hold_served(served: dict[str, Any], events: list[dict[str, Any]]) -> None:
    """Nothing is served that no event covers, each item once and in order, no body that is not released."""
    assert [event["place"] for event in events] == list(range(len(events)))
    let_through = [event for event in events if event["outcome"] != "deny"]
    assert [one["ledger_event_id"] for one in served["items"]] == _ids(let_through)
    assert _ids(served["withheld"]) == _ids([event for event in events if event["outcome"] == "deny"])
    for one, event in zip(served["items"], let_through, strict=True):
        assert one["outcome"] == event["outcome"]
        withheld = "withheld:sha256:" + sha256(event["item_id"].encode()).hexdigest()
        assert one["item_id"] in (
            (event["item_id"],) if event["body_released"] else (event["item_id"], withheld)
        )
        assert [flag for flag, is_set in one["flags"].items() if is_set] == sorted(
            event["flags_set"], key=list(one["flags"]).index
        )
        assert (one["body"] is not None) == event["body_released"]


def _ids(bodies: list[dict[str, Any]]) -> list[str]:
    return [body["ledger_event_id"] for body in bodies]


def _hold_event(event: dict[str, Any]) -> None:
    outcome, ran = event["outcome"], [one["stage"] for one in event["stages"]]
    assert ran == list(STAGES[: len(ran)])
    hidden = event["enforcement"] == "shadow" or event["rollout"] == "flag_only"
    if not hidden and event["override"] is None:
        assert "deny" not in [one["outcome"] for one in event["stages"][:-1]]
    assert not (event["body_released"] and outcome in ("downgrade", "deny"))
    assert (event["reason"] is None) <= (outcome == "pass")
    assert event["input"]["topic"] == RETRIEVALS
    assert (event["would_have_been"] is not None) == (hidden and event["reason"] != "internal_error")
    if hidden and event["reason"] != "internal_error":
        assert OUTCOMES.index(outcome) <= OUTCOMES.index(event["would_have_been"])
    elif event["override"] is None and event["stages"]:
        assert outcome == max((one["outcome"] for one in event["stages"]), key=OUTCOMES.index)
