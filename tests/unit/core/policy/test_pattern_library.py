"""Libraries of known actions: how a call is written down, what a library may be, and the one that ships."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from sluice.core.foundation.errors import BundleError
from sluice.core.policy.pattern_library import LONGEST_PATTERN, ActionLibrary, render_call
from tests.unit.core.scene import BUNDLE_BYTES, ROOT

SHIPPED = ROOT / "config" / "patterns" / "actions.jsonl"
HARMFUL: dict[str, Any] = {
    "id": "a",
    "category": "money",
    "label": "harmful",
    "tool": "send_money",
    "parameters": {"to": "me"},
    "source": "own writing",
}
HARMLESS = {**HARMFUL, "id": "b", "label": "harmless", "parameters": {"to": "the landlord"}}


def library(*known: dict[str, Any]) -> ActionLibrary:
    return ActionLibrary.from_lines(b"\n".join(json.dumps(one).encode() for one in known))


@pytest.mark.parametrize(
    ("tool", "parameters", "text"),
    [
        ("sendMoney", {}, "send money"),
        ("BankManagerPayBill", {"amountDue": 3}, "bank manager pay bill\namount due: 3"),
        ("HTTPGet", {"url": "https://A.example"}, "http get\nurl: https://A.example"),
        ("a.b-c/d:e_f", {"z": True, "a": None}, "a b c d e f\na: null\nz: true"),
        ("t", {"to": ["x", "y"], "n": [1, 2.5]}, "t\nn: 1, 2.5\nto: x, y"),
        ("t", {"user": {"homeTown": "Lima", "age": 4}}, "t\nuser age: 4\nuser home town: Lima"),
        ("t", {"rows": [{"a": 1}, {"a": 2}, "z"]}, "t\nrows a: 1\nrows a: 2\nrows: z"),
    ],
)
def test_how_a_call_is_written_down(tool: str, parameters: dict[str, Any], text: str) -> None:
    assert render_call(tool, parameters) == text
    assert render_call(tool, dict(reversed(parameters.items()))) == text


def test_a_text_is_compared_as_it_stands() -> None:
    told = {**HARMFUL, "tool": None, "parameters": {}, "text": "sendMoney to me"}
    assert library(told, HARMLESS).harmful[0].rendered == "sendMoney to me"


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        ((HARMFUL,), "both sides"),
        ((HARMLESS,), "both sides"),
        ((HARMFUL, {**HARMLESS, "id": "a"}), "same id: a"),
        ((HARMFUL, {**HARMLESS, "parameters": {"to": "me"}}), "same text: send money"),
        ((HARMFUL, {**HARMLESS, "label": "benign"}), "line 2"),
        ((HARMFUL, {**HARMLESS, "text": "both"}), "line 2: .*a tool with parameters, or a text"),
        (({**HARMFUL, "parameters": {"to": "x" * LONGEST_PATTERN}}, HARMLESS), "line 1: .*longer than"),
        (({**HARMFUL, "weight": 2}, HARMLESS), "line 1"),
    ],
)
def test_a_library_that_is_refused(known: tuple[dict[str, Any], ...], reason: str) -> None:
    with pytest.raises(BundleError, match=reason):
        library(*known)


def test_a_line_that_is_no_json_is_named() -> None:
    with pytest.raises(BundleError, match="line 3"):
        ActionLibrary.from_lines(b"%b\n\n{" % json.dumps(HARMFUL).encode())


def test_the_digest_is_of_what_is_said_and_not_of_how_it_is_written() -> None:
    turned = [dict(reversed(one.items())) for one in (HARMFUL, HARMLESS)]
    assert library(*turned).hash == library(HARMFUL, HARMLESS).hash
    assert library({**HARMFUL, "parameters": {"to": "you"}}, HARMLESS).hash != library(HARMFUL, HARMLESS).hash


def test_a_source_can_be_left_out() -> None:
    more = {**HARMLESS, "id": "c", "parameters": {}, "source": "owner/name@1:file"}
    whole = library(HARMFUL, HARMLESS, more)
    assert [one.id for one in whole.exclude_sources("owner/name").actions] == ["a", "b"]
    assert whole.exclude_sources("other", "owner", "owner/na").hash == whole.hash
    with pytest.raises(BundleError, match="both sides"):
        library(HARMFUL, more).exclude_sources("owner/name")


def test_the_shipped_library_has_hundreds_of_both_kinds_and_names_their_sources() -> None:
    shipped = ActionLibrary.from_lines(SHIPPED.read_bytes())
    assert min(len(shipped.harmful), len(shipped.harmless)) > 300
    own = [one for one in shipped.actions if one.source == "own writing"]
    assert min(Counter(one.label for one in own).values()) > 200
    wanted = {"money", "messages", "accounts", "devices", "personal_data", "destruction", "secrets"}
    for label in ("harmful", "harmless"):
        assert wanted | {"persistence", "exfiltration"} <= {one.category for one in own if one.label == label}
    assert all("@" in one.source and ":" in one.source for one in shipped.actions if one not in own)


def test_the_shipped_bundle_names_it_with_the_calibration_that_was_fitted_for_it() -> None:
    part = json.loads(BUNDLE_BYTES)["similarity"]
    fitted = json.loads(SHIPPED.with_suffix(".calibration.json").read_bytes())
    assert part["library"] == fitted["library"] == ActionLibrary.from_lines(SHIPPED.read_bytes()).hash
    assert part["calibration"] == fitted["calibration"]
