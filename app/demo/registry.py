"""A neutral registry for the panel's rows, generated: what is decided is the bundle's doing alone.

The tenant's name says that it is generated.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from app.core.neutral_registry import neutral_entries

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.offline.panel import Row

TENANT = "demo-generated"


def generated_registry(rows: Iterable[Row]) -> bytes:
    """The registry file's bytes, for the rows' agents and tools."""
    rows = list(rows)
    entries = neutral_entries(TENANT, [row.agent for row in rows], [row.tool for row in rows])
    return json.dumps({"entries": [entry.model_dump() for entry in entries]}, indent=1).encode()
