"""A payment that waits for a person, and is made once.

`python docs/examples/payment.py INVOICE`, while a worker of README's first steps runs. Payments are lines of
payments.txt in this folder. A second run for the same invoice pays nothing: the journal has its id.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from sluice.client import ActionInterrupted, ActionRefused, ClientOptions, GateClient, in_session

SERVERS = os.environ.get("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:29092")
OPTIONS = ClientOptions(
    topic_prefix=os.environ.get("SLUICE_KAFKA__TOPIC_PREFIX", ""),
    installation=os.environ.get("SLUICE_POLICY__INSTALLATION", ""),
    verdict_keys=json.loads(os.environ.get("SLUICE_VERDICTS__PUBLIC_KEYS", "[]")),
    journal=Path("payments.journal"),
)
A_PERSON_HAS_S = 600.0


def main(invoice: str) -> None:
    """Ask, wait for the VP, pay."""
    with GateClient(SERVERS, "example-operator", OPTIONS) as gate, in_session(f"invoice-{invoice}"):

        @gate.guard(action_id=f"pay-{invoice}", approval_timeout_s=A_PERSON_HAS_S, rows_before=1)
        def send_payment(to: str, amount: int, currency: str) -> str:
            with Path("payments.txt").open("a", encoding="utf-8") as payments:
                payments.write(f"{invoice}: {amount} {currency} to {to}\n")
            return f"{amount} {currency}"

        try:
            print("paid:", send_payment("acme", 250, "EUR"))
        except ActionInterrupted:
            print("not paid again: this invoice's payment was started before")
        except ActionRefused as refused:
            print("not paid:", refused)


if __name__ == "__main__":
    main(sys.argv[1])
