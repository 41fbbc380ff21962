"""docs/rules.md is true: every example in it is loaded and decided."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from sluice.core.foundation.errors import BundleError
from sluice.core.rules.variables import VARIABLES
from tests.unit.core.actions.sequence_scene import TOOLS
from tests.unit.core.rules.rule_scene import make_ruled, rules_only
from tests.unit.core.scene import ROOT, Session, bundle, entry, point

GUIDE = (ROOT / "docs" / "rules.md").read_text()
BLOCKS = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", GUIDE, re.DOTALL)]
EXAMPLES = [one for one in BLOCKS if "rule" in one]
(SEQUENCE,) = [one for one in BLOCKS if "rule" not in one]
REFUSED = [
    tuple(part.strip() for part in line.split("//"))
    for line in re.findall(r"```cel-refused\n(.*?)```", GUIDE, re.DOTALL)[0].splitlines()
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["rule"]["id"])
def test_an_example_is_decided_as_the_guide_says(example: dict[str, Any]) -> None:
    facts = [entry("fact", one["id"], one["revision"], **one["spec"]) for one in example.get("facts", [])]
    session = make_ruled([example["rule"]], *facts)
    for place, outcome in enumerate(example["outcomes"]):
        fields = {name: value for name, value in outcome.items() if name != "passed"}
        verdict = session.verdict(**{"action_id": f"a-{place}", "toolName": "anything", **fields})
        assert [one["passed"] for one in verdict["rule_results"]] == [outcome["passed"]], outcome


def test_the_sequence_is_decided_as_the_guide_says() -> None:
    policy = {name: SEQUENCE[name] for name in ("stages", "sequence")}
    session = Session(point(*TOOLS, policy=bundle(patterns={}, **policy)))
    for place, step in enumerate(SEQUENCE["steps"]):
        fields = {name: value for name, value in step.items() if name != "outcome"}
        assert session.verdict(action_id=f"a-{place}", **fields)["outcome"] == step["outcome"], step


@pytest.mark.parametrize(("condition", "reason"), REFUSED)
def test_a_refused_condition_is_refused_for_the_reason_given(condition: str, reason: str) -> None:
    rule = {"id": "r", "type": "invariant", "reason": "a reason", "condition": condition}
    with pytest.raises(BundleError, match=re.escape(reason)) as refusal:
        rules_only([rule])
    assert str(refusal.value).startswith("$.rules[0].condition: ")


def test_every_variable_is_in_the_guide_and_nothing_else() -> None:
    listed = re.findall(r"^\| `([\w.]+)` \| (?:\w+(?:\([^)]*\))?) \|", GUIDE, re.MULTILINE)
    assert sorted(listed) == sorted(VARIABLES)
