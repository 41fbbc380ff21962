"""What a parameter is read as, where its hits are said to be, and what stops the reading."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sluice.detection.commands.inspector import (
    LARGE_CHARS,
    PARSED_CHARS_PER_ACTION,
    PARSED_CHARS_WITH_LARGE,
    PARSED_TEXTS_WITH_LARGE,
    UNFOLDED_CHARS_WITH_LARGE,
)
from sluice.detection.commands.leaves import LEAVES
from sluice.detection.commands.library import PatternLibrary, PatternSets
from sluice.detection.disguises.scan import PARSED_CHARS, UNFOLDED_CHARS
from sluice.detection.library_model import LibraryError
from tests.unit.core.scene import BUNDLE_BYTES
from tests.unit.detection.commands.shipped import LIBRARY, inspect, is_blocked, silent

WIPE = "rm -rf /"


@pytest.mark.parametrize(
    ("tool", "parameters"),
    [
        ("anything", {"command": WIPE}),
        ("anything", {"argv": ["rm", "-r", "-f", "/"]}),
        ("anything", {"program": "rm", "args": ["-rf", "/"]}),
        ("anything", {"steps": [{"run": [{"cmd": WIPE}]}]}),
        ("bash", {"input": WIPE}),
        ("anything", {"unheard_of": WIPE}),
        ("python_interpreter", {"code": f"import os\nos.system('{WIPE}')"}),
        ("python_interpreter", {"code": "cursor.execute('DROP TABLE users')"}),
        ("anything", {"command": "psql -c 'DROP TABLE users'"}),
        ("anything", {"sql": f"EXEC xp_cmdshell '{WIPE}'"}),
        ("anything", {"command": "DROP TABLE users"}),
        ("postgres_query", {"query": "DROP TABLE users"}),
        ("anything", {"unheard_of": "DELETE FROM users;"}),
        ("read_file", {"path": "/etc/shadow"}),
        ("read_file", {"path": "/srv/../etc//shadow"}),
        ("fetch", {"url": "http://2852039166/latest/meta-data"}),
        ("send_email", {"attachments": ["/home/x/id_rsa"], "body": "hi"}),
    ],
)
def test_a_parameter_is_read_as_what_it_is(tool: str, parameters: dict[str, Any]) -> None:
    assert is_blocked(parameters, tool)


@pytest.mark.parametrize(
    ("tool", "parameters"),
    [
        ("send_message", {"message": f"never run {WIPE} or DROP TABLE users; please"}),
        ("git_commit", {"message": "stop calling rm -rf / in the installer"}),
        ("anything", {"command": f"echo '{WIPE}'"}),
        ("anything", {"command": f'git commit -m "drop {WIPE}"'}),
        ("anything", {"argv": ["echo", WIPE]}),
        ("anything", {"sql": f"SELECT '{WIPE}' AS text"}),
        ("web_search", {"query": "what does DROP TABLE do"}),
        ("anything", {"column": "drop_date", "name": "Kill Bill", "note": "shutdown -h now"}),
        ("read_file", {"path": "/home/x/id_rsa.pub"}),
        ("anything", {"n": 1, "x": None, "y": True, "z": [1.5, {}]}),
    ],
)
def test_what_only_speaks_of_harm_passes(tool: str, parameters: dict[str, Any]) -> None:
    assert silent(parameters, tool)


@pytest.mark.parametrize(
    "phrase",
    [
        "delete items", "Delete account", "DELETE", "delete all", "update profile", "update settings",
        "drop me a line", "drop off", "drop column", "drop the ball", "grant access", "grant access to bob",
        "grant permission to edit", "truncate text", "truncate string", "alter ego", "insert coin",
        "insert row", "merge cells", "copy that", "copy file", "revoke access", "create user",
        "execute order", "create account", "load data", "use case", "select all", "declare victory",
        "set reminder", "call mom",
    ],
)  # fmt: skip
def test_a_phrase_that_anybody_may_say_is_no_statement(phrase: str) -> None:
    assert silent({"type": phrase})
    assert silent({"action": {"name": [phrase]}})
    assert silent({"command": phrase})


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM items",
        "delete from items;",
        "TRUNCATE items",
        "truncate table items",
        "DELETE items WHERE 1=1",
    ],
)
def test_a_statement_is_one_in_a_plain_field_too(statement: str) -> None:
    assert is_blocked({"type": statement})


def test_a_hit_names_the_leaf_and_the_way_to_it() -> None:
    hits = inspect({"steps": [{"cmd": "ls"}, {"cmd": "mysql -e 'DROP TABLE users'"}]}).hits
    drop = next(hit for hit in hits if hit.id == "sql.drop")
    assert drop.path == "$.parameters.steps[1].cmd"
    assert "mysql" in drop.form


def test_a_target_is_offered_in_each_spelling() -> None:
    texts = inspect({"path": "%2Fsrv%2F..%2Fdata//%63ustomers", "k": {"ey": 1}}).texts
    assert {"anything", "k", "ey", "/data/customers"} <= set(texts)


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"command": "ls " + "a" * PARSED_CHARS}, "too long"),
        ({"sql": "SELECT " + "(" * 100}, "nested too deep"),
        (
            {"command": [f"ls {'a' * 900} {place}" for place in range(9)]},
            f"{PARSED_CHARS_PER_ACTION} characters",
        ),
        (
            {"body": "a " * LARGE_CHARS, "command": "ls " + "a" * PARSED_CHARS_WITH_LARGE},
            f"{PARSED_CHARS_WITH_LARGE} characters",
        ),
        (
            {"body": "a " * LARGE_CHARS, "command": ["ls -l"] * (PARSED_TEXTS_WITH_LARGE + 1)},
            "to parse",
        ),
        (
            {"body": "a " * LARGE_CHARS, "data": "a%20b " * (UNFOLDED_CHARS // 6)},
            f"{UNFOLDED_CHARS_WITH_LARGE} characters of disguises",
        ),
        ({"data": [f"a%20b {place} " * 100 for place in range(9)]}, f"{UNFOLDED_CHARS} characters of"),
        ({"names": ["a b"] * (LEAVES + 1)}, f"more than {LEAVES} texts"),
        ({"data": "it's " * PARSED_CHARS}, "too long"),
    ],
)
def test_past_a_bound_the_reading_is_inconclusive(parameters: dict[str, Any], reason: str) -> None:
    assert reason in (inspect(parameters).inconclusive or "")


def test_beside_a_large_text_a_short_command_is_still_read() -> None:
    large = "a " * LARGE_CHARS
    assert silent({"body": large, "command": "ls -la /srv"})
    assert is_blocked({"body": large, "command": WIPE})


def test_of_more_texts_than_the_bound_none_is_read_but_each_may_name_a_target() -> None:
    found = inspect({"names": [WIPE, *("a" for _ in range(LEAVES)), "customers"]})
    assert not found.hits
    assert "customers" in found.texts


def test_a_hit_far_down_has_the_way_to_it() -> None:
    hits = inspect({"a": {"b": {"c": [0, {"d": {"cmd": WIPE}}]}, "x": 1}}).hits
    assert hits[0].path == "$.parameters.a.b.c[1].d.cmd"


def test_a_tell_in_one_portion_of_the_leaves_leaves_none_of_another_out() -> None:
    values = [f"word {place}" for place in range(200)]
    for place in (0, 31, 32, 33, 150, 199):
        parameters = {"values": [*values[:place], "1' OR '1'='1", *values[place:]]}
        assert {hit.path for hit in inspect(parameters).hits} == {f"$.parameters.values[{place}]"}


def test_a_long_text_that_nothing_can_hide_in_is_no_doubt() -> None:
    assert silent({"body": "it's fine; " * 6000})
    assert silent({"blob": "QUJD" * 16000})


def test_past_a_bound_the_linear_scan_still_judges() -> None:
    found = inspect({"command": "vssadmin delete shadows /all & rem " + "a" * PARSED_CHARS})
    assert found.inconclusive is not None
    assert "windows.shadow_copies" in {hit.id for hit in found.hits}


def test_the_same_parameters_always_give_the_same() -> None:
    parameters = {"a": ["x' OR 1=1--", WIPE], "b": {"sql": "DROP TABLE t"}}
    assert LIBRARY.inspect("t", "OTHER", parameters) == LIBRARY.inspect("t", "OTHER", parameters)


def test_an_empty_library_finds_nothing() -> None:
    assert PatternLibrary(PatternSets()).inspect("t", "OTHER", {"command": WIPE}).hits == ()


TEXT = {"id": "a", "reason": "r", "severity": "warn", "source": "s", "pattern": "(", "languages": ["shell"]}
SQL = {"id": "a", "reason": "r", "severity": "warn", "source": "s", "phrase": "("}
VALUE = {"id": "a", "reason": "r", "severity": "warn", "source": "s", "skeleton": "("}


@pytest.mark.parametrize(
    ("sets", "path"),
    [
        ({"text": [TEXT]}, "$.patterns.text[0].pattern"),
        ({"sql": [SQL]}, "$.patterns.sql[0].phrase"),
        ({"injection": [VALUE]}, "$.patterns.injection[0].skeleton"),
    ],
)
def test_an_expression_that_does_not_compile_is_refused_with_its_path(
    sets: dict[str, Any], path: str
) -> None:
    with pytest.raises(LibraryError) as refused:
        PatternLibrary(PatternSets.model_validate(sets))
    assert str(refused.value).startswith(path)


def test_two_patterns_with_the_same_id_are_refused() -> None:
    with pytest.raises(ValueError, match="two patterns have the same id: a"):
        PatternSets.model_validate({"sql": [SQL], "injection": [VALUE]})


def test_a_sql_pattern_that_asks_for_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="needs verbs, functions or a phrase"):
        PatternSets.model_validate(
            {"sql": [{key: SQL[key] for key in ("id", "reason", "severity", "source")}]}
        )


def test_every_shipped_pattern_names_its_source() -> None:
    sets = PatternSets.model_validate(json.loads(BUNDLE_BYTES)["patterns"])
    everything = (*sets.text, *sets.commands, *sets.sql, *sets.injection, *sets.targets)
    assert len(everything) > 100
    assert all(one.source and one.reason for one in everything)


def test_texts_within_bounds_each_may_be_too_much_together() -> None:
    costly = "if a; then b && c || { d; }; fi\n(( 1+2 )); [[ $a == b ]]\n" * 5
    few = {f"cmd_{place}": costly for place in range(3)}
    many = {f"cmd_{place}": costly for place in range(9)}
    assert LIBRARY.inspect("bash", "CODE_EXECUTION", few).inconclusive is None
    assert (
        LIBRARY.inspect("bash", "CODE_EXECUTION", many).inconclusive
        == "a shell text is too much work to parse"
    )
