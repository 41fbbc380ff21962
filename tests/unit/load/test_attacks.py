"""Mend 22.attacks: no reference has a worker ask what only it can reach (`server_side_requests`).

Mend 22.attacks: no receiver leads a token astray or stops the notifier (`hostile_receivers`).

Mend 22.1: no answer of Slack's API ends, fills or holds up the notifier (`hostile_receivers`).

Mend 22.attacks: no tenant gets, spoils or finds out what a model answered for another (`others_answers`).

Each attack that needs no broker, in its short form: nothing gets through, and honest input passes."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest

from load.attacks.attack_list import ATTACKS
from load.attacks.known_ways import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from load.attacks.attempt import Attack


@pytest.mark.parametrize(
    "attack",
    [one for one in ATTACKS if not one.needs_broker and not one.is_tested],
    ids=lambda one: one.name,
)
def test_nothing_gets_through(attack: Attack, request: pytest.FixtureRequest) -> None:
    if attack.needs_redis:
        request.getfixturevalue("real_redis")
    attempts = list(attack.run("short"))
    assert [one for one in attempts if not one.held and not one.known_limit] == []
    assert any(not one.harmless for one in attempts), "an attack that tries nothing shows nothing"
    assert any(one.harmless for one in attempts), "a system that refuses everything would pass too"


def test_every_file_of_attacks_in_the_tests_is_an_attack_with_controls() -> None:
    files = set((ROOT / "tests").rglob("test_*_attacked.py"))
    named = [one.run.args[0] for one in ATTACKS if one.is_tested and isinstance(one.run, partial)]
    assert set(named) == files
    assert [one.name for one in files if "@pytest.mark.control" not in one.read_text(encoding="utf-8")] == []


def test_a_test_that_fails_is_an_attempt_that_got_through(tmp_path: Path) -> None:
    file = tmp_path / "test_scene_attacked.py"
    file.write_text(
        "import pytest\n"
        "def test_a_way_that_is_shut(): pass\n"
        "def test_a_way_that_is_open(): assert 1 == 2\n"
        "@pytest.mark.control\n"
        "def test_an_honest_call(): pass\n",
        encoding="utf-8",
    )
    program = (
        "import dataclasses, json, pathlib, sys\n"
        "from load.attacks.known_ways import run_tests\n"
        "tried = run_tests(pathlib.Path(sys.argv[1]), 'full')\n"
        "print(json.dumps([[one.tried, one.held, one.harmless] for one in tried]))\n"
    )
    ran = subprocess.run([sys.executable, "-c", program, file], cwd=ROOT, capture_output=True, check=True)
    assert json.loads(ran.stdout) == [
        ["a way that is shut", True, False],
        ["a way that is open", False, False],
        ["an honest call", True, True],
    ]
