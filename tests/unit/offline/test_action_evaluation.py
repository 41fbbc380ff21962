"""What counts as caught, and the shares that follow from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sluice.core.actions.action_similarity import ActionCalibration
from sluice.core.actions.stages import list_shipped_stages
from sluice.core.foundation.requests import Answer
from sluice.core.policy.pattern_library import ActionLibrary, LibraryAction
from sluice.offline.action_evaluation import JudgedAction, Likeness, judge_actions
from sluice.offline.asking import NotMeasured
from sluice.offline.panels import load_panel
from sluice.offline.scores import ActionScore, compute_macro, compute_scores
from tests.unit.core.rerun.reruns import SMALL
from tests.unit.core.scene import START, bundle
from tests.unit.offline.panel_rows import panel, row

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sluice.core.foundation.requests import Request

RULE = {"id": "no_x", "type": "forbidden", "reason": "x", "condition": "action.tool == 'x'"}
DESTROYS = {"params": {"cmd": "rm -rf /"}}


def make(folder: Path, *rows: dict[str, Any]) -> list[JudgedAction]:
    found = load_panel(panel(folder, *rows))
    return list(judge_actions(found, bundle(**SMALL, rules=[RULE]), list_shipped_stages(), START))


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
    (one,) = make(tmp_path, row(**call))
    assert (one.outcome, one.gate, one.caught) == (outcome, gate, caught)


def test_rows_do_not_meet_in_a_session(tmp_path: Path) -> None:
    same = [row("same", rows_affected=600, reversible=False, tool="get") for _ in range(4)]
    assert len({(one.outcome, one.reason) for one in make(tmp_path, *same)}) == 1


def test_shares_are_of_each_source_and_its_labels(tmp_path: Path) -> None:
    harmful, benign = row("h", "harmful", "one"), row("b", "benign", "one")
    found = compute_scores(
        make(
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
    one = found["one"].write_fields()
    assert (one["recall"], one["false_positive_rate"], one["precision"]) == (0.5, 0.25, 0.5)
    assert (one["rows"], one["left_out"]) == ({"harmful": 2, "benign": 4}, 1)
    assert one["gates"] == {"fast_reject": {"harmful": 1, "benign": 1}}


def test_every_source_counts_once_in_the_mean_if_it_has_such_rows(tmp_path: Path) -> None:
    rows = [row(str(n), "harmful", "many", tool="get") for n in range(9)]
    few = (row("o", "harmful", "few", **DESTROYS), row("b", "benign", "few"))
    found = compute_scores(make(tmp_path, *rows, *few), ActionScore)
    assert compute_macro(found.values()) == {"recall": 0.5, "false_positive_rate": 0.0, "precision": 1.0}
    assert compute_macro([]) == {"recall": None, "false_positive_rate": None, "precision": None}


def make_known(name: str, label: str, source: str) -> LibraryAction:
    told = {"id": name, "category": "money", "label": label, "tool": name, "source": source}
    return LibraryAction.model_validate(told)


LIBRARY = ActionLibrary(
    [
        make_known("steal", "harmful", "own writing"),
        make_known("look", "harmless", "own writing"),
        make_known("drain", "harmful", "a/b@c:d"),
    ]
)
WITHOUT = {"some_source": ActionCalibration(harmful=0, harmless=0, lean=1, intercept=0)}


class Encoder:
    """Answers with a lean that the tool's name says, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[list[Request]] = []

    def answers(self, requests: Sequence[Request]) -> list[Answer]:
        self.asked.append(list(requests))
        return [Answer("answered", self._describe(one.payload)) for one in requests]

    @staticmethod
    def _describe(payload: Any) -> dict[str, Any]:
        near = [{"id": "x", "cosine": 0.5}]
        seen = {"model": "m", "library": payload["library"], "windows": 1, "of": 1, "unknown": 0.0}
        return {**seen, "harmful": near, "harmless": near, "lean": float(payload["text"].split()[-1])}


def compare(folder: Path, *rows: dict[str, Any], encoder: Encoder) -> list[JudgedAction]:
    found = load_panel(panel(folder, *rows))
    likeness = Likeness.leave_out(found, LIBRARY, WITHOUT)
    part = {"above": "escalate", "calibration": {**WITHOUT["some_source"].model_dump(), "intercept": 9.0}}
    under = bundle(**SMALL, rules=[RULE], similarity=part)
    return list(judge_actions(found, under, list_shipped_stages(), START, likeness, encoder.answers))


def test_a_source_is_compared_by_what_never_saw_it(
    tmp_path: Path,
) -> None:
    encoder = Encoder()
    rows = [
        row("a", tool="get", params={"lean": -3}),
        row("b", tool="get", params={"lean": 0}),
        row("c", tool="get", params={"lean": 3}, label="benign"),
        row("d", params={"cmd": "rm -rf /"}),
        row("e", tool="get", params={"lean": -3}, file="another", label="benign") | {"source": ""},
    ]
    judgements = compare(tmp_path, *rows, encoder=encoder)
    assert [one.band for one in judgements] == ["pass", "doubtful", "harmful", None, "harmful"]
    assert [one.outcome for one in judgements] == ["ALLOW", "ALLOW", "ESCALATE", "BLOCK", "ESCALATE"]
    asked = [one.payload["library"] for one in encoder.asked[0] if isinstance(one.payload, dict)]
    left = LIBRARY.exclude_sources("a/b").hash
    assert (len(encoder.asked), asked) == (1, [left, left, left, LIBRARY.hash])
    score = compute_scores(judgements, ActionScore)["some_source"]
    assert score.compute_choice() == {
        "harmful_sent_on": 1 / 3,
        "benign_sent_on": 1,
        "harmful_among_sent_on": 1 / 2,
    }
    assert score.write_fields()["similarity"]["compared"] == {"harmful": 2, "benign": 1}


def test_a_port_that_does_not_answer_ends_the_measurement(tmp_path: Path) -> None:
    found = load_panel(panel(tmp_path, row(tool="get")))
    likeness = Likeness.leave_out(found, LIBRARY, WITHOUT)
    with pytest.raises(NotMeasured, match="no port"):
        list(judge_actions(found, bundle(**SMALL), list_shipped_stages(), START, likeness))
