"""A neutral registry for the panel's rows, generated: it says who and what exists, and nothing else.

No tool has a tier or a type of its own, every agent may do every tier, the organisation forbids nothing: what
is decided is the bundle's doing alone. The tenant's name says that it is generated.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.demo.panel import Row

TENANT = "demo-generated"
HIGHEST_TIER = "T4"


def generated_registry(rows: Iterable[Row]) -> bytes:
    """The registry file's bytes, for the rows' agents and tools."""
    rows = list(rows)
    agents = sorted({row.agent for row in rows})
    tools = sorted({row.tool for row in rows})
    entries = [_entry("org", TENANT, {"enforcement": "enforce", "forbidden_targets": []})]
    entries += [_entry("agent", agent, {"tenant_id": TENANT, "tier": HIGHEST_TIER}) for agent in agents]
    entries += [_entry("tool", tool, {}) for tool in tools]
    return json.dumps({"entries": entries}, indent=1).encode()


def _entry(kind: str, entry_id: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"kind": kind, "id": entry_id, "revision": 1, "spec": spec}
