"""What holds of every retrieval, whatever its items say: `held.hold` is asked of each decision here."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice_topics.catalog import RETRIEVALS
from tests.unit.core.retrieval.items import REQUESTS
from tests.unit.core.retrieval.reading import Reading
from tests.unit.core.retrieval.scene import (
    OLD,
    SUSPECT,
    TEXT,
    Scene,
    flag_only,
    item,
    quality,
    retrieval,
)
from tests.unit.core.scene import entry

QUALITIES = (
    quality(),
    quality(rollout=flag_only("legal_text", "internal_policy")),
    quality(access={"internal_policy": {"tenants": ["acme"]}}, high_impact_categories=["payment"]),
)
BAD = entry("known_bad", "k1", tenant_id=None, subject="item", value="i-2", reason="by an attacker")
SOURCE = entry("source", "acme/crm", tenant_id="acme", source_id="crm", type="external")


@settings(max_examples=60, deadline=None)
@given(st.lists(REQUESTS, min_size=1, max_size=3), st.sampled_from(QUALITIES))
def test_every_item_has_one_event_and_nothing_is_served_that_none_covers(
    requests: list[dict[str, Any]], judged_by: bytes
) -> None:
    scene = Scene(entries=(BAD, SOURCE), quality=judged_by)
    for request in requests:
        named = {"request_id": "r-1", "session_id": "s-1", **request}
        found = Reading(scene.take(RETRIEVALS, named))
        assert [one["item_id"] for one in found.events] == [one["item_id"] for one in request["items"]]
        shown = [*found.served["items"], *found.served["withheld"]]
        assert sorted(one["ledger_event_id"] for one in shown) == sorted(
            one["ledger_event_id"] for one in found.events
        )
    assert scene.statuses() == {"identical"}


@settings(max_examples=25, deadline=None)
@given(REQUESTS)
def test_an_item_is_judged_alone_whatever_stands_beside_it(request: dict[str, Any]) -> None:
    fields = {name: value for name, value in request.items() if name != "items"}
    together = Scene().read(*request["items"], **fields)
    alone = [Scene().read(one, **fields).event for one in request["items"]]
    decided = ("outcome", "flags_set", "reason_codes", "reason", "stages", "dimensions", "body_digest")
    assert [{name: one[name] for name in decided} for one in together.events] == [
        {name: one[name] for name in decided} for one in alone
    ]


def test_flags_are_fields_beside_the_body_and_never_words_in_it() -> None:
    (served,) = Scene().serve(item(timestamp=OLD, body=SUSPECT), agent_id="sandbox")["items"]
    assert served["flags"] == {
        "stale": True,
        "low_confidence": False,
        "provenance_missing": False,
        "provenance_unverified": False,
        "content_suspect": True,
    }
    assert served["body"] == SUSPECT


def test_an_item_that_no_matrix_holds_back_still_carries_its_flags() -> None:
    """A matrix may say pass in the sandbox; then the failure shows in the flags alone."""
    lenient = {"sandbox": {"legal_text": dict.fromkeys(("freshness", "confidence", "provenance"), "pass")}}
    scene = Scene(quality=quality(action_matrix=lenient))
    (served,) = scene.serve(item(timestamp=OLD), agent_id="sandbox")["items"]
    assert (served["outcome"], served["flags"]["stale"], served["body"]) == ("pass", True, TEXT)


def raw(body: bytes, count: int = 1, **fields: Any) -> bytes:
    """A request of items whose bodies are these bytes."""
    items = [item(item_id=f"i-{number}", body="@") for number in range(count)]
    return json.dumps(retrieval(*items, **fields)).encode().replace(b'"@"', body)


def make_held(value: bytes) -> Reading:
    """Decided on as it came."""
    scene = Scene()
    return Reading(scene.decide(replace(scene.input_record(RETRIEVALS, retrieval()), value=value)))


def test_a_thousand_items_are_decided_one_by_one() -> None:
    found = Scene().read(*(item(item_id=f"i-{number}") for number in range(1000)))
    assert found.outcomes == ["pass"] * 1000


def test_ids_that_json_writes_six_times_as_long_pass_no_bound() -> None:
    items = [{"item_id": "\x01" * 250 + f"{number:06}"} for number in range(640)]
    found = Scene().read(*items, agent_id="high_privilege", tool_category="payment")
    assert len(found.bodies("RetrievalEscalationOpened")[0]["items"]) == 640


@pytest.mark.parametrize(
    "body", [b"[1e308,-0.0,1e-320,5e-324]", b"9" * 1000, b"[" * 50 + b"]" * 50, b'{"\\u0000":-1e-7}']
)
def test_numbers_and_nesting_at_their_bounds_are_served(body: bytes) -> None:
    assert make_held(raw(body)).outcomes == ["pass"]


@pytest.mark.parametrize("body", [b"1e309", b"9" * 1001, b"[" * 70 + b"]" * 70, b'"\\ud800"', b"NaN"])
def test_what_is_beyond_them_is_a_dead_letter(body: bytes) -> None:
    assert [one.kind for one in make_held(raw(body)).decision.records] == ["DeadLetter"]


@pytest.mark.parametrize("number", [b"1e20", b"1e15", b"-1e-7", b"1.0", b"12345678901234567890"])
@pytest.mark.parametrize("agent", ["sandbox", "bounded", "trial"])
def test_a_megabyte_of_numbers_is_answered_within_the_bounds(number: bytes, agent: str) -> None:
    """RFC 8785 writes 1e20 with 21 digits: what is served must not outgrow what the broker takes."""
    scene = Scene()
    body = b"[" + b",".join([number] * (1_000_000 // (len(number) + 1))) + b"]"
    value = json.dumps(retrieval(item(body="@"), agent_id=agent)).encode().replace(b'"@"', body)
    decision = scene.decide(replace(scene.input_record(RETRIEVALS, retrieval()), value=value))
    assert [one.kind for one in decision.records][:1] == ["QualityDecision"]


def test_a_body_that_is_too_long_written_out_is_read_by_nobody_and_its_neighbours_are() -> None:
    found = Scene().read(item(), item(item_id="i-2", body=[1e20] * 5000), item(item_id="i-3", body=[1.0]))
    assert found.outcomes == ["pass", "deny", "pass"]
    assert found.events[1]["reason"].startswith("too_long: ")
    assert found.events[1]["reason_codes"] == ["CONTENT_UNSAFE"]
    assert found.events[1]["body_digest"] is None
