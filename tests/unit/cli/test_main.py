"""The command itself (Mend 14 and 16): its list of verbs is quick and true, and it tells its version."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from sluice.cli.main import VERBS, cli, load_verb

if TYPE_CHECKING:
    from collections.abc import Iterator

RUNNER = CliRunner()
HEAVY = (
    "pydantic",
    "aiokafka",
    "faust",
    "re2",
    "sqlglot",
    "sluice.core.policy.bundles",
    "sluice.settings",
    "topics",
)


def test_the_list_of_verbs_imports_none_of_them() -> None:
    program = (
        "import sys\nfrom typer.testing import CliRunner\nfrom sluice.cli.main import cli\n"
        "assert CliRunner().invoke(cli, ['--help']).exit_code == 0\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_is_listed_with_the_beginning_of_its_own_help(name: str) -> None:
    shown = RUNNER.invoke(cli, [name, "--help"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0, shown.output
    assert " ".join(VERBS[name].says.split()) in " ".join(shown.output.split())


def commands(of: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each command below one, with the words that run it."""
    yield path, of
    for name in of.list_commands(None) if hasattr(of, "list_commands") else ():
        yield from commands(of.get_command(None, name), (*path, name))


@pytest.mark.parametrize("name", VERBS)
def test_help_shows_every_word_that_it_is_written_with(name: str) -> None:
    """Rich takes a word in square brackets for markup, and leaves it out."""
    for path, one in commands(load_verb(name), (name,)):
        shown = RUNNER.invoke(cli, [*path, "--help"], env={"COLUMNS": "400"}).output
        written = [one.help or "", *(param.help or "" for param in one.params if hasattr(param, "help"))]
        missing = [word for text in written for word in text.split() if word.strip("`") not in shown]
        assert missing == [], path


def test_every_verb_is_in_the_help() -> None:
    shown = RUNNER.invoke(cli, ["--help"], env={"COLUMNS": "100"}).output
    assert [name for name in VERBS if name not in shown] == []


def test_a_mistyped_verb_is_answered_with_the_one_that_was_meant() -> None:
    ran = RUNNER.invoke(cli, ["wtch"])
    assert ran.exit_code == 2
    assert "'watch'" in ran.output


def test_it_tells_its_version() -> None:
    ran = RUNNER.invoke(cli, ["--version"])
    assert (ran.exit_code, ran.output.strip()) == (0, f"sluice {version('sluice')}")


def test_a_broker_that_does_not_answer_is_told_in_one_line() -> None:
    """Mend 22.24: a line of the Kafka client's stood before the command's own, and said less."""
    nobody = {"SLUICE_KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:9"}
    words = [sys.executable, "-m", "sluice", "topics", "check"]
    ran = subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, **nobody})
    assert ran.returncode == 2
    (line,) = ran.stderr.splitlines()
    assert line.startswith("sluice: the broker does not answer: ")
    assert line.endswith("`sluice broker start` starts one.")
