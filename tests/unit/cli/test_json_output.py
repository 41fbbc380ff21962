"""Mend 10: no JSON that a verb prints moves a terminal's cursor or turns its text round."""

from __future__ import annotations

import ast
import inspect
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer import Context
from typer.testing import CliRunner

import sluice_demo
from sluice.cli import output
from sluice.cli.main import cli, load_verb
from sluice.verifier.__main__ import write_json_line
from tests.unit.cli.machine.test_decide_memories import decide, folder
from tests.unit.core.rerun.reruns import memory_write

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["folder"]
FOLDER = Path(output.__file__).parent
DEMO = Path(sluice_demo.__file__).parent
"""Of the one verb that is not in FOLDER."""
FOOLING = (
    *map(chr, range(0x7F, 0xA0)),
    *"\u061c\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e",
    *"\u2060\u2066\u2067\u2068\u2069\ufeff\ufff9\U000e0001\x1b\x08\r",
)
TEXTS = st.text(max_size=20)
PRINTERS = {"echo", "secho", "print", "write", "writelines"}
WRITERS = {"dumps", "dump_json", "model_dump_json"}


@pytest.mark.parametrize("sign", FOOLING, ids=lambda sign: f"U+{ord(sign):04X}")
def test_a_sign_that_fools_a_terminal_is_escaped_and_read_back(sign: str) -> None:
    printed = _print_text({f"key{sign}": [f"a{sign}b"]})
    assert sign not in printed.rstrip("\n")
    assert json.loads(printed) == {f"key{sign}": [f"a{sign}b"]}


@given(
    st.recursive(
        TEXTS | st.integers() | st.none(),
        lambda of: st.lists(of, max_size=5) | st.dictionaries(TEXTS, of, max_size=5),
        max_leaves=20,
    )
)
def test_whatever_is_printed_is_printable_ascii_on_one_line(value: Any) -> None:
    printed = _print_text(value)
    assert printed.endswith("\n")
    assert printed.isascii()
    assert printed[:-1].isprintable()
    assert json.loads(printed) == value


def _print_text(value: Any) -> str:
    command = typer.Typer()
    command.command()(lambda: output.print_json(value))
    return CliRunner().invoke(command).stdout


def _verbs(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    below = getattr(command, "commands", None)
    if below is None:
        yield name, command
    else:
        for one, each in below.items():
            yield from _verbs(each, f"{name} {one}")


SLUICE: Any = typer.main.get_command(cli)
NAMES = SLUICE.list_commands(Context(SLUICE))
VERBS = dict(found for name in NAMES for found in _verbs(load_verb(name), f"sluice {name}"))
WITH_JSON = [
    name for name, verb in VERBS.items() if any("--json" in parameter.opts for parameter in verb.params)
]


def test_the_verbs_are_found() -> None:
    assert {"sluice decide", "sluice watch", "sluice ledger verify", "sluice broker status"} <= {*WITH_JSON}


@pytest.mark.parametrize("name", WITH_JSON)
def test_every_verb_that_prints_json_prints_it_by_the_one_function(name: str) -> None:
    callback = VERBS[name].callback
    assert callback is not None
    source = Path(inspect.getfile(inspect.unwrap(callback)))
    assert {FOLDER, DEMO} & {*source.parents}
    text = source.read_text(encoding="utf-8")
    named = re.findall(r"^from sluice\.cli\.([\w.]+) import", text, re.MULTILINE)
    beside = [FOLDER / f"{one.replace('.', '/')}.py" for one in named]
    handed_on = [
        one.read_text(encoding="utf-8") for one in beside if one.is_file() and one != FOLDER / "output.py"
    ]
    assert any("print_json(" in one for one in (text, *handed_on))


@pytest.mark.parametrize(
    "source", sorted((*FOLDER.rglob("*.py"), *DEMO.rglob("*.py"))), ids=lambda one: one.stem
)
def test_nothing_else_prints_what_was_written_as_json(source: Path) -> None:
    if source.name == "output.py":
        return
    tree = ast.parse(source.read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    printing = [one for one in calls if _call(one) in PRINTERS and not _is_file(one)]
    for one in printing:
        inside = [node for part in one.args for node in ast.walk(part) if isinstance(node, ast.Call)]
        assert not [node for node in inside if _call(node) in WRITERS], f"{source.name}:{one.lineno}"


def _call(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _is_file(call: ast.Call) -> bool:
    """`file.write(…)`, of a file that was opened here."""
    return isinstance(call.func, ast.Attribute) and getattr(call.func.value, "id", "") == "file"


def test_decide_shows_no_control_of_a_strangers(folder: Path) -> None:
    hostile = "w\u202e\u009b31m\x7f\u2028"
    found = decide(folder, [memory_write(write_id=hostile, content="all is well")])
    assert found.stdout.isascii()
    assert found.stdout.replace("\n", "").isprintable()
    assert json.loads(found.stdout.splitlines()[0])["write_id"] == hostile


def test_the_verifier_that_is_copied_out_escapes_as_well() -> None:
    told = write_json_line({"message": "\x7f\u202e"})
    assert json.loads(told) == {"message": "\x7f\u202e"}
    assert told.isascii()
    assert told.isprintable()
