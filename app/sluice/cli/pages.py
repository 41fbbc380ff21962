"""Reports as pages: from templates to documents that need no network and run no script."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.cli.output import format_percent, make_visible
from sluice.text.plurals import count_noun

if TYPE_CHECKING:
    from jinja2 import Environment

_FOLDER = Path(__file__).parent / "templates"


class Tile(NamedTuple):
    """A key figure. `state` is "good", "bad" or "": no target to meet or miss."""

    label: str
    value: str
    target: str
    standing: str
    state: str = ""


def render_document(name: str, **context: Any) -> str:
    """A document from its template."""
    return _build_environment().get_template(name).render(context)


@cache
def _build_environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415 - with the first page

    made = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        finalize=_write_value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"comma": "{:,}".format, "counted": count_noun, "percent": format_percent}
    return made


def _write_value(value: Any) -> Any:
    """A text of a record with what cannot be seen by its number; a measure of a drawing in few digits."""
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    if hasattr(value, "__html__"):
        return value
    text = str(value)
    return text if text.isascii() and text.isprintable() else make_visible(text).plain
