"""The adapters of frameworks stay short, and none is imported before it is used."""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

from sluice.client import frameworks
from sluice.client.frameworks.gated_items import FoundItem, build_items
from tests.frameworks.snippets import MOST_LINES, list_headings, read_snippet

FOLDER = Path(frameworks.__file__).parent
MODULES = sorted(path for path in FOLDER.glob("*.py") if path.name != "__init__.py")
MOST = 150
NOT_CODE = (
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
)


def count_code_lines(text: str) -> int:
    """Lines with code, without comments and docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [one for one in ast.walk(ast.parse(text)) if isinstance(one, documented)]
    words = [one.body[0] for one in nodes if ast.get_docstring(one) is not None]
    said = {line for one in words for line in range(one.lineno, (one.end_lineno or one.lineno) + 1)}
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    used = {
        line for one in tokens if one.type not in NOT_CODE for line in range(one.start[0], one.end[0] + 1)
    }
    return len(used - said)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_an_adapter_is_short(path: Path) -> None:
    assert count_code_lines(path.read_text()) <= MOST


def test_a_line_of_code_is_counted_once_and_words_are_not() -> None:
    assert count_code_lines('"""Words."""\n\n# words\nx = (\n    1,\n)  # words\n') == len("123")


def test_the_client_imports_no_adapter() -> None:
    program = "import sys, sluice.client; print([n for n in sys.modules if 'client.frameworks' in n])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_no_two_items_of_a_retrieval_have_one_id() -> None:
    names = ["a", "a#2", "a", "a", "a#3", "a#2", "b"]
    items = build_items(FoundItem(name, str(place), {}) for place, name in enumerate(names))
    assert [one["body"] for one in items] == [str(place) for place in range(len(names))]
    assert items[0]["item_id"] == "a"
    assert len({one["item_id"] for one in items}) == len(names)


def test_each_adapter_is_guarded_by_at_most_ten_lines_of_the_guide() -> None:
    headings = list_headings()
    assert headings
    for heading in headings:
        lines = [line for line in read_snippet(heading).splitlines() if line.strip()]
        assert len(lines) <= MOST_LINES, heading
