"""A registry is taken whole or refused with the place of what is wrong."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from sluice.core.foundation.errors import RegistryError
from sluice.core.registry.loading import MERGED, build_registry, load_registry, merge_registries
from sluice.core.registry.registry import Registry
from sluice.core.registry.registry_entries import MAX_TARGETS, EntryFile
from tests.unit.core.scene import ROOT, entry, registry


def load(*entries: dict[str, Any]) -> Any:
    return load_registry(json.dumps({"entries": list(entries)}).encode())


AGENT: dict[str, Any] = {"tenant_id": "acme", "tier": "T1"}
ANYBODYS = base64.b64encode(bytes([1, *[0] * 31])).decode()
TOO_MUCH = [f"customer_table_{number}_prod*" for number in range(MAX_TARGETS)]
"""More than one automaton takes."""


def test_the_shipped_example_loads() -> None:
    shipped = load_registry((ROOT / "config" / "registry.json").read_bytes())
    assert shipped.agents
    assert shipped.tools


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_the_highest_revision_counts_wherever_it_stands(order: tuple[int, int]) -> None:
    found = load(*(entry("agent", "a", revision, **{**AGENT, "tier": f"T{revision}"}) for revision in order))
    assert (found.agents["a"].tier, found.agents["a"].key) == ("T2", "agent/a@2")


def test_the_same_revision_twice_is_refused() -> None:
    with pytest.raises(RegistryError, match=r"\$\.entries\[1\]: agent/a@1 is there twice"):
        load(entry("agent", "a", **AGENT), entry("agent", "a", **AGENT))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (entry("agent", "a", tenant_id="acme", tier="T5"), r"\$\.entries\[0\]\.spec\.tier"),
        (entry("agent", "a", tenant_id="unregistered", tier="T1"), r"\.spec\.tenant_id.*unregistered"),
        (entry("robot", "a"), r"\$\.entries\[0\]\.kind"),
        (entry("tool", "a", colour="red"), r"\.spec\.colour"),
        (entry("tool", "a", colour=2**60), r"\$\.entries\[0\]\.spec"),
        (entry("org", "a", forbidden_targets=["**"]), r"\.spec\.forbidden_targets\[0\]"),
        (entry("org", "a", forbidden_targets=["t"] * (MAX_TARGETS + 1)), r"\.spec\.forbidden_targets: .*512"),
        (entry("org", "a", forbidden_targets=TOO_MUCH), r"\.spec\.forbidden_targets\[511\]: .*too large"),
        (entry("enforcement_point", "a", tenant_id="acme", public_key="AAAA"), r"\.spec\.public_key"),
        (entry("enforcement_point", "a", tenant_id="acme", public_key="?"), r"\.spec\.public_key"),
        (
            entry("enforcement_point", "a", tenant_id="acme", public_key=ANYBODYS),
            r"\.spec\.public_key: .*anybody",
        ),
        (entry("freeze", "a", subject="planet", subject_id="x", reason="y"), r"\.spec\.subject"),
    ],
)
def test_a_wrong_entry_is_refused_with_its_place(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(RegistryError, match=message):
        load(wrong)


@pytest.mark.parametrize("raw", [b"", b"[]", b'{"entries":{}}', b'{"entries":[],"entries":[]}'])
def test_what_is_no_registry_is_refused(raw: bytes) -> None:
    with pytest.raises(RegistryError, match=r"^\$"):
        load_registry(raw)


def test_an_entrys_hash_changes_with_its_content_only() -> None:
    one, same = registry().tools["erase"], registry(entry("tool", "new")).tools["erase"]
    assert one.hash == same.hash
    assert registry(entry("tool", "erase", 2)).tools["erase"].hash != one.hash


def test_an_agent_without_a_tool_list_has_every_registered_tool() -> None:
    assert registry().agents["operator"].tools is None


def test_a_target_with_many_stars_is_refused_since_matching_it_takes_seconds() -> None:
    assert load(entry("org", "acme", forbidden_targets=["prod_*_pay*"])).orgs
    with pytest.raises(RegistryError, match=r"forbidden_targets: .* more than 2 stars"):
        load(entry("org", "acme", forbidden_targets=["a*b*c*d"]))


def test_agents_whose_entries_came_one_by_one_are_peers() -> None:
    """As a worker reads them: each entry is compiled for itself."""
    entries = [entry("agent", name, **AGENT, roles=["payers"]) for name in ("ann", "ben")]
    parts = [build_registry([EntryFile.model_validate(one)]) for one in entries]
    found = merge_registries(parts)
    assert found.find_peers(found.agents["ann"]) == ("ben",)


def test_every_table_of_a_registry_is_merged() -> None:
    assert {name for name in vars(Registry()) if not name.startswith("_")} - {"audience"} == MERGED
