"""Which rows of the panel hold SQL or shell: for the others no parser is the bare work to compare with."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Literal, NamedTuple

from app.core.gate1.languages import language_of
from app.core.gate1.leaves import leaves

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from app.offline.panel import Row

Kind = Literal["plain", "sql", "shell"]
_INSERTED = "action_sqli_libinjection"
"""The panel's source of values that go into SQL: the harmful ones carry SQL with them."""
_UNTYPED = "OTHER"


class Text(NamedTuple):
    """A text of an action that a parser can read."""

    language: Literal["sql", "shell"]
    text: str


def kind_of(row: Row) -> Kind:
    """`plain`: a row without SQL and without shell."""
    found = {language_of(row.tool, _UNTYPED, leaf.key) for leaf in leaves(row.parameters)}
    if "shell" in found:
        return "shell"
    carries = row.file == _INSERTED and row.label == "harmful"
    return "sql" if carries or "sql" in found else "plain"


def texts_of(tool: str, kind: Kind, parameters: dict[str, object]) -> list[Text]:
    """What the parsers would read of an action of this kind."""
    if kind == "plain":
        return []
    named = [(language_of(tool, _UNTYPED, leaf.key), leaf.text) for leaf in leaves(parameters)]
    own = [Text(kind, text) for language, text in named if language == kind]
    return own or [Text(kind, text) for _, text in named]


def by_kind(rows: Iterable[Row]) -> dict[Kind, Sequence[Row]]:
    """The rows, sorted."""
    found: dict[Kind, list[Row]] = defaultdict(list)
    for row in rows:
        found[kind_of(row)].append(row)
    return dict(found)
