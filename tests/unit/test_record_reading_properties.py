"""What holds for every text: nothing raises, nothing is lost, every doubled key is seen."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sluice_topics.json_text import measure_depth, parse, write_json_path
from sluice_topics.record_reading import Unreadable, read
from sluice_topics.records import ActionOutcome, ProposedAction, ReviewDecision, Verdict
from tests.unit.records import action, value

KEYS = st.text(max_size=8)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=-(10**999) + 1, max_value=10**999 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
TREES = st.recursive(
    LEAVES,
    lambda below: st.lists(below, max_size=5) | st.dictionaries(KEYS, below, max_size=5),
    max_leaves=30,
)


def identical(left: Any, right: Any) -> bool:
    """Equal, and of the same types all the way down (1 is not 1.0, nor True)."""
    return repr(left) == repr(right)


@given(TREES, st.booleans())
def test_every_tree_comes_back_as_it_was(tree: Any, ascii_only: bool) -> None:
    assert identical(parse(json.dumps(tree, ensure_ascii=ascii_only).encode()), tree)


@given(st.dictionaries(KEYS, TREES, max_size=4))
def test_parameters_reach_the_record_as_they_were_sent(parameters: dict[str, Any]) -> None:
    record = read(ProposedAction, value(action(parameters=parameters)))
    assert isinstance(record, ProposedAction)
    assert identical(record.parameters, parameters)


@given(st.binary(max_size=200))
def test_no_bytes_make_the_reader_raise(raw: bytes) -> None:
    for model in (ProposedAction, ActionOutcome, ReviewDecision, Verdict):
        assert isinstance(read(model, raw), Unreadable)


@given(st.text(alphabet='{}[]:,"\\ud8019eE+-. \nnulltrfas', max_size=60))
def test_no_text_made_of_jsons_own_signs_makes_the_reader_raise(text: str) -> None:
    result = parse(text.encode())
    assert isinstance(result, Unreadable) or identical(result, json.loads(text))


@given(st.text(alphabet='[]{}"\\a,', max_size=40))
def test_a_text_nests_as_deep_as_its_signs_one_by_one_say(text: str) -> None:
    depths, in_string, escaped = [0], False, False
    for sign in text:
        if in_string:
            in_string = escaped or sign != '"'
            escaped = sign == "\\" and not escaped
        else:
            in_string = sign == '"'
            depths.append(depths[-1] + (sign in "[{") - (sign in "]}"))
    assert max(measure_depth(text.encode()), 0) == max(depths)


@given(st.data())
def test_a_damaged_action_is_read_rightly_or_refused(data: st.DataObject) -> None:
    raw = value(action())
    at = data.draw(st.integers(0, len(raw) - 1))
    damaged = raw[:at] + data.draw(st.binary(max_size=3)) + raw[at + data.draw(st.integers(0, 3)) :]
    result = read(ProposedAction, damaged)
    if isinstance(result, ProposedAction):
        assert json.loads(damaged).items() >= {"agent_id": result.agent_id, "mode": result.mode}.items()


@given(
    st.lists(KEYS | st.integers(0, 3), max_size=30),
    KEYS,
    st.lists(KEYS, unique=True, max_size=4),
    st.booleans(),
)
def test_a_doubled_key_is_found_at_any_depth(
    steps: list[str | int], key: str, others: list[str], escaped: bool
) -> None:
    again = (
        '"' + "".join(f"\\u{ord(sign):04x}" for sign in key) + '"'
        if escaped and key.isascii()
        else json.dumps(key)
    )
    others = [other for other in others if other != key]
    middle = "".join(f", {json.dumps(other)}: {{}}" for other in others)
    text = f"{{{json.dumps(key)}: 1{middle}, {again}: 1}}"
    for step in reversed(steps):
        text = f"[{'0, ' * step}{text}]" if isinstance(step, int) else f"{{{json.dumps(step)}: {text}}}"
    result = parse(text.encode())
    assert isinstance(result, Unreadable)
    assert (result.code, result.path) == ("duplicate_key", write_json_path([*steps, key]))


@given(
    st.lists(KEYS | st.integers(0, 3), max_size=30),
    st.sampled_from(["nul", "01", "NaN", '"\\ud800"', "1e999"]),
)
def test_a_flaw_is_found_at_any_depth(steps: list[str | int], flaw: str) -> None:
    text = flaw
    for step in reversed(steps):
        text = f"[{'0, ' * step}{text}]" if isinstance(step, int) else f"{{{json.dumps(step)}: {text}}}"
    result = parse(text.encode())
    assert isinstance(result, Unreadable)
    assert result.path == write_json_path(steps)
