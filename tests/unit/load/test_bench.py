"""The benchmarks measure what they say: salted rows mean the same, inputs repeat, the yardstick agrees."""

from __future__ import annotations

import json
from itertools import islice

import pytest

from load.bench.fixtures import bench_policy, yardsticks
from load.bench.fixtures.action_events import action, add_salt, make_contexts, panel
from load.bench.fixtures.yardsticks import sort_by_kind, texts_of
from load.bench.gates.gate1 import BYTES, COUNT, LONGEST, Wide, fuzz, rules, wide
from load.bench.measurement import markdown_tables, none, require_at_least, require_at_most
from sluice.core.actions.rules import Rules


def test_a_salted_action_is_of_its_kind_and_no_text_of_it_is_as_it_was() -> None:
    parameters = {"query": "SELECT 1", "note": ["a", "b"], "deep": {"command": "ls -l"}, "count": 3}
    assert add_salt("sql", parameters, "q7") == {
        "query": "SELECT 1 /* q7 */",
        "note": ["a", "b q7"],
        "deep": {"command": "ls -l\n# q7"},
        "count": 3,
    }


def test_an_action_without_a_text_is_salted_with_one_of_its_own() -> None:
    assert add_salt("sum", {"a": 1}, "q7") == {"a": 1, "reference": "q7"}


def test_two_events_of_one_row_share_no_id_and_no_text() -> None:
    row = panel()[0]
    first, second = (action(row, 1, "s") for _ in range(2))
    assert first["action_id"] != second["action_id"]
    assert not set(first["parameters"].values()) & set(second["parameters"].values())


def test_the_panel_has_rows_of_every_kind_and_only_those_with_sql_or_shell_have_texts_to_parse() -> None:
    kinds = sort_by_kind(panel())
    assert {"plain", "sql", "shell"} == kinds.keys()
    for kind, rows in kinds.items():
        assert all(bool(texts_of(row.tool, kind, row.parameters)) == (kind != "plain") for row in rows)


def test_fuzzed_inputs_are_the_same_every_time_and_within_64_kb() -> None:
    first, second = (list(islice(fuzz(300), 300)) for _ in range(2))
    assert first == second
    texts = [str(next(iter(one.parameters.values()))) for one in first]
    assert max(map(len, texts)) == LONGEST
    assert len(set(texts)) > 250


@pytest.mark.parametrize("one", list(wide(3)), ids=lambda one: one.shape)
def test_each_wide_shape_is_ascii_of_about_64_kb(one: Wide) -> None:
    written = json.dumps(one.parameters)
    assert written.isascii()
    assert 0.9 * BYTES < len(written) < 1.7 * BYTES


def test_the_bare_rules_hold_where_the_stage_says_that_they_passed() -> None:
    parts = bench_policy.parts()
    bare = yardsticks.BareRules(json.loads(bench_policy.RULES.read_bytes()))
    for context in make_contexts(parts, 60):
        result = Rules().evaluate(context)
        applied = [entry for entry in result.rules if entry.get("applies", True)]
        forbidden = {
            rule["id"] for rule in json.loads(bench_policy.RULES.read_bytes()) if rule["type"] == "forbidden"
        }
        expected = [entry["passed"] is not (entry["rule"] in forbidden) for entry in applied]
        assert bare.evaluate(bare.values(context.action)) == expected


def test_two_hundred_rules_compile_and_none_is_inconclusive_on_the_panel() -> None:
    many = rules()
    assert len(many) == COUNT
    parts = bench_policy.parts(many)
    for context in make_contexts(parts, 10):
        assert Rules().evaluate(context).outcome == "pass"


def test_a_figure_is_the_median_of_its_rounds_and_holds_by_it() -> None:
    assert require_at_least("rate", [3, 1, 2], 2).holds
    assert not require_at_most("time", [3, 1, 2], 1.5).holds
    assert not none("lost", [0, 0, 1], "events").holds


def test_the_tables_of_the_docs_show_every_round_and_what_was_missed() -> None:
    figure = {"part": "x", "name": "rate", "value": 1234.5, "unit": "/s", "rounds": [1234.5, 0.123456]}
    missed = {**figure, "goal": ">= 2000", "holds": False}
    assert "| rate | 1 234 /s (1 234, 0.123) | >= 2000 **missed** |" in markdown_tables([missed])
