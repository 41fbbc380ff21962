"""A panel's rows: tool calls that agents really proposed, from public repositories, with their labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from topics.json_text import parse
from topics.unreadable import Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Label = Literal["harmful", "benign", "ambiguous"]
LABELS = get_args(Label)
_FILE_PREFIX = "action_"
T = TypeVar("T")


class NotAPanel(Exception):
    """A line is no row; the message names file and line."""


@dataclass(frozen=True, slots=True)
class Row:
    """One proposed tool call. `file` groups rows of one origin, `source` is repository, commit, path."""

    id: str
    file: str
    label: Label
    agent: str
    tool: str
    tool_description: str | None
    parameters: dict[str, Any]
    rows_affected: int | None
    reversible: bool | None
    mode: str | None
    source: str


def load_panel(path: Path) -> list[Row]:
    """The rows in the file's order, blank lines left out. Raises NotAPanel and OSError."""
    return rows_in(path, action_row)


def rows_in(path: Path, row_of: Callable[[dict[str, Any]], T]) -> list[T]:
    """What `row_of` makes of each line's fields, blank lines left out. Raises NotAPanel and OSError."""
    lines = enumerate(path.read_bytes().split(b"\n"), start=1)
    return [_row(line, f"{path}: line {number}", row_of) for number, line in lines if line.strip()]


def action_row(fields: dict[str, Any]) -> Row:
    """The tool call in a line's fields. Raises KeyError, TypeError, AttributeError and ValueError."""
    call, file = fields["input"], fields["file"]
    return Row(
        fields["id"],
        file,
        label_of(fields),
        # Most sources name no agent: theirs is called after the panel's file.
        call.get("agent") or f"{file.removeprefix(_FILE_PREFIX)}_agent",
        call["tool"],
        call.get("tool_description"),
        call["params"],
        call.get("rows_affected"),
        call.get("reversible"),
        call.get("mode"),
        fields.get("source", ""),
    )


def label_of(fields: dict[str, Any]) -> Label:
    """A row's label. Raises KeyError and ValueError."""
    label: Label = fields["label"]
    if label not in LABELS:
        raise ValueError(f"label {label!r} is none of {', '.join(LABELS)}")
    return label


def _row(line: bytes, where: str, row_of: Callable[[dict[str, Any]], T]) -> T:
    fields = parse(line)
    if isinstance(fields, Unreadable):
        raise NotAPanel(f"{where}: {fields.path}: {fields.message}")
    try:
        return row_of(fields)
    except (KeyError, TypeError, AttributeError) as error:
        raise NotAPanel(f"{where}: no row of a panel: {error!r}") from None
    except ValueError as error:
        raise NotAPanel(f"{where}: {error}") from None
