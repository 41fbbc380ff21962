"""A panel's rows: tool calls that agents really proposed, from public repositories, with their labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from topics.json_text import parse
from topics.unreadable import Unreadable

if TYPE_CHECKING:
    from pathlib import Path

Label = Literal["harmful", "benign", "ambiguous"]
LABELS = get_args(Label)
_FILE_PREFIX = "action_"


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
    lines = enumerate(path.read_bytes().split(b"\n"), start=1)
    return [_row(line, f"{path}: line {number}") for number, line in lines if line.strip()]


def _row(line: bytes, where: str) -> Row:
    fields = parse(line)
    if isinstance(fields, Unreadable):
        raise NotAPanel(f"{where}: {fields.path}: {fields.message}")
    try:
        return _of_fields(fields)
    except (KeyError, TypeError, AttributeError) as error:
        raise NotAPanel(f"{where}: no row of a panel: {error!r}") from None
    except ValueError as error:
        raise NotAPanel(f"{where}: {error}") from None


def _of_fields(fields: dict[str, Any]) -> Row:
    call, file, label = fields["input"], fields["file"], fields["label"]
    if label not in LABELS:
        raise ValueError(f"label {label!r} is none of {', '.join(LABELS)}")
    return Row(
        fields["id"],
        file,
        label,
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
