"""Mend 10: what a bundle extends and includes lies beside it or below it, or is the bundle that ships.

Mend 22.11: what it says is merged with what it extends, and only what it names is removed.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from load import ROOT
from sluice.core.actions.stages import load_bundle
from sluice.core.foundation.errors import BundleError
from sluice.offline.bundle_source import read_whole_bundle
from tests.unit.core.scene import relaxations

if TYPE_CHECKING:
    from pathlib import Path

    from sluice.core.policy.bundles import Bundle

MORE = {"more": [{"id": "m"}]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a pattern set below it, and one outside it."""
    own = tmp_path / "own"
    (own / "below").mkdir(parents=True)
    for place in (tmp_path / "outside.json", own / "beside.json", own / "below" / "more.json"):
        place.write_text(json.dumps(MORE))
    (tmp_path / "other").mkdir()
    return own


def whole(folder: Path, **fields: object) -> dict[str, Any]:
    (folder / "b.json").write_text(json.dumps({"id": "b", **fields}))
    found: dict[str, Any] = json.loads(read_whole_bundle(folder / "b.json"))
    return found


def load(document: dict[str, Any]) -> Bundle:
    return load_bundle(json.dumps(document).encode())


@pytest.mark.parametrize("name", ["beside.json", "below/more.json", "./beside.json"])
def test_a_file_beside_or_below_is_read(folder: Path, name: str) -> None:
    assert whole(folder, include=[name]) == {"id": "b", "patterns": MORE}
    assert whole(folder, extends=name) == {"id": "b", **MORE}


@pytest.mark.parametrize(
    "name",
    [
        "../outside.json",
        "below/../../outside.json",
        "below/../beside.json",
        "/etc/hostname",
        "..\\outside.json",
        "C:/outside.json",
        "shipped:../quality/default.json",
        "beside.json\0",
    ],
)
def test_any_other_is_refused_by_its_name(folder: Path, name: str) -> None:
    with pytest.raises(BundleError, match=r"b\.json: \$\.extends: .* is not beside or below"):
        whole(folder, extends=name)
    with pytest.raises((BundleError, OSError)):
        whole(folder, include=[name])


def test_an_absolute_name_is_refused_also_where_it_leads_into_the_folder(folder: Path) -> None:
    with pytest.raises(BundleError, match="not beside or below"):
        whole(folder, include=[str(folder / "beside.json")])


def test_a_link_out_of_the_folder_is_refused_and_one_within_is_read(folder: Path) -> None:
    (folder / "out.json").symlink_to(folder.parent / "outside.json")
    (folder / "elsewhere").symlink_to(folder.parent)
    (folder / "within.json").symlink_to(folder / "below" / "more.json")
    for name in ("out.json", "elsewhere/outside.json"):
        with pytest.raises(BundleError, match="link out"):
            whole(folder, include=[name])
    assert whole(folder, include=["within.json"]) == {"id": "b", "patterns": MORE}


def test_what_a_base_includes_lies_beside_the_base(folder: Path) -> None:
    (folder / "below" / "base.json").write_text(json.dumps({"include": ["../beside.json"]}))
    with pytest.raises(BundleError, match=r"base\.json: \$\.include"):
        whole(folder, extends="below/base.json")


def test_the_shipped_bundle_is_extended_from_anywhere(folder: Path) -> None:
    shipped = json.loads(read_whole_bundle(ROOT / "config" / "bundles" / "default.json"))
    assert whole(folder, extends="shipped:default.json") == {**shipped, "id": "b"}


HOSTED = "shipped:budgets/hosted.json"
RULES = {
    "policies": {
        "policies": [
            {
                "id": "minimal",
                "title": "Data minimisation",
                "text": "Only the data that the purpose needs.",
                "source": {"document": "GDPR", "place": "Article 5(1)(c)"},
            }
        ]
    },
    "grader": {"rules": [{"id": "polite", "reason": "be polite", "criterion": "It is polite."}]},
}
BUDGETS: dict[str, dict[str, Any]] = {
    "inbound": {"budget_ms": 5000},
    "causal": {"budget_ms": 5000, "extraction_budget_ms": 20000},
    "policies": {"budget_ms": 20000},
    "grader": {"budget_ms": 20000, "proof": {"most_p99_ms": 5000.0}},
}


def test_the_profile_for_hosted_models_sets_these_budgets_and_nothing_else(folder: Path) -> None:
    shipped = whole(folder, extends="shipped:default.json")
    found = whole(folder, extends="shipped:default.json", include=[HOSTED])
    assert found == {**shipped, **{name: {**shipped.get(name, {}), **one} for name, one in BUDGETS.items()}}
    relaxed = [one.path for one in relaxations(*map(load, (shipped, found)))]
    assert relaxed == ["grader.proof.most_p99_ms"], "a hosted model is slower"
    named = {"stages": ["controls", "inbound", "causal", "policies", "grader", "tier_auth"]}
    asking = {"inbound": {"mode": "enforce", "judge": "always"}, "causal": {"enabled": True}, **RULES}
    before = whole(folder, extends="shipped:default.json", **named, **asking)
    after = whole(folder, extends="shipped:default.json", **named, **asking, include=[HOSTED])
    there = relaxations(load(before), load(after))
    assert [one.path for one in there] == ["grader.proof.most_p99_ms"], "a longer budget relaxes nothing"
    back = [one.path for one in relaxations(load(after), load(before))]
    budgets = ("inbound.budget_ms", "causal.budget_ms", "causal.extraction_budget_ms")
    assert back == [*budgets, "policies.budget_ms", "grader.budget_ms"]


def test_what_the_bundle_says_counts_before_the_profile(folder: Path) -> None:
    (folder / "below" / "base.json").write_text(json.dumps({"policies": {"budget_ms": 90, "closest": 2}}))
    own = {"causal": {"budget_ms": 70}, "grader": {"proof": {"least_agreement": 0.95}}}
    included = [HOSTED, "shipped:policies/gdpr.json"]
    found = whole(folder, extends="below/base.json", include=included, **own)
    assert found["causal"] == {"budget_ms": 70, "extraction_budget_ms": 20000}
    assert found["grader"] == {
        "budget_ms": 20000,
        "proof": {"least_agreement": 0.95, "most_p99_ms": 5000.0},
    }
    assert (found["policies"]["budget_ms"], found["policies"]["closest"]) == (90, 2)
    assert len(found["policies"]["policies"]) > 1


@pytest.mark.parametrize("wrong", [[], {"causal": 5000}])
def test_a_profile_that_is_not_made_of_objects_is_refused(folder: Path, wrong: object) -> None:
    (folder / "p.json").write_text(json.dumps({"budgets": wrong}))
    with pytest.raises(BundleError, match=r"p\.json: \$\.budgets.*: not an object"):
        whole(folder, causal={"enabled": True}, include=["p.json"])


BASE = {
    "stages": ["controls", "rules", "tier_auth"],
    "rules": [{"id": "first", "when": "a"}, {"id": "second", "when": "b"}],
    "grader": {"rules": [{"id": "polite"}], "budget_ms": 5},
    "cases": [{"name": "reads pass"}, {"name": "writes wait"}],
    "ttl_by_class": {"legal_text": 1, "pricing": 2},
    "row_steps": [{"from_rows": 0}],
}


def extend(folder: Path, **own: Any) -> dict[str, Any]:
    (folder / "base.json").write_text(json.dumps(BASE))
    return whole(folder, extends="base.json", **own)


def test_lists_with_ids_are_merged_by_id_and_objects_by_field(folder: Path) -> None:
    """Mend 22.11: an own rule or case removed all of those that it did not name."""
    own = {
        "rules": [{"id": "third"}, {"id": "first", "when": "c"}],
        "grader": {"rules": [{"id": "short"}]},
        "cases": [{"name": "mine"}],
        "ttl_by_class": {"pricing": None},
    }
    assert extend(folder, **own) == {
        **BASE,
        "id": "b",
        "rules": [{"id": "first", "when": "c"}, {"id": "second", "when": "b"}, {"id": "third"}],
        "grader": {"rules": [{"id": "polite"}, {"id": "short"}], "budget_ms": 5},
        "cases": [*BASE["cases"], {"name": "mine"}],  # type: ignore[misc]
        "ttl_by_class": {"legal_text": 1, "pricing": None},
    }
    assert extend(folder, rules=[], cases=[])["rules"] == BASE["rules"], "an empty list removes nothing"


def test_a_list_without_ids_is_replaced(folder: Path) -> None:
    found = extend(folder, stages=["controls", "tier_auth"], row_steps=[{"from_rows": 9}])
    assert (found["stages"], found["row_steps"]) == (["controls", "tier_auth"], [{"from_rows": 9}])


def test_only_what_is_named_is_removed(folder: Path) -> None:
    removed = {
        "rules": ["second"],
        "cases": ["reads pass"],
        "grader.rules": ["polite"],
        "ttl_by_class": ["pricing"],
    }
    found = extend(folder, remove=removed, rules=[{"id": "third"}])
    assert [one["id"] for one in found["rules"]] == ["first", "third"]
    assert (found["cases"], found["grader"]["rules"]) == ([{"name": "writes wait"}], [])
    assert found["ttl_by_class"] == {"legal_text": 1}
    assert "remove" not in found


@pytest.mark.parametrize(
    ("removed", "told"),
    [
        ({"rules": ["secnod"]}, r"\$\.remove\.rules: there is no secnod"),
        ({"ruels": ["second"]}, r"\$\.remove\.ruels: there is no second"),
        ({"row_steps": ["0"]}, r"\$\.remove\.row_steps: there is no 0"),
        ({"rules": "second"}, "not a list of names"),
        (["rules"], "not an object"),
    ],
)
def test_a_removal_that_removes_nothing_is_refused(folder: Path, removed: Any, told: str) -> None:
    with pytest.raises(BundleError, match=told):
        extend(folder, remove=removed)


def test_an_id_that_is_said_twice_and_a_removal_from_nothing_are_refused(folder: Path) -> None:
    with pytest.raises(BundleError, match="third is said twice"):
        extend(folder, rules=[{"id": "third"}, {"id": "third"}])
    with pytest.raises(BundleError, match="extends no bundle"):
        whole(folder, remove={"rules": ["first"]})


def test_the_example_keeps_the_rules_and_the_cases_that_ship(folder: Path) -> None:
    """Mend 22.11."""
    bundles = ROOT / "config" / "bundles"
    shipped, example = (
        json.loads(read_whole_bundle(bundles / f"{one}.json")) for one in ("default", "finance.recon.v0")
    )
    assert "outside_after_untrusted" in [one["id"] for one in example["rules"]]
    assert [one["name"] for one in shipped["cases"]] == [
        one["name"] for one in example["cases"][: len(shipped["cases"])]
    ]
    assert len(example["rules"]) == len(shipped["rules"]) + 3
