"""A tier by what a call does: lower where all of it is understood and allowed, else as the type says."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.core.actions.effect_tier import find_effect_tier
from sluice.core.policy.bundle_frame import EffectTiers
from sluice.core.registry.registry_entries import NO_WORKSPACE, Workspace
from sluice.detection.call_inspection import Effect
from tests.unit.core.scene import Session, bundle, entry, point, relaxations

SHELL = entry("tool", "bash")
AGENT = entry("agent", "builder", tenant_id="acme", tier="T3", workspace={"paths": ["/srv/build", "out"]})


def verdict(command: str, *more: dict[str, Any], tool: str = "bash", **fields: Any) -> dict[str, Any]:
    chosen = point(SHELL, AGENT, *more)
    return Session(chosen).verdict(
        agent_id="builder", toolName=tool, parameters={"command": command}, **fields
    )


@pytest.mark.parametrize(
    ("command", "tier", "outcome"),
    [
        ("git status", "T1", "ALLOW"),
        ("ls -la src | head -3", "T1", "ALLOW"),
        ("mkdir notes", "T2", "ALLOW"),
        ("cp /srv/build/a /srv/build/b", "T2", "ALLOW"),
        ("rm /srv/build/a.o", "T2", "ALLOW"),
        ("rm out/a.o", "T2", "ALLOW"),
        ("rm a.o", "T3", "ESCALATE"),
        ("rm -r /srv/build", "T3", "ESCALATE"),
        ("cp a /etc/b", "T3", "ESCALATE"),
        ("echo x > .git/config", "T3", "ESCALATE"),
        ("make", "T3", "ESCALATE"),
        ("ls; make", "T3", "ESCALATE"),
        ("ls $(make)", "T3", "ESCALATE"),
    ],
)
def test_the_tier_follows_from_what_the_call_does(command: str, tier: str, outcome: str) -> None:
    found = verdict(command)
    assert (found["tier"], found["outcome"]) == (tier, outcome)
    detail = found["gateResults"][-1]["detail"]
    assert detail["tier"] == tier
    assert detail.get("type_tier") == (None if tier == "T3" else "T3")


def test_a_call_that_changes_the_own_is_logged_as_of_its_tier() -> None:
    assert verdict("mkdir notes")["obligations"] == ["log"]


@pytest.mark.parametrize(
    ("more", "fields"),
    [
        ([entry("tool", "bash", revision=2, tier="T3")], {}),
        ([entry("tool", "bash", revision=2, action_type="PAYMENT")], {}),
        ([], {"reversible": False}),
        ([], {"action_type": "PAYMENT"}),
    ],
)
def test_neither_an_entry_nor_a_claim_is_undercut(more: list[dict[str, Any]], fields: dict[str, Any]) -> None:
    assert verdict("git status", *more, **fields)["tier"] >= "T3"


def test_a_bundle_without_the_field_is_as_it_was() -> None:
    chosen = point(SHELL, AGENT, policy=bundle(effect_tiers={"action_types": []}))
    found = Session(chosen).verdict(agent_id="builder", toolName="bash", parameters={"command": "ls"})
    assert (found["tier"], found["outcome"]) == ("T3", "ESCALATE")


def test_what_is_forbidden_stays_forbidden() -> None:
    assert verdict("rm -rf /srv/build/../../etc")["outcome"] == "BLOCK"


@pytest.mark.parametrize(
    ("effect", "workspace", "tier"),
    [
        (Effect("sends", "ci.example", "host"), Workspace(hosts=["ci.example"]), "T2"),
        (Effect("sends", "other.example", "host"), Workspace(hosts=["ci.example"]), None),
        (Effect("writes", "scratch", "database"), Workspace(databases=["scratch"]), "T2"),
        (Effect("writes", "prod", "database"), Workspace(databases=["scratch"]), None),
        (Effect("deletes", "/srv/build/a"), Workspace(paths=["/srv/build"]), "T2"),
        (Effect("deletes", "/srv/build"), Workspace(paths=["/srv/build"]), None),
        (Effect("writes", "/srv/builder/a"), Workspace(paths=["/srv/build"]), None),
        (Effect("writes", "/srv/build/.ssh/a"), Workspace(paths=["/srv/build"]), None),
        (Effect("writes", "a/b"), NO_WORKSPACE, "T2"),
        (Effect("writes", "../b"), NO_WORKSPACE, None),
        (Effect("writes", "."), NO_WORKSPACE, None),
        (Effect("writes", "sub/HEAD"), NO_WORKSPACE, None),
        (Effect("adds", "sub/refs"), NO_WORKSPACE, None),
        (Effect("unknown"), Workspace(paths=["."]), None),
    ],
)
def test_own_is_what_the_workspace_holds(effect: Effect, workspace: Workspace, tier: str | None) -> None:
    tiers = EffectTiers(action_types=["OTHER"], working_folder=True)
    assert find_effect_tier(tiers, workspace, [Effect("reads"), effect]) == tier


def test_nothing_read_says_nothing() -> None:
    assert find_effect_tier(EffectTiers(), NO_WORKSPACE, []) is None


def test_without_the_working_folder_only_the_workspace_is_own() -> None:
    assert find_effect_tier(EffectTiers(), NO_WORKSPACE, [Effect("writes", "a")]) is None


def test_more_types_lower_tiers_and_the_working_folder_relax_a_bundle() -> None:
    before = bundle(effect_tiers={"action_types": ["OTHER"], "reads": "T2", "own": "T3"})
    after = bundle(effect_tiers={"action_types": ["OTHER", "PAYMENT"], "own": "T2", "working_folder": True})
    assert [one.path for one in relaxations(before, after)] == [
        "effect_tiers.action_types",
        "effect_tiers.reads",
        "effect_tiers.own",
        "effect_tiers.working_folder",
    ]
    assert relaxations(after, before) == []
