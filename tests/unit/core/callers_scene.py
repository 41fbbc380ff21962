"""The shipped bundles and registry, with some more tools, and the verdict on what a caller says."""

from __future__ import annotations

import json
from typing import Any

from sluice.core.actions.stages import list_shipped_stages, load_bundle
from sluice.core.decide.decision_point import DecisionPoint
from sluice.core.decide.replay import decide
from sluice.core.foundation.input_record import InputRecord
from sluice.core.policy.policy import Policy
from sluice.core.registry.loading import load_registry
from sluice.core.state.session import Account, SessionState, session_key
from sluice.offline.bundle_source import read_whole_bundle
from sluice_topics.catalog import ACTIONS
from tests.unit.core.scene import LIMITS, ROOT, START, bundle, entry, verdict_of

SHIPPED_ENTRIES = json.loads((ROOT / "config" / "registry.json").read_text())["entries"]
FINANCE = load_bundle(read_whole_bundle(ROOT / "config" / "bundles" / "finance.recon.v0.json"))
TENANT_OF = {"example-trial-agent": "example-trial"}
MORE_ENTRIES = [
    entry("tool", "mystery"),
    entry("tool", "query_database"),
    entry("tool", "update_ticket", reversible=True),
    entry("tool", "clean_up", action_type="CODE_EXECUTION"),
    entry("tool", "hand_over", tier="T1", action_type="DELEGATION"),
    entry("tool", "count_orders", tier="T1", action_type="DATABASE_READ", trusts_row_claims=True),
]
POINT = DecisionPoint(
    Policy(
        {one.id: one for one in (bundle(), FINANCE)},
        load_registry(json.dumps({"entries": [*SHIPPED_ENTRIES, *MORE_ENTRIES]}).encode()),
        bundle().id,
    ),
    list_shipped_stages(),
    LIMITS,
    stopwatch=lambda: 0,
    environment="test",
)


def verdict(fields: dict[str, Any], waited_ms: int = 0) -> dict[str, Any]:
    """Of the pipeline over the shipped bundles and registry, in a session with so many rows."""
    given_fields = {"action_id": "a", "session_id": "s", **fields}
    so_far = given_fields.pop("so_far", 0)
    state = SessionState(session_key("s"))
    state.opened_at = state.last_at = START
    if so_far:
        tenant = TENANT_OF.get(given_fields["agent_id"], "example")
        state.accounts[tenant] = Account(so_far, 3, {})
    input_record = InputRecord(
        ACTIONS, 0, 1, START, b"s", json.dumps(given_fields).encode(), waited_ms=waited_ms
    )
    return verdict_of(decide(POINT, input_record, state))


def operator(tool: str, parameters: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """The verdict on an action of the operator in high_stakes mode."""
    base = {"agent_id": "example-operator", "mode": "high_stakes", "toolName": tool}
    return verdict({**base, "parameters": parameters or {}, **fields})
