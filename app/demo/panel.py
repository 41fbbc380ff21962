"""The panel's rows: tool calls that agents really proposed, from public repositories (config/demo)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_FILE_PREFIX = "action_"


@dataclass(frozen=True, slots=True)
class Row:
    """One proposed tool call. `source` is the repository, commit and path that it comes from."""

    id: str
    agent: str
    tool: str
    tool_description: str | None
    parameters: dict[str, Any]
    source: str


def load_panel(path: Path) -> list[Row]:
    """The rows in the file's order."""
    return [_row(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def _row(fields: dict[str, Any]) -> Row:
    call = fields["input"]
    # Most sources name no agent: theirs is called after the panel's file.
    agent = call.get("agent") or f"{fields['file'].removeprefix(_FILE_PREFIX)}_agent"
    description = call.get("tool_description")
    return Row(fields["id"], agent, call["tool"], description, call["params"], fields["source"])
