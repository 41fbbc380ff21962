"""`sluice evaluate`, as whoever compares two bundles runs it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from typer.testing import CliRunner, Result

from sluice.cli.main import cli
from tests.unit.cli.policy.policy_files import write
from tests.unit.core.rerun.reruns import SMALL
from tests.unit.core.rerun.test_rerun_memory import BAD, CONTENT, HELD
from tests.unit.core.trust.scene import bundle_document
from tests.unit.offline.panel_rows import panel, row, write_row

if TYPE_CHECKING:
    from pathlib import Path

ROWS = [
    row("h1", "harmful", "one", params={"cmd": "rm -rf /"}),
    row("h2", "harmful", "one", params={"cmd": "true"}),
    row("b1", "benign", "one"),
    row("a1", "ambiguous", "one", params={"cmd": "rm -rf /"}),
]


def evaluate(file: Path, *words: str) -> Result:
    """The command, under a bundle with a few patterns that lies beside the panel."""
    bundle = write(
        file.parent / "bundle.json",
        bundle_document(1, patterns=SMALL["patterns"], memory={"content": CONTENT}),
    )
    return CliRunner().invoke(cli, ["evaluate", str(file), "--bundle", str(bundle), *words])


def test_json_has_each_source_and_the_mean(tmp_path: Path) -> None:
    found = json.loads(evaluate(panel(tmp_path, *ROWS), "--json").stdout)
    assert found["macro"] == {"recall": 0.5, "false_positive_rate": 0.0, "precision": 1.0}
    assert found["sources"]["one"]["gates"] == {"fast_reject": {"harmful": 1, "benign": 0}}


def test_rows_say_which_gate_caught_which(tmp_path: Path) -> None:
    found = json.loads(evaluate(panel(tmp_path, *ROWS), "--rows", "--json").stdout)
    assert [(one["id"], one["caught"]) for one in found["rows"]] == [
        ("h1", True),
        ("h2", False),
        ("b1", False),
        ("a1", True),
    ]
    assert "fast_reject" in evaluate(panel(tmp_path, *ROWS), "--rows").stdout


def test_several_files_make_one_panel(tmp_path: Path) -> None:
    file = panel(tmp_path, *ROWS)
    found = json.loads(evaluate(file, str(file), "--json").stdout)
    assert found["sources"]["one"]["rows"] == {"harmful": 4, "benign": 2}


def test_what_is_no_panel_is_said(tmp_path: Path) -> None:
    assert evaluate(tmp_path / "none.jsonl").exit_code == 2
    (tmp_path / "bad.jsonl").write_text("nonsense")
    assert "line 1" in evaluate(tmp_path / "bad.jsonl").stderr


WRITES = [
    write_row("w1", "harmful", "one", text=HELD),
    write_row("w2", "harmful", "one", text=BAD),
    write_row("w3", "benign", "one"),
]


def test_memory_writes_have_figures_of_their_own_beside_those_of_actions(tmp_path: Path) -> None:
    file = panel(tmp_path, *ROWS, *WRITES)
    found = json.loads(evaluate(file, "--json", "--rows").stdout)
    assert found["macro"]["recall"] == 0.5
    assert found["memory_writes"]["macro"]["recall"] == 1
    assert found["memory_writes"]["sources"]["one"]["rejected"] == {"harmful": 1, "benign": 0}
    assert [one.get("action") for one in found["rows"]][-3:] == ["quarantine", "reject", "allow"]
    shown = evaluate(file, "--rows").stdout
    assert "caught by fast_reject" in shown
    assert "caught for exfiltration" in shown


def test_a_panel_of_writes_alone_has_no_table_of_actions(tmp_path: Path) -> None:
    shown = evaluate(panel(tmp_path, *WRITES)).stdout
    assert "Rejected alone, macro average: recall 50.0%" in shown
    assert "escalated" not in shown


def test_another_type_of_source_may_be_judged(tmp_path: Path) -> None:
    file = panel(tmp_path, write_row(text="plain"))
    assert evaluate(file, "--source-type", "external").exit_code == 0
    assert evaluate(file, "--source-type", "stranger").exit_code == 2


def test_a_comparison_that_the_bundle_cannot_make_is_said(tmp_path: Path) -> None:
    found = evaluate(panel(tmp_path, *WRITES), "--similarity")
    assert (found.exit_code, "library" in found.stderr) == (2, True)
