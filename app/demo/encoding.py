"""JSON as an agent would send it: UTF-8, compact."""

from __future__ import annotations

import json
from typing import Any


def to_bytes(fields: dict[str, Any]) -> bytes:
    """The same fields in the same order give the same bytes."""
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
