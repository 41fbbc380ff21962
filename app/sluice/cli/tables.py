"""Tables on the screen, and their columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import HEAVY_HEAD
from rich.table import Column, Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.box import Box
    from rich.console import RenderableType

LINES = HEAVY_HEAD


def build_table(
    *columns: Column | str,
    rows: Iterable[Iterable[RenderableType]],
    title: str | None = None,
    box: Box | None = None,
) -> Table:
    """A table, without lines unless a `box` draws them; its cells are rich markup. A column that is given by
    its name is cut where it has no room."""
    table = Table(*columns, title=title, box=box, pad_edge=box is LINES)
    for row in rows:
        table.add_row(*row)
    return table


def fold(*names: str) -> list[Column]:
    """Columns whose cells stand on several lines where they have no room on one."""
    return [Column(name, overflow="fold") for name in names]


def fix(*names: str) -> list[Column]:
    """Columns whose cells stay on one line."""
    return [Column(name, no_wrap=True) for name in names]


def align_right(*names: str) -> list[Column]:
    """Columns of numbers."""
    return [Column(name, justify="right") for name in names]
