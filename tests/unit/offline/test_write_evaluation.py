"""What counts as a caught memory write, and that nothing fitted is judged on what it was fitted to."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from sluice.core.actions.stages import load_bundle
from sluice.core.foundation.errors import BundleError
from sluice.core.foundation.requests import Answer, Request
from sluice.offline.asking import NotMeasured
from sluice.offline.panels import ActionRow, NotAPanel, WriteRow, load_mixed
from sluice.offline.scores import WriteScore, compute_macro, compute_scores
from sluice.offline.write_evaluation import JudgedWrite, WriteTrial, judge_writes
from tests.unit.core.rerun.reruns import document
from tests.unit.core.rerun.test_rerun_memory import BAD, CONTENT, GOOD, HELD, SIMILARITY
from tests.unit.core.scene import START
from tests.unit.offline.panel_rows import panel, row, write_row

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sluice.core.policy.bundles import Bundle

LIBRARY = {
    "attack": [
        {"id": "own", "text": "t", "source": "some_source", "kind": "persistence"},
        {"id": "repository", "text": "t", "source": "a/b: a rule", "kind": "persistence"},
        {"id": "foreign", "text": "t", "source": "elsewhere", "kind": "persistence"},
    ],
    "benign": [],
    "calibration": {"at_least": 0.7, "margin": 0.1, "weight": "strong"},
}


@cache
def rules(*, similarity: bool = False) -> Bundle:
    memory: dict[str, Any] = {"content": CONTENT, "analysis": {}, "trust": {"llmAnalysis": True}}
    if similarity:
        memory["similarity"] = {**SIMILARITY, "enabled": False, "library": LIBRARY}
    return load_bundle(document(memory=memory))


def nobody(requests: Sequence[Request]) -> list[Answer]:
    raise AssertionError(requests)


class Encoder:
    """Finds each text as near to the first attack text of the library that it is asked with."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.libraries: list[list[str]] = []

    def ask(self, requests: Sequence[Request]) -> list[Answer]:
        self.batches.append(len(requests))
        return [self._answer(request.payload) for request in requests]

    def _answer(self, payload: Any) -> Answer:
        known = [one.id for one in payload["library"].attack]
        self.libraries.append(known)
        nearest = {"attack": {"id": known[0], "cosine": 0.9}, "benign": None}
        return Answer("answered", {"model": "m", "library": "l", "windows": 1, "of": 1, **nearest})


def make(folder: Path, *rows: dict[str, Any], ask: Any = nobody, **trial: Any) -> list[JudgedWrite]:
    found = [one for one in load_mixed(panel(folder, *rows)) if isinstance(one, WriteRow)]
    trial = {"bundle": rules(), "source_type": "user", "similarity": None, **trial}
    return list(judge_writes(found, WriteTrial(**trial, at_ms=START, ask=ask)))


@pytest.mark.parametrize(
    ("text", "action", "by", "caught", "rejected"),
    [
        (GOOD, "allow", "trusted", False, False),
        (HELD, "quarantine", "exfiltration", True, False),
        (BAD, "reject", "identity_change", True, True),
        ("x" * 1_000_001, "reject", "too_long", True, True),
        ("\ud800", "UNREADABLE", "lone_surrogate", False, False),
    ],
)
def test_caught_is_what_is_held_or_rejected_for_its_content(
    text: str, action: str, by: str, caught: bool, rejected: bool, tmp_path: Path
) -> None:
    found = [WriteRow("w", "f", "harmful", text, "")]
    (one,) = judge_writes(found, WriteTrial(rules(), "user", None, START, nobody))
    assert (one.outcome, one.by, one.caught, one.apart) == (action, by, caught, rejected)


def test_rows_do_not_meet_in_a_session(tmp_path: Path) -> None:
    found = make(tmp_path, *(write_row("same") for _ in range(5)), source_type="external")
    assert len({(one.outcome, one.reason) for one in found}) == 1


def test_the_encoder_is_asked_for_many_rows_at_once_and_never_with_texts_of_their_source(
    tmp_path: Path,
) -> None:
    encoder = Encoder()
    rows = [write_row(str(number), text=f"{GOOD} {number}") for number in range(300)]
    elsewhere = write_row("e", file="other_source", source="c/d@e:f")
    found = make(tmp_path, *rows, elsewhere, ask=encoder.ask, bundle=rules(similarity=True), similarity=True)
    assert encoder.batches == [256, 45]
    assert encoder.libraries[0] == ["foreign"]
    assert encoder.libraries[-1] == ["own", "repository", "foreign"]
    assert {one.by for one in found} == {"persistence"}


def test_without_being_told_to_the_encoder_is_asked_as_the_bundle_says(tmp_path: Path) -> None:
    assert not make(tmp_path, write_row(), bundle=rules(similarity=True))[0].caught


def test_a_row_that_a_rule_rejects_needs_no_encoder(tmp_path: Path) -> None:
    (one,) = make(tmp_path, write_row(text=BAD), bundle=rules(similarity=True), similarity=True)
    assert one.apart


def test_an_encoder_that_does_not_answer_is_no_catch(tmp_path: Path) -> None:
    def down(requests: Sequence[Request]) -> list[Answer]:
        return [Answer("unavailable", detail="no model") for _ in requests]

    with pytest.raises(NotMeasured, match="no model"):
        make(tmp_path, write_row(), ask=down, bundle=rules(similarity=True), similarity=True)


def test_a_comparison_without_a_library_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="library"):
        make(tmp_path, write_row(), similarity=True)


def test_shares_are_of_each_source_and_rejected_alone_is_told_apart(tmp_path: Path) -> None:
    rows = [
        write_row("h1", text=HELD),
        write_row("h2", text=BAD),
        write_row("b1", "benign", text=HELD),
        write_row("b2", "benign"),
        write_row("a1", "ambiguous", text=BAD),
        write_row("o1", file="other"),
    ]
    found = compute_scores(make(tmp_path, *rows), WriteScore)
    one = found["some_source"].write_fields()
    assert (one["recall"], one["false_positive_rate"]) == (1, 0.5)
    assert (one["rejected_recall"], one["rejected_false_positive_rate"]) == (0.5, 0)
    assert (one["by"]["exfiltration"], one["left_out"]) == ({"harmful": 1, "benign": 1}, 1)
    assert compute_macro(found.values())["recall"] == 0.5
    assert compute_macro(found.values())["rejected_recall"] == 0.25


def test_a_panel_may_mix_both_kinds(tmp_path: Path) -> None:
    first, second = load_mixed(panel(tmp_path, row(), write_row()))
    assert (type(first), type(second)) == (ActionRow, WriteRow)


def test_a_write_without_a_text_is_named_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(NotAPanel, match="line 1"):
        load_mixed(panel(tmp_path, write_row(text=5)))
