"""A call that waits for a person, parked with the client (MCP 2026-07-28, `input_required`).

The client gets a state that it cannot read or change, and makes the same call again with it, also after the
client, the proxy and the worker have been restarted. The SDK seals the state (AES-256-GCM) for the agent, the
session and the call; within it stands which action waits, and until when. That the tool runs once at most is
the journal's to keep, so a state counts only where the journal has its action.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp_types import InputRequiredResult

from sluice.client.answers import ClientError

if TYPE_CHECKING:
    from sluice.adapters.mcp.proxy_file import Parking, ProxyOptions
    from sluice.client.answers import ActionAnswer

ESCALATION_META = "sluice/escalation_id"
"""In `_meta` of the answer to a call that is parked: which escalation waits, for the person to look it up."""
_REFUSED = "Make the call anew without a state: it is then a new action"


class StateRefusedError(ClientError):
    """The state of a parked call does not count; no tool runs."""


def make_boundary(parking: Parking, options: ProxyOptions) -> RequestStateBoundary:
    """The middleware that seals states, and refuses those of another agent, session, server or call."""
    principal = json.dumps([parking.agent_id, options.session_id])
    security = RequestStateSecurity(
        keys=[parking.key],
        ttl=parking.longest_s,
        bind_principal=lambda _: principal,
        audience=f"sluice mcp {options.server}",
    )
    return RequestStateBoundary(security, default_audience=None)


def park(waiting: ActionAnswer, asked: str, until_s: float) -> InputRequiredResult:
    """The answer to a call that waits. `asked`: the digest of what was asked; `until_s`: Unix time."""
    state = {"action_id": waiting.record["action_id"], "asked": asked, "until_s": until_s}
    meta: dict[str, Any] = {ESCALATION_META: waiting.escalation_id}
    return InputRequiredResult(request_state=json.dumps(state), _meta=meta)


def read_state(state: str, asked: str) -> tuple[str, float]:
    """The id of the parked action, and until when the state counts (Unix time). `state` as the boundary has
    opened it.

    Raises StateRefusedError for another call, or one whose tool is described in another way since then, and
    for a state whose time is over: with each answer the client gets a new seal, but no more time.
    """
    opened = json.loads(state)
    if opened["asked"] != asked:
        raise StateRefusedError("the state is of another call, or the tool changed since", _REFUSED)
    if time.time() >= opened["until_s"]:
        raise StateRefusedError("the time of the state is over", _REFUSED)
    return opened["action_id"], opened["until_s"]
