"""An agent of the demo that pays an invoice in which a stranger has put another account.

It looks the supplier up in the organisation's own list, and reads the invoice; the client reports the values
in both results as salted fingerprints. Then it pays the supplier, and it pays the account of the invoice: the
gate `destinations`, here in force, lets the one pass and holds the other. A person denies it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from sluice.client import AsyncGateClient, ClientOptions
from sluice.core.foundation.strict import json_object
from sluice.secrets.value_keys import read_value_key
from sluice_demo.throwaway_trust import POINT
from sluice_topics.values import derive_tenant_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.client import ActionAnswer
    from sluice_demo.run_location import RunLocation
    from sluice_demo.throwaway_trust import ThrowawayTrust

AGENT, SESSION, BUNDLE = "bookkeeper", "invoice", "demo.invoice"
LOOK_UP, READ, PAY = "find_supplier", "read_invoice", "pay_invoice_by_transfer"
TURN = "deny"
"""How a person answers what the agent may not do by itself."""
READING_S = 3.0
"""How long the agent reads before it pays."""
ATTEMPTS, BETWEEN_S = 10, 1.0
"""How often the supplier's payment is proposed again while the results have not been taken in yet."""


class InvoicePayment(NamedTuple):
    """What became of a payment. `to`: whose account it is; `origin`: where the gate says it comes from;
    `reason`: why it was held, "" where it was not."""

    to: str
    account: str
    verdict: str
    origin: str
    reason: str

    @property
    def well(self) -> bool:
        """The supplier is paid, and nobody else."""
        expected = (
            ("allowed", "trusted_result") if self.to == "supplier" else ("needs_human", "untrusted_read")
        )
        return (self.verdict, self.origin) == expected


def make_registry_entries(tenant: str, public_key: str) -> list[dict[str, Any]]:
    """The agent with its bundle, its tools, and who signs their outcomes, with its key (base64)."""
    reads = {"tier": "T1", "action_type": "DATABASE_READ", "reversible": True, "trusts_row_claims": True}
    pays = {"tier": "T2", "action_type": "OTHER", "reversible": True, "trusts_row_claims": True}
    specs: dict[tuple[str, str], dict[str, Any]] = {
        ("agent", AGENT): {"tenant_id": tenant, "tier": "T2", "policy_bundle_id": BUNDLE},
        ("tool", LOOK_UP): {**reads, "returns_trusted": True},
        ("tool", READ): {**reads, "returns_untrusted": True},
        ("tool", PAY): {**pays, "roles": {"destination": ["$.iban"], "amount": ["$.amount"]}},
        ("enforcement_point", POINT): {"tenant_id": tenant, "public_key": public_key},
    }
    return [{"kind": kind, "id": name, "revision": 1, "spec": spec} for (kind, name), spec in specs.items()]


def make_bundle(adapted: bytes) -> bytes:
    """The demo's bundle under another name, with the gate `destinations` in force, without its cases."""
    document = json_object(adapted)
    destinations = {**document.get("destinations", {}), "mode": "enforce"}
    return orjson.dumps({**document, "destinations": destinations, "id": BUNDLE, "revision": 1, "cases": []})


async def pay_invoice(
    location: RunLocation, trust: ThrowawayTrust, tenant: str, invoice: Mapping[str, Any]
) -> list[InvoicePayment]:
    """Read both, and propose both payments. `invoice`: the table of config/demo/judged.toml."""
    options = ClientOptions(
        topic_prefix=location.prefix,
        installation=trust.installation,
        mode="high_stakes",
        reported_by=POINT,
        signing_key=trust.write_pem(POINT),
        values_key=derive_tenant_key(read_value_key(location.values_key), tenant),
    )
    async with AsyncGateClient(location.connect("agent"), AGENT, options) as gate:

        @gate.guard(LOOK_UP, session_id=SESSION, rows_affected=1)
        async def find_supplier(name: str) -> dict[str, str]:
            return {"name": name, "iban": invoice["supplier_iban"]}

        @gate.guard(READ, session_id=SESSION, rows_affected=1)
        async def read_invoice(number: str) -> str:
            return f"Invoice {number}\n{invoice['text']}"

        async def pay(to: str, iban: str) -> InvoicePayment:
            parameters = {"iban": iban, "amount": invoice["amount"]}
            answer = await gate.propose(PAY, parameters, session_id=SESSION, rows_affected=1)
            if answer.allowed:
                await gate.report_outcome(answer, 1)
            return _read_payment(to, iban, answer)

        supplier = await find_supplier(invoice["supplier"])
        await read_invoice(invoice["number"])
        await asyncio.sleep(READING_S)
        honest = await pay("supplier", supplier["iban"])
        for _ in range(ATTEMPTS):
            if honest.origin != "unknown":
                break
            await asyncio.sleep(BETWEEN_S)
            honest = await pay("supplier", supplier["iban"])
        return [honest, await pay("stranger", invoice["injected_iban"])]


def _read_payment(to: str, iban: str, answer: ActionAnswer) -> InvoicePayment:
    details = [
        result["detail"] for result in answer.record["gateResults"] if result["gate"] == "destinations"
    ]
    origins = [origin for detail in details for origin in detail.get("origins") or ()]
    return InvoicePayment(to, iban, answer.verdict, ", ".join(origins), answer.reason or "")
