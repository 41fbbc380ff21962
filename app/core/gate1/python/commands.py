"""Reading the rows of translations, and speaking them for a call."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from app.core.gate1.python.translations import METHODS, TRANSLATIONS
from app.core.gate1.python.values import Value, flags, merged

if TYPE_CHECKING:
    from app.core.gate1.python.called import Called
    from app.core.gate1.shell import Command

_PARAMETER = re.compile(r"\{(\w+)\}")
_ALL = "{every*}"


class Row(NamedTuple):
    """The parameters' names, and the command line as its words."""

    parameters: tuple[str, ...]
    words: tuple[str, ...]


def _rows(table: dict[str, str]) -> dict[str, Row]:
    rows = {}
    for call, line in table.items():
        name, _, rest = call[:-1].rpartition("(")
        rows[name] = Row(tuple(rest.split(", ")) if rest else (), tuple(line.split()))
    return rows


ROWS = _rows(TRANSLATIONS)
ROWS_OF_METHODS = _rows(METHODS)


def translated(call: Called, row: Row) -> Value:
    """Say the row's command for this call; what the call returns."""
    given = {name: call.arg(place, name) for place, name in enumerate(row.parameters)}
    given["self"] = call.base
    args: list[str] = []
    for part in row.words[1:]:
        args += [flags(one) for one in call.args] if part == _ALL else _word(call, part, given)
    return call.result(_said(call, row.words[0], args))


def _said(call: Called, program: str, args: list[str]) -> Command:
    return call.runs(program, *args, fed_by=merged([call.base, *call.given()]))


def _word(call: Called, part: str, given: dict[str, Value]) -> list[str]:
    names = _PARAMETER.findall(part)
    alone = given[names[0]].items if len(names) == 1 else None
    if alone:
        return [flags(one) for one in alone]
    return [_PARAMETER.sub(lambda match: _text(call, match[1], given[match[1]]), part)]


def _text(call: Called, name: str, value: Value) -> str:
    if name == "mode" and value.name == "int" and value.text is not None:
        return f"{int(value.text):03o}" if int(value.text) >= 0 else value.text
    return call.path(value) if value.text is not None else flags(value)
