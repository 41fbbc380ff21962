"""A panel's rows that are memory writes, and panels in which rows of every kind stand together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.offline.panel import Row, action_row, label_of, rows_in
from app.offline.quality_panel import RETRIEVAL, RetrievalRow, retrieval_row

if TYPE_CHECKING:
    from pathlib import Path

    from app.offline.panel import Label

MEMORY_WRITE = "memory_write"
_BEFORE_THE_COMMIT = "@"


@dataclass(frozen=True, slots=True)
class WriteRow:
    """A text that somebody would have an agent remember. `file` and `source` as a Row's."""

    id: str
    file: str
    label: Label
    text: str
    source: str

    @property
    def repository(self) -> str:
        """Of the source; "" where none is named."""
        return self.source.partition(_BEFORE_THE_COMMIT)[0]


def load_mixed(path: Path) -> list[Row | WriteRow | RetrievalRow]:
    """The rows of all kinds in the file's order, blank lines left out. Raises NotAPanel and OSError."""
    return rows_in(path, _row)


def _row(fields: dict[str, Any]) -> Row | WriteRow | RetrievalRow:
    if fields.get("kind") == RETRIEVAL:
        return retrieval_row(fields)
    if fields.get("kind") != MEMORY_WRITE:
        return action_row(fields)
    text = fields["input"]["text"]
    if not isinstance(text, str):
        raise TypeError("input.text is no text")
    return WriteRow(fields["id"], fields["file"], label_of(fields), text, fields.get("source", ""))
