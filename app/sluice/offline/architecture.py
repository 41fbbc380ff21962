"""Draws which package of the core and of the detectors rests on which, out of the imports: `python -m
sluice.offline.architecture`.

It writes docs/architecture.md. grimp, which import-linter brings, reads the imports, those for types among
them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import grimp

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Arrows = Mapping[str, frozenset[str]]

CORE, DETECTION = "sluice.core", "sluice.detection"
LOOSE = "loose files"
PAGE = Path("docs", "architecture.md")
TITLE = """# Packages of the core

*For developers. `python -m sluice.offline.architecture` writes this page from the imports, including those
for types.*

[architecture_before.md](architecture_before.md) shows the tree before its files were sorted into packages.
import-linter checks today's order.
"""
_READ = """
Each package is on a higher floor than all packages that it imports from. Packages on one floor do not import
from each other, except in a knot. The drawing leaves out an arrow that follows from other arrows; the table
has it.
"""
PATHS = {"action": (43, 75, 141, 25), "memory write": (48, 147, 298, 26), "item": (39, 108, 227, 23)}
"""By kind of input, at most: the files that one enters, the goings from one to another, the calls, and the
types that carry it. A test measures them."""
_WAY = """
## The way of one input

| one harmless | files entered, at most | changes from one file to another | calls | types that carry it |
|---|---|---|---|---|
{}

`python -m load.bench.gates.path_length` counts them, from `Partition.start` to the staged batch, in a session
and a process that have seen such inputs before. Files are those of app/ and topics/; a generator that goes on
counts as a call. A type carries an input where an object of it that serves no other input is handed to a
function, as an argument or as its `self`. A test keeps to the figures.
"""
_DETECTORS = """
## The detectors

What a call would run and what a text says is found by `sluice.detection`, which imports nothing of the core.
The core and everything else come in by two of its files: `call_inspection.py` (`inspect_call`) and
`text_inspection.py` (`inspect_text`); import-linter holds both. A third, `kept.py`, is for the command line
alone, which says there where compilations are stored. Below the core and the detectors there is
only `sluice.text`, the plain handling of names, references and expressions.
"""
_KNOTS = """
These packages import from each other in a circle, which the drawing shows as one box: {}.
"""


def find_package_arrows(
    imports: Mapping[str, Iterable[str]], root: str = CORE, *, loose: bool = True
) -> dict[str, frozenset[str]]:
    """Return by package below `root` the packages that it imports from.

    Files that lie in no package below it are one where they are `loose`, else each is like a package.
    """
    places = _locate_modules(imports, root, loose=loose)
    rests: dict[str, set[str]] = {}
    for importer, imported in imports.items():
        here = places.get(importer)
        if here is not None:
            there = {places[module] for module in imported if module in places} - {here}
            rests.setdefault(here, set()).update(there)
    return {name: frozenset(rests[name]) for name in sorted(rests)}


def find_knots(arrows: Arrows) -> list[frozenset[str]]:
    """Sets of two or more that reach each other."""
    reached = {name: _find_reached(name, arrows) for name in arrows}
    together = {
        frozenset(other for other in reached[name] if name in reached[other]) | {name} for name in arrows
    }
    return sorted((knot for knot in together if len(knot) > 1), key=min)


def sort_into_floors(arrows: Arrows) -> list[list[str]]:
    """Sort packages into floors, from the ground up: a package stands above all that it rests on; those of a
    knot on one floor."""
    knot_of = {name: knot for knot in find_knots(arrows) for name in knot}
    floor: dict[str, int] = {}

    def place_on_floor(name: str) -> int:
        if name not in floor:
            knot = knot_of.get(name, frozenset({name}))
            below = {other for member in knot for other in arrows.get(member, ()) if other not in knot}
            level = 1 + max((place_on_floor(other) for other in below), default=-1)
            floor.update(dict.fromkeys(knot, level))
        return floor[name]

    for name in arrows:
        place_on_floor(name)
    return [
        sorted(name for name in arrows if floor[name] == level) for level in range(max(floor.values()) + 1)
    ]


def write_page(imports: Mapping[str, Iterable[str]], title: str = TITLE) -> str:
    """The page: a drawing, then every arrow; of the core, then of the detectors."""
    core = _draw_section(find_package_arrows(imports))
    detectors = _draw_section(find_package_arrows(imports, DETECTION, loose=False))
    lengths = (" | ".join(["| " + kind, *map(str, most)]) + " |" for kind, most in PATHS.items())
    way = _WAY.format("\n".join(lengths))
    return f"{title}{_READ}{core}{_DETECTORS}{detectors}{way}"


def _draw_section(arrows: Arrows) -> str:
    """The drawing and the table."""
    knots = find_knots(arrows)
    knotted = "".join(_KNOTS.format(", ".join(sorted(knot))) for knot in knots)
    rows = [
        f"| {level} | `{name}` | {', '.join(f'`{arrow}`' for arrow in sorted(arrows[name])) or 'nothing'} |"
        for level, names in reversed(list(enumerate(sort_into_floors(arrows))))
        for name in names
    ]
    table = "\n".join(["| floor | package | rests on |", "|---|---|---|", *rows])
    return f"{knotted}\n{_write_drawing(arrows, knots)}\n\n{table}\n"


def read_imports(*packages: str) -> dict[str, set[str]]:
    """Every module of these packages with the modules that it imports."""
    graph = grimp.build_graph(*packages, cache_dir=None)
    return {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}


def _locate_modules(modules: Iterable[str], root: str, *, loose: bool) -> dict[str, str]:
    """Return by module below `root` the package below it in which it lies."""
    below = [module for module in modules if module.startswith(f"{root}.")]
    first = {module: module.removeprefix(f"{root}.").partition(".")[0] for module in below}
    packages = {first[module] for module in below if module != f"{root}.{first[module]}"}
    return {module: name if name in packages or not loose else LOOSE for module, name in first.items()}


def _find_reached(name: str, arrows: Arrows) -> set[str]:
    reached: set[str] = set()
    waiting = [name]
    while waiting:
        new = arrows.get(waiting.pop(), frozenset()) - reached
        reached |= new
        waiting += new
    return reached


def _write_drawing(arrows: Arrows, knots: list[frozenset[str]]) -> str:
    box = {name: min(knot) for knot in knots for name in knot}
    label = {min(knot): "<br/>".join(sorted(knot)) for knot in knots}
    between: dict[str, frozenset[str]] = {}
    for name, rests in arrows.items():
        here = box.get(name, name)
        there = {box.get(other, other) for other in rests} - {here}
        between[here] = between.get(here, frozenset()) | there
    lines = ["```mermaid", "flowchart TB"]
    lines += [f'    {_make_id(name)}["{label.get(name, name)}"]' for name in between]
    for name, rests in between.items():
        further = {far for other in rests for far in _find_reached(other, between)}
        lines += [f"    {_make_id(name)} --> {_make_id(other)}" for other in sorted(rests - further)]
    return "\n".join([*lines, "```"])


def _make_id(name: str) -> str:
    return name.replace(" ", "_")


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    target.write_text(write_page(read_imports("sluice", "sluice_topics")), encoding="utf-8")
