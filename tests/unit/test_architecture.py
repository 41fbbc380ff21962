"""The house stands: no files or packages rest on each other in a circle, and its drawing is current."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

import pytest

from sluice.offline.architecture import (
    CORE,
    DETECTION,
    PAGE,
    find_knots,
    find_package_arrows,
    read_imports,
    sort_into_floors,
    write_page,
)

ROOT = Path(__file__).resolve().parents[2]


@cache
def imports() -> dict[str, set[str]]:
    """Of every module, those for types among them."""
    return read_imports("sluice", "sluice_topics")


@cache
def programs() -> dict[str, set[str]]:
    """With the programs that measure and attack."""
    return read_imports("sluice", "sluice_topics", "load")


def test_no_files_import_each_other_in_a_circle() -> None:
    assert find_knots({name: frozenset(found) for name, found in programs().items()}) == []


def test_no_packages_of_one_package_rest_on_each_other_in_a_circle() -> None:
    packages = {name.rpartition(".")[0] for name in programs()} - {""}
    found = {one: find_knots(find_package_arrows(programs(), one, loose=False)) for one in sorted(packages)}
    assert {name: knots for name, knots in found.items() if knots} == {}


def test_every_file_of_the_core_lies_in_a_package_of_the_staircase() -> None:
    linted = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (stairs,) = [one for one in linted["contracts"] if one.get("containers") == [CORE]]
    named = {name for step in stairs["layers"] for name in step.split(" | ")}
    assert named == find_package_arrows(imports()).keys()


def test_the_detectors_rest_on_nothing_of_the_core() -> None:
    within = {name: found for name, found in imports().items() if name.startswith(DETECTION)}
    assert within
    assert not [one for found in within.values() for one in found if one.startswith(CORE)]


def test_everything_else_knows_the_detectors_by_two_doors() -> None:
    outside = {one for name, found in imports().items() if not name.startswith(DETECTION) for one in found}
    reached = {one for one in outside if one.startswith(f"{DETECTION}.")}
    doors = {f"{DETECTION}.call_inspection", f"{DETECTION}.text_inspection"}
    assert reached - doors == {f"{DETECTION}.kept"}, "in which the process keeps what it compiled"


def test_the_drawing_is_current() -> None:
    drawn = (ROOT / PAGE).read_text(encoding="utf-8")
    assert drawn == write_page(imports()), "run `python -m sluice.offline.architecture`"


BELOW = {"p.a.x": {"p.b.y"}, "p.b.y": {"p.c"}, "p.c": set[str](), "p.a": set[str](), "p.b": set[str]()}


def test_a_package_stands_above_what_it_rests_on() -> None:
    assert sort_into_floors(find_package_arrows(BELOW, "p")) == [["loose files"], ["b"], ["a"]]


@pytest.mark.parametrize("back", ["p.a", "p.a.x"])
def test_an_arrow_back_makes_a_knot(back: str) -> None:
    tied = BELOW | {"p.b.y": {back}}
    assert find_knots(find_package_arrows(tied, "p")) == [frozenset("ab")]
