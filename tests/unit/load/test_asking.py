"""The curve of asking about calls: types are chosen without the source that they are counted on."""

from __future__ import annotations

from load.ablation.asking import (
    COMMANDS_FREE,
    FILES,
    AskedShares,
    LabelledCall,
    average,
    count_shares,
    draft_entries,
    draw_curve,
    find_causes,
    judge,
    list_settings,
)
from sluice.offline.panels import load_panel

OPEN = next(path for path in FILES if path.stem == "actions" and path.parent.name == "corpus")


def make(source: str, ends: str, action_type: str, *, harmful: bool) -> list[LabelledCall]:
    """A call a letter: p passes, w waits, b is blocked."""
    names = {"p": "passes", "w": "waits", "b": "blocked"}
    return [LabelledCall(source, harmful, action_type, "T3", names[end]) for end in ends]  # type: ignore[arg-type]


CALLS = [
    *make("one", "wwww", "OTHER", harmful=False),
    *make("one", "bb", "OTHER", harmful=True),
    *make("two", "wwpp", "OTHER", harmful=False),
    *make("two", "bb", "OTHER", harmful=True),
    *make("odd", "pppp", "OTHER", harmful=False),
    *make("odd", "ww", "OTHER", harmful=True),
]


def test_each_source_counts_once_and_free_types_wait_no_more() -> None:
    assert count_shares(CALLS[:6]) == AskedShares(1.0, 1.0)
    assert count_shares(CALLS[:6], {"OTHER"}) == AskedShares(0.0, 1.0)
    assert average([AskedShares(1.0, None), AskedShares(0.0, 0.5)]) == AskedShares(0.5, 0.5)


def test_types_are_chosen_on_the_other_sources() -> None:
    (strict,) = draw_curve(CALLS, [0.8])
    assert strict.free == {"OTHER": 1}, (
        "with `odd` among the others, asking stops more; without it, it does not"
    )
    assert strict.left_out == AskedShares((1 + 0.5 + 0) / 3, (1 + 1 + 0) / 3)
    (lax,) = draw_curve(CALLS, [0.1])
    assert (lax.free, lax.left_out) == ({"OTHER": 3}, AskedShares(0.0, 2 / 3))
    assert lax.pooled == AskedShares(0.0, 4 / 6)


def test_every_waiting_call_has_a_cause_and_settings_differ() -> None:
    rows = load_panel(OPEN)
    named = {setting.name: setting for setting in list_settings()}
    shipped = judge(rows, named["as shipped"])
    waiting = sum(call.end == "waits" and not call.harmful for call in shipped)
    assert find_causes(rows, shipped, named["as shipped"].bundle).total() == waiting > 0
    assert not draft_entries(rows, named["as shipped"])
    drafted = draft_entries(rows, named["entries drafted by names"])
    assert {entry.spec["tier"] for entry in drafted} == {"T1"}
    lax = judge(rows, named[COMMANDS_FREE])
    code = [call.end for row, call in zip(rows, lax, strict=True) if "code" in row.parameters]
    assert code
    assert set(code) <= {"asked", "blocked"}
    assert not [call for call in lax if call.action_type == "CODE_EXECUTION" and call.end == "waits"]
    strict = count_shares(judge(rows, named["no tier by effect"])).honest
    shown = count_shares(shipped).honest
    assert shown is not None
    assert strict is not None
    assert shown < strict
