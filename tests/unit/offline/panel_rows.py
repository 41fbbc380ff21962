"""Small panels."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def row(row_id: str = "r1", label: str = "harmful", file: str = "some_source", **call: Any) -> dict[str, Any]:
    """A row whose tool and parameters a test gives."""
    fields = {
        "tool": "run_command",
        "params": {"cmd": "ls"},
        "rows_affected": None,
        "reversible": None,
        **call,
    }
    return {"id": row_id, "file": file, "label": label, "input": fields, "source": "a/b@c:d"}


def panel(folder: Path, *rows: dict[str, Any]) -> Path:
    """The rows as a file."""
    path = folder / "panel.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    return path


def write_row(
    row_id: str = "w1", label: str = "harmful", file: str = "some_source", **more: Any
) -> dict[str, Any]:
    """A row that is a memory write; `text` and `source` may be given."""
    text = more.pop("text", "The customer prefers e-mail.")
    fields = {"id": row_id, "file": file, "label": label, "input": {"text": text}, "source": "a/b@c:d"}
    return {**fields, "kind": "memory_write", **more}
