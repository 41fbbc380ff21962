"""Gate "outbound" and the checkpoint `back`: what leaves with an action."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sluice.core.actions.outbound import MOST_CHARACTERS
from tests.unit.core.scene import Session, bundle, entry, make_counted, point, relaxations

STAGES = ["controls", "outbound", "fast_reject", "rules", "consequence", "topology", "tier_auth"]
IBAN, CARD = "DE89 3704 0044 0532 0130 00", "4111 1111 1111 1111"
TOOLS = (
    make_counted("send", tier="T1", action_type="MESSAGE", reversible=True),
    entry("org", "globex", enforcement="shadow"),
)


def send_message(
    does: str, parameters: dict[str, Any], part: dict[str, Any] | None = None, **action: Any
) -> Any:
    """The verdict on a message with these parameters, under a gate of this mode."""
    policy = bundle(patterns={}, stages=STAGES, outbound={"mode": does, **(part or {})})
    fields = {"toolName": "send", "parameters": parameters, **action}
    return Session(point(*TOOLS, policy=policy)).verdict(**fields)


def detail(verdict: Any) -> Any:
    return next(one["detail"] for one in verdict["gateResults"] if one["gate"] == "outbound")


@pytest.mark.parametrize(
    ("mode", "action", "outcome", "back"),
    [
        ("off", {}, "ALLOW", "observed"),
        ("observe", {}, "ALLOW", "observed"),
        ("nudge", {}, "ALLOW", "nudged"),
        ("enforce", {}, "BLOCK", "enforced"),
        ("enforce", {"mode": "standard"}, "BLOCK", "observed"),
        ("enforce", {"agent_id": "other"}, "ALLOW", "observed"),
        ("enforce", {"toolName": "find"}, "ALLOW", "observed"),
    ],
)
def test_modes(mode: str, action: dict[str, Any], outcome: str, back: str) -> None:
    verdict = send_message(mode, {"body": f"pay {IBAN} now"}, **action)
    assert (verdict["outcome"], verdict["checkpoints"]["back"]) == (outcome, back)


@pytest.mark.parametrize("mode", ["observe", "nudge", "enforce"])
def test_what_is_clean_passes(mode: str) -> None:
    verdict = send_message(mode, {"body": "see you at ten"})
    assert (verdict["outcome"], verdict["checkpoints"]["back"]) == ("ALLOW", "pass")
    assert verdict["advisories"][-1]["text"] == "front and integrity are observed only: no such check ran"


def test_a_finding_is_told_by_kind_and_place_and_never_by_itself() -> None:
    verdict = send_message("enforce", {"body": {"lines": ["hi", f"pay {IBAN} with {CARD}"]}, "to": "ann"})
    assert verdict["blockReason"] == "outbound_data: iban, card at $.parameters.body.lines[1]"
    assert detail(verdict)["findings"] == [
        {"kind": "iban", "path": "$.parameters.body.lines[1]"},
        {"kind": "card", "path": "$.parameters.body.lines[1]"},
    ]
    assert verdict["advisories"][-2]["text"] == "what this action sends out holds: iban, card"
    assert not any(one in json.dumps(verdict) for one in (IBAN, CARD))


def test_the_parameters_without_it_and_with_a_warning() -> None:
    given = {"body": f"pay {IBAN} now", "n": 4111111111111111, "to": ["ann"]}
    assert detail(send_message("enforce", given))["replacement"] == {
        "body": "pay [iban] now",
        "n": "[card]",
        "to": ["ann"],
    }
    assert (
        detail(send_message("nudge", given))["replacement"]["body"]
        == f"pay {IBAN} now [warning: contains iban]"
    )


def test_names_of_fields_are_read_too() -> None:
    verdict = send_message("enforce", {f"x {CARD}": 1})
    assert (verdict["outcome"], detail(verdict)["findings"][0]["path"]) == ("BLOCK", "$.parameters[0]")
    assert detail(verdict)["replacement"] == {"x [card]": 1}


def test_what_is_too_long_to_be_read_is_not_passed() -> None:
    verdict = send_message("observe", {"body": "a " * MOST_CHARACTERS})
    assert verdict["checkpoints"]["back"] == "observed"
    assert detail(verdict)["unread_characters"] == MOST_CHARACTERS + len("body")


def test_large_parameters_are_not_given_back() -> None:
    assert "replacement" not in detail(send_message("enforce", {"body": CARD + " a" * 10_000}))


def test_kinds_and_types_are_the_bundle_s() -> None:
    assert send_message("enforce", {"body": "ann@example.org"})["outcome"] == "ALLOW"
    assert send_message("enforce", {"body": "ann@example.org"}, {"kinds": ["email"]})["outcome"] == "BLOCK"
    reads = {"action_types": ["DATABASE_READ"]}
    assert send_message("enforce", {"body": CARD}, reads, toolName="find")["outcome"] == "BLOCK"


def test_what_relaxes_it() -> None:
    before = bundle(patterns={}, stages=STAGES, outbound={"mode": "enforce", "kinds": ["card", "iban"]})
    after = bundle(
        patterns={}, stages=STAGES, outbound={"mode": "nudge", "kinds": ["card"], "action_types": ["MESSAGE"]}
    )
    assert [one.sentence for one in relaxations(before, after)] == [
        "what leaves is only nudge, not enforce",
        "what leaves is no longer looked through for API_CALL",
        "what leaves is no longer looked through for iban",
    ]
