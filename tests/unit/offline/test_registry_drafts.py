"""Drafts of tools' entries: which evidence counts, and which does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from load import ROOT
from sluice.cli.policy.registry_propose import WORDS
from sluice.core.registry.loading import build_registry
from sluice.core.registry.registry_entries import EntryFile
from sluice.offline.policy_files import read_unsigned_bundle
from sluice.offline.registry_drafts import ObservedTools, load_tool_words, make_drafts

if TYPE_CHECKING:
    from sluice.core.policy.bundles import Bundle

READ_ONLY, DESTROYS, ADDS = {"readOnlyHint": True}, {"destructiveHint": True}, {"destructiveHint": False}


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return read_unsigned_bundle(ROOT / "config" / "bundles" / "default.json")


def verdict(tool: str, *, registered: bool = False, gate: str = "tier_auth", **more: Any) -> dict[str, Any]:
    reason = "tier_T3: needs a person's approval" if registered else f"unregistered_tool: {tool}"
    return {
        "verdict": "needs_human",
        "registry_hashes": {f"tool/{tool}@1": "sha256:0"} if registered else {},
        "gateResults": [{"gate": gate, "passed": False, "failureReason": reason, "detail": {}}],
        **more,
    }


def draft(
    bundle: Bundle, hints: dict[str, Any], *verdicts: dict[str, Any], spec: Any = None
) -> dict[str, Any]:
    entries = [] if spec is None else [EntryFile(kind="tool", id="a.tool", revision=4, spec=spec)]
    seen = ObservedTools()
    for one in verdicts:
        seen.take(one)
    drafts = make_drafts(bundle, build_registry(entries), load_tool_words(WORDS), seen.tools, hints)
    return {one.entry["id"]: (one.entry["spec"]["tier"], one.entry["spec"]["reversible"]) for one in drafts}


@pytest.mark.parametrize(
    ("name", "hints", "expected"),
    [
        ("notes.search", {}, ("T1", True)),
        ("notes.shelf", READ_ONLY, ("T1", True)),
        ("notes.delete_all", READ_ONLY, ("T3", None)),
        ("notes.delete_all", {}, ("T3", None)),
        ("notes.get_and_delete", {}, ("T3", None)),
        ("notes.find", DESTROYS, ("T3", False)),
        ("notes.shelf", ADDS, ("T2", None)),
        ("bank.payment", ADDS, ("T4", None)),
        ("host.shell", ADDS, ("T3", None)),
        ("notes.shelf", {"destructiveHint": "no", "readOnlyHint": "yes"}, ("T3", None)),
    ],
)
def test_the_stricter_of_hint_and_name_counts(
    bundle: Bundle, name: str, hints: dict[str, Any], expected: tuple[str, bool | None]
) -> None:
    assert draft(bundle, {name: hints}) == {name: expected}


def test_a_tool_that_runs_programs_needs_calls_that_gate_1_read(bundle: Bundle) -> None:
    few = [verdict("host.shell", registered=True)] * 4
    again = verdict("host.shell", registered=True, duplicate_of="verdict:1")
    assert draft(bundle, {}, *few, again) == {"host.shell": ("T3", None)}
    assert draft(bundle, {}, *few, *few) == {"host.shell": ("T2", None)}


def test_a_tier_that_a_person_gave_stays(bundle: Bundle) -> None:
    assert draft(bundle, {"a.tool": READ_ONLY}, spec={"tier": "T3"}) == {}
    assert draft(bundle, {"a.tool": {}}, spec={}) == {}, "nothing speaks for another tier than its type's"
    assert draft(bundle, {"a.tool": READ_ONLY}, spec={}) == {"a.tool": ("T1", True)}


def test_an_unregistered_tool_is_known_by_the_reason_of_its_denial(bundle: Bundle) -> None:
    assert draft(bundle, {}, verdict("list_rooms"), verdict("mystery")) == {
        "list_rooms": ("T1", True),
        "mystery": ("T3", None),
    }


@pytest.mark.parametrize(
    ("hints", "spec", "marked"),
    [
        (READ_ONLY | {"openWorldHint": True}, {}, True),
        (READ_ONLY | {"openWorldHint": False}, {}, None),
        (READ_ONLY | {"openWorldHint": "yes"}, {}, None),
        (READ_ONLY, {"returns_untrusted": True}, True),
    ],
)
def test_what_comes_from_the_open_world_is_untrusted_and_stays_so(
    bundle: Bundle, hints: dict[str, Any], spec: dict[str, Any], marked: bool | None
) -> None:
    entries = [EntryFile(kind="tool", id="a.tool", revision=4, spec=spec)]
    (draft,) = make_drafts(
        bundle, build_registry(entries), load_tool_words(WORDS), ObservedTools().tools, {"a.tool": hints}
    )
    assert draft.entry["spec"].get("returns_untrusted") is marked
