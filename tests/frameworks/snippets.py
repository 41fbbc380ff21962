"""The programs of docs/guard-your-agent.md, run as they stand there."""

from __future__ import annotations

import ast
import inspect
from typing import Any

from tests.frameworks.gate import ROOT

MOST_LINES = 10
_GUIDE = ROOT / "docs/guard-your-agent.md"
_BEGIN, _END = "\n```python\n", "\n```\n"


async def run_snippet(heading: str, **names: Any) -> dict[str, Any]:
    """Run the first program below a heading with these names; all names that it leaves."""
    code = compile(read_snippet(heading), heading, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    running = eval(code, names)  # noqa: S307 - the documents are ours
    if inspect.isawaitable(running):
        await running
    return names


def read_snippet(heading: str) -> str:
    """The text of the first program below a heading."""
    section = _read_sections()[heading]
    return section.split(_BEGIN, 1)[1].split(_END, 1)[0]


def list_headings() -> list[str]:
    """Those that have a program below."""
    return [heading for heading, section in _read_sections().items() if _BEGIN in section]


def _read_sections() -> dict[str, str]:
    sections = _GUIDE.read_text(encoding="utf-8").split("\n## ")[1:]
    return {one.split("\n", 1)[0]: one.split("\n", 1)[1] for one in sections}
