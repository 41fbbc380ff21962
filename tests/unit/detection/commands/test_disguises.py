# ruff: noqa: RUF001 - look-alikes are what is tested
"""A statement that is caught stays caught, however it is dressed; a harmless one in the same dress passes."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.detection.commands.shipped import inspect, is_blocked

if TYPE_CHECKING:
    from collections.abc import Callable

SQL = ["DROP TABLE users", "TRUNCATE TABLE logs", "DELETE FROM users WHERE 1=1", "DROP DATABASE prod"]
SAFE_SQL = ["SELECT id FROM users", "SELECT drop_date FROM trucks", "DELETE FROM users WHERE id = 4"]
COMMANDS = ["rm -rf /", "mkfs.ext4 /dev/sda1", "dd if=/dev/zero of=/dev/sda", "chmod -R 777 /"]
SAFE_COMMANDS = ["ls -la /srv", "git status", "docker ps", "grep -rn remove src"]
VALUES = ["1' OR '1'='1", "1 UNION SELECT user, password FROM users", "1; DROP TABLE users"]
SAFE_VALUES = ["O'Brien and sons", "union square hotels", "10 or 12 drops"]

_ALIKE = {
    "a": "а",
    "e": "е",
    "o": "о",
    "c": "с",
    "p": "р",
    "x": "х",
    "m": "ｍ",
    "r": "ｒ",
    "f": "ｆ",
    "-": "－",
}
_SMALL = settings(max_examples=60, deadline=None)


def space(words: str) -> str:
    return words.replace(" ", "/**/")


SQL_DRESS: dict[str, Callable[[str], str]] = {
    "lower case": str.lower,
    "blanks": lambda sql: sql.replace(" ", " \n\t "),
    "comments": space,
    "executable comment": lambda sql: f"/*!50000 {sql} */",
    "line comment before": lambda sql: f"-- tidy up\n{sql}",
    "after another": lambda sql: f"SELECT 1; {sql};",
    "in a block": lambda sql: f"BEGIN; {sql}; COMMIT",
    "executed as a string": lambda sql: f"EXEC('{sql}')",
    "prepared": lambda sql: f"PREPARE s FROM '{sql}'; EXECUTE s",
    "anonymous block": lambda sql: f"DO $$ BEGIN EXECUTE '{sql}'; END $$",
    "in hexadecimal": lambda sql: f"DECLARE @s VARCHAR(99) = 0x{sql.encode().hex()}; EXEC(@s)",
    "full width": lambda sql: "".join(chr(ord(one) + 0xFEE0) if one.isalpha() else one for one in sql),
}
COMMAND_DRESS: dict[str, Callable[[str], str]] = {
    "sudo": lambda line: f"sudo -u root {line}",
    "env": lambda line: f"env A=1 nohup {line}",
    "sh -c": lambda line: f"sh -c '{line}'",
    "two shells": lambda line: f"bash -c \"sh -c '{line}'\"",
    "xargs": lambda line: f"echo x | xargs -I{{}} {line}",
    "after another": lambda line: f"cd /tmp && {line}; true",
    "quoted program": lambda line: f"'{line[:1]}'{line[1:]}",
    "backslash": lambda line: line[:1] + "\\" + line[1:],
    "variable": lambda line: f"c={line.split()[0]}; $c {line.partition(' ')[2]}",
    "IFS": lambda line: line.replace(" ", "${IFS}"),
    "here-document": lambda line: f"bash <<END\n{line}\nEND",
    "here-string": lambda line: f"bash <<< '{line}'",
    "piped into a shell": lambda line: f"echo '{line}' | sh",
    "base64 into a shell": lambda line: f"echo {base64.b64encode(line.encode()).decode()} | base64 -d | bash",
    "evaluated": lambda line: f'eval "{line}"',
    "substituted": lambda line: f"echo $({line})",
    "from Python": lambda line: f"python3 -c \"import os; os.system('{line}')\"",
}
ENCODINGS: dict[str, Callable[[str], str]] = {
    "url": lambda text: quote(text, safe=""),
    "url twice": lambda text: quote(quote(text, safe=""), safe=""),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "hexadecimal": lambda text: text.encode().hex(),
    "backslash escapes": lambda text: "".join(f"\\x{byte:02x}" for byte in text.encode()),
}


def nest(value: str, depth: int, key: str) -> dict[str, Any]:
    inside: Any = {key: value}
    for level in range(depth):
        inside = {"list": [0, inside]} if level % 2 else {"object": inside}
    return {"parameters": inside}


@pytest.mark.parametrize("dress", SQL_DRESS)
def test_sql_stays_caught_in_each_dress(dress: str) -> None:
    for sql in SQL:
        assert is_blocked({"sql": SQL_DRESS[dress](sql)}), sql
    for sql in SAFE_SQL:
        assert not is_blocked({"sql": SQL_DRESS[dress](sql)}), sql


@pytest.mark.parametrize("dress", COMMAND_DRESS)
def test_a_command_stays_caught_in_each_dress(dress: str) -> None:
    for line in COMMANDS:
        assert is_blocked({"command": COMMAND_DRESS[dress](line)}), line
    for line in SAFE_COMMANDS:
        assert not is_blocked({"command": COMMAND_DRESS[dress](line)}), line


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_what_is_caught_stays_caught_when_it_is_encoded(encoding: str) -> None:
    for key, bad, good in (
        ("sql", SQL, SAFE_SQL),
        ("command", COMMANDS, SAFE_COMMANDS),
        ("id", VALUES, SAFE_VALUES),
    ):
        for text in bad:
            assert is_blocked({key: ENCODINGS[encoding](text)}), text
        for text in good:
            assert not is_blocked({key: ENCODINGS[encoding](text)}), text


@pytest.mark.parametrize(
    "client", ["psql -c", "mysql -e", "sqlite3 app.db", "sudo -u postgres psql -d prod -c"]
)
def test_sql_inside_a_shell_is_caught(client: str) -> None:
    for sql in SQL:
        assert is_blocked({"command": f'{client} "{sql}"'}), sql
        assert is_blocked({"command": f"sh -c '{client} \"{sql}\"'"}), sql
    for sql in SAFE_SQL:
        assert not is_blocked({"command": f'{client} "{sql}"'}), sql


@pytest.mark.parametrize("client", ["mysql prod", "psql", "sqlite3 app.db"])
def test_sql_piped_into_a_client_is_caught(client: str) -> None:
    for sql in SQL:
        assert is_blocked({"command": f'echo "{sql}" | {client}'}), sql
        assert is_blocked({"command": f"{client} <<END\n{sql};\nEND"}), sql


@pytest.mark.parametrize(
    "call", ["EXEC xp_cmdshell '{}'", "COPY t FROM PROGRAM '{}'", "SELECT sys_exec('{}')"]
)
def test_a_shell_inside_sql_is_caught(call: str) -> None:
    for line in COMMANDS:
        assert is_blocked({"sql": call.format(line)})
        assert is_blocked({"command": f'psql -c "{call.format(line)}"'})


@_SMALL
@given(st.sampled_from(SQL), st.lists(st.booleans(), min_size=30, max_size=30))
def test_the_case_of_letters_does_not_matter(sql: str, upper: list[bool]) -> None:
    mixed = "".join(one.upper() if up else one.lower() for one, up in zip(sql, upper, strict=False))
    assert is_blocked({"sql": mixed + sql[len(mixed) :]})


@_SMALL
@given(st.sampled_from(COMMANDS + SQL), st.data())
def test_look_alike_letters_do_not_matter(text: str, data: st.DataObject) -> None:
    swapped = "".join(_ALIKE[one] if one in _ALIKE and data.draw(st.booleans()) else one for one in text)
    assert is_blocked({"sql" if text in SQL else "command": swapped})


@_SMALL
@given(st.sampled_from(COMMANDS + SQL), st.data())
def test_invisible_characters_do_not_matter(text: str, data: st.DataObject) -> None:
    hidden = st.sampled_from(["", "\u200b", "\u2060", "\ufeff", "\u00ad", "\u202e"])
    seeded = "".join(one + data.draw(hidden) for one in text)
    assert is_blocked({"sql" if text in SQL else "command": seeded})


@_SMALL
@given(st.sampled_from(COMMANDS), st.lists(st.sampled_from(sorted(COMMAND_DRESS)), min_size=2, max_size=2))
def test_dresses_do_not_hide_each_other(line: str, dresses: list[str]) -> None:
    plain = {"sudo", "env", "after another"}
    for dress in (dresses[0] if dresses[0] in plain else "sudo", dresses[1]):
        line = COMMAND_DRESS[dress](line)
    assert is_blocked({"command": line}), line


@_SMALL
@given(st.sampled_from(VALUES), st.integers(0, 30))
def test_the_depth_of_the_parameters_does_not_matter(value: str, depth: int) -> None:
    assert is_blocked(nest(value, depth, "id"))
    assert is_blocked(nest(SQL[0], depth, "sql"))
    assert is_blocked(nest(COMMANDS[0], depth, "command"))


@_SMALL
@given(st.sampled_from(SAFE_VALUES), st.integers(0, 30))
def test_a_harmless_value_passes_at_any_depth(value: str, depth: int) -> None:
    assert not is_blocked(nest(value, depth, "id"))


@settings(max_examples=150, deadline=None)
@given(
    st.recursive(st.text(max_size=80) | st.integers() | st.none(), lambda inner: st.lists(inner, max_size=4))
)
def test_nothing_that_json_can_hold_breaks_the_reading(value: Any) -> None:
    for key in ("command", "sql", "code", "id", "body"):
        inspect({key: value})


@pytest.mark.parametrize("decoys", [7, 15, 16, 22, 40])
def test_no_number_of_decoys_lets_a_disguised_command_pass(decoys: int) -> None:
    """It is found, or too much is disguised to tell, which asks a person."""
    others = [_encode_base64(f"cd /srv/app/{number:04}") for number in range(decoys)]
    text = " ".join([*others, _encode_base64(COMMANDS[0])])
    found = inspect({"command": text}, "run_command")
    assert found.hits or found.inconclusive == "the text unfolds to more forms than are read"


def _encode_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
