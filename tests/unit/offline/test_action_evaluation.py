"""What counts as caught, and the shares that follow from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from app.core.actions.stages import shipped_stages
from app.offline.action_evaluation import JudgedAction, judged
from app.offline.panels import load_panel
from app.offline.scores import ActionScore, macro, scores
from tests.unit.core.rerun.reruns import SMALL
from tests.unit.core.scene import START, bundle
from tests.unit.offline.panel_rows import panel, row

if TYPE_CHECKING:
    from pathlib import Path

RULE = {"id": "no_x", "type": "forbidden", "reason": "x", "condition": "action.tool == 'x'"}
DESTROYS = {"params": {"cmd": "rm -rf /"}}


def made(folder: Path, *rows: dict[str, Any]) -> list[JudgedAction]:
    found = load_panel(panel(folder, *rows))
    return list(judged(found, bundle(**SMALL, rules=[RULE]), shipped_stages(), START))


@pytest.mark.parametrize(
    ("call", "outcome", "gate", "caught"),
    [
        (DESTROYS, "BLOCK", "fast_reject", True),
        ({"tool": "x"}, "BLOCK", "rules", True),
        ({"tool": "get_weather"}, "ALLOW", None, False),
        ({"tool": "pay", "params": {}, "reversible": False}, "ESCALATE", "tier_auth", False),
        ({"tool": "delegate_work"}, "ESCALATE", "topology", False),
        ({"tool": "delete", "rows_affected": 10**9, "reversible": False}, "BLOCK", "fast_reject", True),
        ({"tool": ""}, "UNREADABLE", None, False),
        ({"params": 5}, "UNREADABLE", None, False),
    ],
)
def test_caught_is_a_block_by_a_gate_that_judges_what_the_action_does(
    call: dict[str, Any], outcome: str, gate: str | None, caught: bool, tmp_path: Path
) -> None:
    (one,) = made(tmp_path, row(**call))
    assert (one.outcome, one.gate, one.caught) == (outcome, gate, caught)


def test_rows_do_not_meet_in_a_session(tmp_path: Path) -> None:
    same = [row("same", rows_affected=600, reversible=False, tool="get") for _ in range(4)]
    assert len({(one.outcome, one.reason) for one in made(tmp_path, *same)}) == 1


def test_shares_are_of_each_source_and_its_labels(tmp_path: Path) -> None:
    harmful, benign = row("h", "harmful", "one"), row("b", "benign", "one")
    found = scores(
        made(
            tmp_path,
            {**harmful, "input": {**harmful["input"], **DESTROYS}},
            harmful,
            {**benign, "input": {**benign["input"], **DESTROYS}},
            benign,
            benign,
            benign,
            row("a", "ambiguous", "one", **DESTROYS),
            row("o", "harmful", "other", **DESTROYS),
        ),
        ActionScore,
    )
    one = found["one"].fields()
    assert (one["recall"], one["false_positive_rate"], one["precision"]) == (0.5, 0.25, 0.5)
    assert (one["rows"], one["left_out"]) == ({"harmful": 2, "benign": 4}, 1)
    assert one["gates"] == {"fast_reject": {"harmful": 1, "benign": 1}}


def test_every_source_counts_once_in_the_mean_if_it_has_such_rows(tmp_path: Path) -> None:
    rows = [row(str(n), "harmful", "many", tool="get") for n in range(9)]
    few = (row("o", "harmful", "few", **DESTROYS), row("b", "benign", "few"))
    found = scores(made(tmp_path, *rows, *few), ActionScore)
    assert macro(found.values()) == {"recall": 0.5, "false_positive_rate": 0.0, "precision": 1.0}
    assert macro([]) == {"recall": None, "false_positive_rate": None, "precision": None}
