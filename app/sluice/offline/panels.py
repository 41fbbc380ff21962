"""A panel's rows with their labels: tool calls that agents really proposed, memory writes, retrieved items.

A row of a retrieved item is {"id", "kind": "retrieval", "label", "input": {"item", "quality_bundle",
"autonomy_tier"}}: one item with its age in seconds and whether its hash verified, and the tables to judge it
by, with gaps or without. In one panel rows of every kind may stand together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field

from sluice.core.actions.action_kinds import ACTION
from sluice.core.decide.kinds import BY_ROW
from sluice.core.memory.memory_kinds import WRITE
from sluice.core.quality_bundle.lookup import Tables
from sluice.core.retrieval.retrieval_kinds import RETRIEVAL
from sluice_topics.json_text import Unreadable, parse
from sluice_topics.records.retrievals import (
    AutonomyTier,  # noqa: TC001 - pydantic reads the annotations
    Dimension,  # noqa: TC001 - pydantic reads the annotations
    QualityOutcome,  # noqa: TC001 - pydantic reads the annotations
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

Label = Literal["harmful", "benign", "ambiguous"]
LABELS = get_args(Label)
_FILE_PREFIX = "action_"
_BEFORE_THE_COMMIT = "@"
T = TypeVar("T")


class NotAPanel(Exception):
    """A line is no row; the message names file and line."""


@dataclass(frozen=True, slots=True)
class ActionRow:
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

    @property
    def repository(self) -> str:
        """The repository of the source; "" where none is named."""
        return self.source.partition(_BEFORE_THE_COMMIT)[0]


def load_panel(path: Path) -> list[ActionRow]:
    """The rows in the file's order, blank lines left out. Raises NotAPanel and OSError."""
    return read_rows(path, read_action_row)


def read_rows(path: Path, row_of: Callable[[dict[str, Any]], T]) -> list[T]:
    """Return what `row_of` makes of each line's fields, blank lines left out. Raises NotAPanel and
    OSError."""
    lines = enumerate(path.read_bytes().split(b"\n"), start=1)
    return [_read_row(line, f"{path}: line {number}", row_of) for number, line in lines if line.strip()]


def read_action_row(fields: dict[str, Any]) -> ActionRow:
    """The tool call in a line's fields. Raises KeyError, TypeError, AttributeError and ValueError."""
    call, file = fields["input"], fields["file"]
    return ActionRow(
        fields["id"],
        file,
        read_label(fields),
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


def read_label(fields: dict[str, Any]) -> Label:
    """A row's label. Raises KeyError and ValueError."""
    label: Label = fields["label"]
    if label not in LABELS:
        raise ValueError(f"label {label!r} is none of {', '.join(LABELS)}")
    return label


def _read_row(line: bytes, where: str, row_of: Callable[[dict[str, Any]], T]) -> T:
    fields = parse(line)
    if isinstance(fields, Unreadable):
        raise NotAPanel(f"{where}: {fields.path}: {fields.message}")
    try:
        return row_of(fields)
    except (KeyError, TypeError, AttributeError) as error:
        raise NotAPanel(f"{where}: no row of a panel: {error!r}") from None
    except ValueError as error:
        raise NotAPanel(f"{where}: {error}") from None


STRICTEST: AutonomyTier = "high_privilege"
FLAG = "flag:"
"""A label with this names a flag that must be among those set; any other is the outcome."""


class RowTables(BaseModel):
    """A row's `quality_bundle`: every table may be missing, and any of a table's entries, which null is too
    where it does not mean "no limit"."""

    model_config = ConfigDict(strict=True, frozen=True)

    ttl_by_class: dict[str, float | None] = Field(default_factory=dict)
    ttl_by_tool: dict[str, dict[str, float | None]] = Field(default_factory=dict)
    min_confidence_by_class: dict[str, float | None] = Field(default_factory=dict)
    provenance_required_by_class: dict[str, bool | None] = Field(default_factory=dict)
    default_by_class: dict[str, QualityOutcome] = Field(default_factory=dict)
    action_matrix: dict[str, dict[str, dict[Dimension, QualityOutcome]]] = Field(default_factory=dict)
    provenance_schemes: list[str] = Field(
        default_factory=lambda: ["http", "https", "gate-source", "gate-feed"]
    )

    def build_tables(self) -> Tables:
        """Build the tables that the gate looks things up in."""
        return Tables(
            self.ttl_by_class,
            self.ttl_by_tool,
            _drop_missing(self.min_confidence_by_class),
            _drop_missing(self.provenance_required_by_class),
            self.default_by_class,
            self.action_matrix,
        )


@dataclass(frozen=True, slots=True)
class RetrievalRow:
    """`bundle` None: the row brings no tables. `tier` may be any text: a row's matrix may have tiers of its
    own."""

    id: str
    file: str
    label: str
    item: dict[str, Any]
    bundle: dict[str, Any] | None
    tier: str
    tool: str | None

    def is_agreeing(self, outcome: str, flags: tuple[str, ...]) -> bool:
        """Whether this is what the label says."""
        if self.label.startswith(FLAG):
            return self.label.removeprefix(FLAG) in flags
        return self.label == outcome


def _drop_missing(by_class: Mapping[str, T | None]) -> dict[str, T]:
    return {name: value for name, value in by_class.items() if value is not None}


def read_retrieval_row(fields: dict[str, Any]) -> RetrievalRow:
    """The item in a line's fields. Raises KeyError and TypeError."""
    value = fields["input"]
    item, bundle, label = value["item"], value.get("quality_bundle"), fields["label"]
    if not isinstance(item, dict) or not isinstance(bundle, dict | None) or not isinstance(label, str):
        raise TypeError("item and quality_bundle are objects, label is a text")
    tier, tool = value.get("autonomy_tier"), value.get("toolName", value.get("tool_name"))
    # Nobody says which tier: the strictest counts, as it does for a retrieval.
    tier = tier if isinstance(tier, str) else STRICTEST
    file = fields.get("file", fields.get("source", ""))
    return RetrievalRow(
        fields["id"], file, label, item, bundle, tier, tool if isinstance(tool, str) else None
    )


@dataclass(frozen=True, slots=True)
class WriteRow:
    """A text for an agent to remember. `file` and `source` are as in ActionRow."""

    id: str
    file: str
    label: Label
    text: str
    source: str

    @property
    def repository(self) -> str:
        """The repository of the source; "" where none is named."""
        return self.source.partition(_BEFORE_THE_COMMIT)[0]


def read_write_row(fields: dict[str, Any]) -> WriteRow:
    """The memory write in a line's fields. Raises KeyError, TypeError and ValueError."""
    text = fields["input"]["text"]
    if not isinstance(text, str):
        raise TypeError("input.text is no text")
    return WriteRow(fields["id"], fields["file"], read_label(fields), text, fields.get("source", ""))


Row = ActionRow | WriteRow | RetrievalRow
ROWS: Mapping[str, Callable[[dict[str, Any]], Row]] = {
    ACTION.name: read_action_row,
    WRITE.name: read_write_row,
    RETRIEVAL.name: read_retrieval_row,
}
"""How a row is read, by the name of its kind."""


def load_mixed(path: Path) -> list[Row]:
    """The rows of all kinds in the file's order, blank lines left out. Raises NotAPanel and OSError."""
    return [row for _, row in read_rows(path, _read_mixed_row)]


def load_by_kind(paths: Iterable[Path]) -> dict[str, list[Any]]:
    """The rows of these files by the name of their kind, an empty list for a kind without rows.

    Raises NotAPanel and OSError.
    """
    by_kind: dict[str, list[Any]] = {kind.name: [] for kind in BY_ROW.values()}
    for path in paths:
        for name, row in read_rows(path, _read_mixed_row):
            by_kind[name].append(row)
    return by_kind


def _read_mixed_row(fields: dict[str, Any]) -> tuple[str, Row]:
    """A row that names no kind is an action."""
    kind = BY_ROW.get(fields.get("kind", ""), ACTION)
    return kind.name, ROWS[kind.name](fields)
