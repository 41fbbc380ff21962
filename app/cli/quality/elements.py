"""Elements of HTML and SVG as text. Every text and attribute is escaped here and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from app.cli.output import visible

MAX_LABEL = 30


def plain(value: object) -> str:
    """Text of a record: escaped, and what nobody sees shown by its code point."""
    return escape(visible(str(value)).plain)


def cut(value: str) -> str:
    """A name that fits a chart, not escaped yet; the tables have it whole."""
    return value if len(value) <= MAX_LABEL else f"{value[: MAX_LABEL - 1]}…"


def element(name: str, *inner: str, **attributes: object) -> str:
    """`inner` is markup already; an attribute's underscore is a hyphen, a last one is dropped (class_)."""
    given = "".join(f' {_spelled(key)}="{escape(_written(value))}"' for key, value in attributes.items())
    return f"<{name}{given}>{''.join(inner)}</{name}>"


def _spelled(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def _written(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing with what a reader who does not see it is told; sizes in units of its own view box."""

    name: str
    title: str
    description: str
    width: float
    height: float

    def drawn(self, *inner: str) -> str:
        """The SVG. `name` is unique on the page."""
        title = element("title", plain(self.title), id=f"{self.name}-title")
        description = element("desc", plain(self.description), id=f"{self.name}-desc")
        return element(
            "svg",
            title,
            description,
            *inner,
            viewBox=f"0 0 {self.width:g} {self.height:g}",
            role="img",
            aria_labelledby=f"{self.name}-title {self.name}-desc",
        )


def card(title: str, note: str, *inner: str, class_: str = "card") -> str:
    """A chart or a table with its title and one sentence that says what it shows."""
    caption = element("figcaption", element("h3", plain(title)), element("p", plain(note)))
    return element("figure", caption, *inner, class_=class_)
