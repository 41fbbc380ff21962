"""An agent of the demo that uses the client: it signs what it proposes, and its tool is guarded.

It proposes three refunds, which a person must approve. One is approved, one denied, and one nobody answers.
Someone without the agent's key proposes a fourth one in its name.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.client import ActionRefused, AsyncGateClient, ClientOptions
from sluice_demo.throwaway_trust import AGENT

if TYPE_CHECKING:
    from sluice_demo.run_location import RunLocation
    from sluice_demo.throwaway_trust import ThrowawayTrust

CLERK, REFUND, SESSION = "refund-clerk", "send_refund", "refunds"
TURNS = {"refund-1": "approve", "refund-2": "deny", "refund-3": "wait"}
"""How people answer each refund's escalation; "wait": nobody does."""
FORGED = "refund-4"
ESCALATED = len(TURNS)


class Refund(NamedTuple):
    """What became of a refund. `ran`: how often the tool ran; `told`: what the client told the agent."""

    action_id: str
    amount: int
    answer: str
    ran: int
    told: str

    @property
    def well(self) -> bool:
        """The tool ran once if a person approved it, otherwise not at all."""
        return self.ran == (self.answer == "approve")


def make_registry_entries(tenant: str, public_key: str) -> list[dict[str, Any]]:
    """The agent, with its key (base64), and the tool, of a tier that a person must approve."""
    agent = {"tenant_id": tenant, "tier": "T3", "tools": [REFUND], "keys": [{"public_key": public_key}]}
    tool = {"tier": "T3", "action_type": "PAYMENT", "trusts_row_claims": True}
    return [
        {"kind": "agent", "id": CLERK, "revision": 1, "spec": agent},
        {"kind": "tool", "id": REFUND, "revision": 1, "spec": tool},
    ]


async def make_refunds(location: RunLocation, trust: ThrowawayTrust, patience_s: float) -> list[Refund]:
    """Propose all of them at once. `patience_s`: how long the agent waits for a person."""
    signed = ClientOptions(
        topic_prefix=location.prefix, agent_key=trust.write_pem(AGENT), installation=trust.installation
    )
    unsigned = ClientOptions(topic_prefix=location.prefix)
    async with (
        AsyncGateClient(location.connect("agent"), CLERK, signed) as own,
        AsyncGateClient(location.connect("agent"), CLERK, unsigned) as forger,
    ):
        proposed = [
            _make_refund(own, name, 10 * number, answer, patience_s)
            for number, (name, answer) in enumerate(TURNS.items(), 1)
        ]
        return await asyncio.gather(*proposed, _make_refund(forger, FORGED, 9999, "forged", patience_s))


async def _make_refund(
    gate: AsyncGateClient, action_id: str, amount: int, answer: str, patience_s: float
) -> Refund:
    ran = 0

    @gate.guard(
        REFUND,
        session_id=SESSION,
        action_id=action_id,
        rows_affected=1,
        approval_timeout_s=patience_s,
        deadline_s=patience_s,
    )
    async def send_refund(order: str, amount: int) -> str:
        nonlocal ran
        ran += 1
        return f"{amount} sent back for {order}"

    try:
        refund = await send_refund(f"order-{amount}", amount)
    except ActionRefused as refused:
        refund = str(refused)
    return Refund(action_id, amount, answer, ran, refund)
