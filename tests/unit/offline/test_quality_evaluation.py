"""Retrieved items of a panel, judged under the tables of their rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sluice.offline.panels import NotAPanel, RetrievalRow, load_mixed
from sluice.offline.quality_evaluation import UNREADABLE, judge_retrievals
from tests.unit.core.retrieval.quality_scene import quality_bundle
from tests.unit.offline.panel_rows import panel, row, write_row

if TYPE_CHECKING:
    from sluice.offline.quality_evaluation import JudgedRetrieval

VECTORS = Path(__file__).parents[1] / "core" / "data" / "c18_quality.jsonl"
TABLES = {"ttl_by_class": {"note": 60}, "min_confidence_by_class": {"note": 0.5}}
SOUND = {"content_class": "note", "freshness_age_seconds": 1, "confidence_score": 1}


def retrieval(label: str = "pass", item: Any = SOUND, **given: Any) -> dict[str, Any]:
    """A row; `quality_bundle` and `autonomy_tier` may be given."""
    return {
        "id": "r1",
        "kind": "retrieval",
        "label": label,
        "source": "a/b@c:d",
        "input": {"item": item, "quality_bundle": TABLES, "autonomy_tier": "bounded", **given},
    }


def judge(folder: Path, *rows: dict[str, Any]) -> list[JudgedRetrieval]:
    read = load_mixed(panel(folder, *rows))
    return list(judge_retrievals([one for one in read if isinstance(one, RetrievalRow)], quality_bundle()))


def test_every_row_of_the_published_vectors_agrees() -> None:
    rows = [one for one in load_mixed(VECTORS) if isinstance(one, RetrievalRow)]
    found = list(judge_retrievals(rows, quality_bundle()))
    assert [one.agrees for one in found] == [True] * 7


def test_rows_of_all_kinds_stand_in_one_panel(tmp_path: Path) -> None:
    kinds = [type(one).__name__ for one in load_mixed(panel(tmp_path, row(), write_row(), retrieval()))]
    assert kinds == ["ActionRow", "WriteRow", "RetrievalRow"]


def test_a_class_without_an_entry_in_a_table_passes_what_the_table_is_for(tmp_path: Path) -> None:
    gaps: dict[str, Any] = {"action_matrix": {"bounded": {"note": {}}}}
    (found,) = judge(tmp_path, retrieval(item={"content_class": "note"}, quality_bundle=gaps))
    assert (found.outcome, found.flags) == ("pass", ())


def test_a_reference_that_is_not_needed_must_verify_all_the_same(tmp_path: Path) -> None:
    wrong = {**SOUND, "provenance_uri": "https://example.com/source", "provenance_hash_verified": False}
    free = {**TABLES, "provenance_required_by_class": {"note": False}}
    found = judge(tmp_path, retrieval(item=wrong, quality_bundle=free), retrieval(quality_bundle=free))
    assert [one.outcome for one in found] == ["flag", "pass"]
    assert found[0].flags == ("provenance_unverified",)


def test_a_tier_that_the_tables_do_not_know_takes_what_is_said_of_no_tier(tmp_path: Path) -> None:
    stale = {**SOUND, "freshness_age_seconds": 61}
    default = {**TABLES, "default_by_class": {"note": "downgrade"}}
    found = judge(
        tmp_path,
        retrieval(item=stale, autonomy_tier="root"),
        retrieval(item=stale, autonomy_tier="root", quality_bundle=default),
        retrieval(item=stale, autonomy_tier=None),
    )
    assert [one.outcome for one in found] == ["flag", "downgrade", "deny"]


def test_a_row_without_tables_is_judged_under_the_bundle_that_ships_and_contradicts_nothing(
    tmp_path: Path,
) -> None:
    item = {**SOUND, "provenance_uri": "https://example.com/source", "provenance_hash_verified": True}
    found = judge(tmp_path, *(retrieval(label, item, quality_bundle=None) for label in ("pass", "deny")))
    assert [(one.outcome, one.agrees, one.contradicts) for one in found] == [
        ("pass", True, False),
        ("pass", False, False),
    ]


@pytest.mark.parametrize(
    ("label", "agrees"),
    [("flag", True), ("flag:stale", True), ("flag:low_confidence", False), ("deny", False), ("stale", False)],
)
def test_a_label_is_the_outcome_or_a_flag(tmp_path: Path, label: str, agrees: bool) -> None:
    (found,) = judge(tmp_path, retrieval(label, {**SOUND, "freshness_age_seconds": 61}))
    assert found.agrees is agrees
    assert found.contradicts is not agrees


@pytest.mark.parametrize(
    "tables",
    [
        {"ttl_by_class": {"note": "60"}},
        {"action_matrix": {"bounded": {"note": {"freshness": "block"}}}},
        {"provenance_required_by_class": []},
    ],
)
def test_tables_that_are_none_are_said_and_agree_with_no_label(
    tmp_path: Path, tables: dict[str, Any]
) -> None:
    (found,) = judge(tmp_path, retrieval(quality_bundle=tables))
    assert (found.outcome, found.contradicts) == (UNREADABLE, True)
    assert str(found.reason).startswith("$.input.quality_bundle.")


@pytest.mark.parametrize("given", [{"item": 5}, {"quality_bundle": "none"}])
def test_a_row_that_is_none_is_refused(tmp_path: Path, given: dict[str, Any]) -> None:
    with pytest.raises(NotAPanel, match="line 1"):
        load_mixed(panel(tmp_path, retrieval(**given)))
