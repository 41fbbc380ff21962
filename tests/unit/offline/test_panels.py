"""A panel's file, row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sluice.offline.panels import NotAPanel, load_panel
from tests.unit.offline.panel_rows import panel, row

if TYPE_CHECKING:
    from pathlib import Path


def test_a_row_keeps_what_its_source_says(tmp_path: Path) -> None:
    file = panel(tmp_path, row(tool="rm", params={"p": 1}, agent="a", rows_affected=3, reversible=False))
    (only,) = load_panel(file)
    assert (only.agent, only.tool, only.parameters, only.rows_affected) == ("a", "rm", {"p": 1}, 3)
    assert (only.reversible, only.label, only.file, only.source) == (
        False,
        "harmful",
        "some_source",
        "a/b@c:d",
    )


def test_an_agent_that_nobody_names_is_called_after_the_source(tmp_path: Path) -> None:
    (only,) = load_panel(panel(tmp_path, row(file="action_shell")))
    assert only.agent == "shell_agent"


@pytest.mark.parametrize("line", ["nonsense", "[]", "{}", '{"id":1,"file":"f","label":"evil","input":{}}'])
def test_a_line_that_is_no_row_is_named(line: str, tmp_path: Path) -> None:
    file = panel(tmp_path, row())
    file.write_text(file.read_text() + "\n" + line)
    with pytest.raises(NotAPanel, match="line 3"):
        load_panel(file)
