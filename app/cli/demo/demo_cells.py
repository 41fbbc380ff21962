"""How the demo's tables look: their frame, columns and cells."""

from __future__ import annotations

import json
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Column, Table

from app.cli.output import shown

COLOURS = {"allowed": "green", "denied": "bold red", "needs_human": "yellow"}


def table(title: str, *columns: Column | str) -> Table:
    """A table that stands by its header's line alone; a column given by name keeps its whole text."""
    whole = (Column(one, no_wrap=True) if isinstance(one, str) else one for one in columns)
    return Table(
        *whole,
        title=title,
        title_justify="left",
        title_style="bold",
        caption_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        show_edge=False,
    )


def number(header: str) -> Column:
    """A column of numbers."""
    return Column(header, justify="right", no_wrap=True)


def cut(header: str, width: int | None = None) -> Column:
    """A column of one line a cell, cut at `width` or where the screen ends."""
    return Column(header, no_wrap=True, overflow="ellipsis", max_width=width)


def told(header: str) -> Column:
    """A column of sentences, over as many lines as they need: it gives way to the others."""
    return Column(header, overflow="fold")


def word(verdict: str) -> str:
    """A verdict in its colour."""
    return f"[{COLOURS[verdict]}]{shown(verdict)}[/]"


def count(value: int | str) -> str:
    """A whole number with its thousands apart."""
    return f"{int(value):,}".replace(",", " ")


def shortened(parameters: dict[str, Any]) -> str:
    """An action's parameters in a line: of a single one its text, else JSON."""
    if len(parameters) == 1:
        (only,) = parameters.values()
        return " ".join(str(only).split())
    return " ".join(json.dumps(parameters, ensure_ascii=False).split())
