"""The demo's steps on the screen: a moving line on a terminal, one line a step elsewhere."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from app.cli.output import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

_WIDTH = 16
_BAR = 36


class Narration:
    """Steps one after the other, each with what came of it and the seconds that it took."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @contextmanager
    def step(self, what: str) -> Iterator[_Moving]:
        """A step; on a terminal it moves while it lasts. One that fails is marked so."""
        begin = time.monotonic()
        with _bars(self._console) as bars:
            moving = _Moving(bars, what)
            try:
                yield moving
            except BaseException:
                self._line("[red]✗[/]", what, moving.detail or "not done", begin)
                raise
        self._line("[green]✓[/]", what, moving.detail, begin)

    def _line(self, mark: str, what: str, detail: str, begin: float) -> None:
        seconds = f"[dim]{time.monotonic() - begin:.1f} s[/]"
        text = f"{mark} [bold]{what:<{_WIDTH}}[/]{shown(detail)}{'  ' if detail else ''}{seconds}"
        self._console.print(text, highlight=False, soft_wrap=True)


class _Moving:
    """The step under way."""

    def __init__(self, bars: Progress, what: str) -> None:
        self.detail = ""
        self._bars = bars
        self._waiting = bars.add_task(f"{what} …", total=None)

    def say(self, detail: str) -> None:
        """What came of the step."""
        self.detail = detail

    def progress(self, published: int, answered: int, total: int) -> None:
        """How far the inputs are."""
        count = f"{published} published, {answered} answered of {total}"
        self._bars.update(self._waiting, completed=answered, total=total, description=count)


def _bars(console: Console) -> Progress:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(_BAR), TimeElapsedColumn())
    # Not on a terminal nothing moves, and the step's own line is all there is.
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
