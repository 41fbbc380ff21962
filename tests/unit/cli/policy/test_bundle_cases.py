"""`sluice bundle test`, as a policy's author runs it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.unit.cli.policy.policy_files import sluice, write
from tests.unit.core.trust.scene import bundle_document

if TYPE_CHECKING:
    from pathlib import Path

PASSING = {"name": "reads", "action": {"toolName": "read", "parameters": {}}, "expect": {"outcome": "ALLOW"}}
FAILING = {**PASSING, "name": "reads no more", "expect": {"outcome": "BLOCK"}}


def test_cases_that_pass_are_counted(tmp_path: Path) -> None:
    found = sluice("bundle", "test", write(tmp_path / "b.json", bundle_document(cases=[PASSING])))
    assert (found.exit_code, "1 of 1" in found.stdout) == (0, True)


def test_a_difference_is_shown_with_both_values(tmp_path: Path) -> None:
    file = write(tmp_path / "b.json", bundle_document(cases=[PASSING, FAILING]))
    found = sluice("bundle", "test", file)
    assert found.exit_code == 1
    assert all(word in found.stdout for word in ("reads no more", "outcome", "BLOCK", "ALLOW", "1 of 2"))
    listed = json.loads(sluice("bundle", "test", file, "--json").stdout)
    assert listed == {
        "bundle": "small@1",
        "cases": 2,
        "differences": [
            {
                "case": "reads no more",
                "field": "outcome",
                "expected": "BLOCK",
                "actual": "ALLOW",
                "decided": "ALLOW",
            }
        ],
    }


def test_a_bundle_that_does_not_load_is_another_matter(tmp_path: Path) -> None:
    file = write(tmp_path / "b.json", bundle_document(escalation_ttl_ms=0))
    assert sluice("bundle", "test", file).exit_code == 2
    assert sluice("bundle", "test", tmp_path / "none.json").exit_code == 2
