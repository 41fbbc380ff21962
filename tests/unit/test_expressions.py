"""Regular expressions mean the same in every Python 3.11."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.documents.blocks import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

SINGLE = {"LITERAL", "NOT_LITERAL", "ANY", "IN"}


def texts(tree: ast.AST) -> Iterator[str]:
    """Every text of a module; what an f-string puts in counts as a letter."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(one.value) if isinstance(one, ast.Constant) else "x" for one in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def possessive_groups(expression: str) -> list[str]:
    """What repeats a group possessively: before 3.11.5 such a group may miss a match (gh-106052)."""
    try:
        parsed = re._parser.parse(expression)  # type: ignore[attr-defined]  # noqa: SLF001 - the tree has no other way
    except (re.error, OverflowError):
        return []
    return list(_collect(parsed))


def _collect(parsed: Any) -> Iterator[str]:
    for op, value in parsed:
        if op.name == "POSSESSIVE_REPEAT" and (len(value[2]) > 1 or value[2][0][0].name not in SINGLE):
            yield str(value)
        for part in value if isinstance(value, (tuple, list)) else [value]:
            for one in part if isinstance(part, list) else [part]:
                if type(one).__name__ == "SubPattern":
                    yield from _collect(one)


@pytest.mark.parametrize("folder", ["app/sluice", "topics/sluice_topics"])
def test_no_expression_repeats_a_group_possessively(folder: str) -> None:
    found = {
        path.relative_to(ROOT).as_posix(): groups
        for path in (ROOT / folder).rglob("*.py")
        for text in texts(ast.parse(path.read_text(encoding="utf-8")))
        if "+" in text and ")" in text and (groups := possessive_groups(text))
    }
    assert found == {}, "write (?>(?:…)*) for (?:…)*+"


def test_the_search_finds_such_groups() -> None:
    assert possessive_groups(r"a(?:bc|d)*+e")
    assert possessive_groups(r"a(?=(?:bc|d){2,}+)e|f")
    assert not possessive_groups(r"a(?>(?:bc|d)*)e[)*+]f*+\w++")
