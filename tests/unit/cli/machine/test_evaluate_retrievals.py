"""`sluice evaluate` on retrieved items."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from sluice.cli.main import cli
from tests.unit.cli.policy.policy_files import write
from tests.unit.core.trust.scene import bundle_document
from tests.unit.offline.panel_rows import panel, row

VECTORS = Path(__file__).parents[2] / "core" / "data" / "c18_quality.jsonl"
FIRST = json.loads(VECTORS.read_text().splitlines()[0])


def evaluate(file: Path, folder: Path, *words: str) -> Result:
    """The command, under a small policy bundle, which retrievals do not look at."""
    bundle = write(folder / "bundle.json", bundle_document(1))
    return CliRunner().invoke(cli, ["evaluate", str(file), "--bundle", str(bundle), *words])


def label(label: str, **given: Any) -> dict[str, Any]:
    """The first of the published rows with another label."""
    return {**FIRST, "label": label, "input": {**FIRST["input"], **given}}


def test_the_published_vectors_all_agree(tmp_path: Path) -> None:
    found = evaluate(VECTORS, tmp_path, "--json")
    assert found.exit_code == 0
    assert json.loads(found.stdout)["retrievals"] == {"rows": 7, "agree": 7, "disagreements": []}
    assert "7 of 7 retrievals as labelled" in evaluate(VECTORS, tmp_path).stdout


def test_a_row_that_comes_out_otherwise_under_its_own_tables_is_listed_and_fails_the_command(
    tmp_path: Path,
) -> None:
    file = panel(tmp_path, FIRST, label("deny"))
    found = evaluate(file, tmp_path, "--json")
    assert found.exit_code == 1
    (listed,) = json.loads(found.stdout)["retrievals"]["disagreements"]
    assert (listed["label"], listed["outcome"], listed["flags_set"]) == ("deny", "pass", [])
    assert "otherwise" in evaluate(file, tmp_path).stdout


def test_a_row_without_tables_is_judged_by_what_ships_and_its_label_is_only_compared(tmp_path: Path) -> None:
    found = evaluate(panel(tmp_path, label("deny", quality_bundle=None)), tmp_path, "--json")
    assert found.exit_code == 0
    assert json.loads(found.stdout)["retrievals"]["agree"] == 0


def test_rows_of_actions_and_retrievals_have_figures_of_their_own(tmp_path: Path) -> None:
    found = json.loads(evaluate(panel(tmp_path, row(), FIRST), tmp_path, "--json", "--rows").stdout)
    assert found["retrievals"]["rows"] == 1
    assert [(one["label"], one["outcome"]) for one in found["rows"]][-1] == ("pass", "pass")
    assert len(found["rows"]) == 2
