"""Two tools behind the gate, in plain Python.

`python docs/examples/plain_tools.py`, while a worker of README's first steps runs.
"""

from __future__ import annotations

import json
import os
import uuid

from sluice.client import ActionRefused, ClientOptions, GateClient, in_session

SERVERS = os.environ.get("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:29092")
OPTIONS = ClientOptions(
    topic_prefix=os.environ.get("SLUICE_KAFKA__TOPIC_PREFIX", ""),
    installation=os.environ.get("SLUICE_POLICY__INSTALLATION", ""),
    verdict_keys=json.loads(os.environ.get("SLUICE_VERDICTS__PUBLIC_KEYS", "[]")),
)
ORDERS = {"o-1": "open", "o-2": "closed", "o-3": "closed"}


def names_of(status: str) -> list[str]:
    """Of the orders in a status."""
    return [name for name, is_now in ORDERS.items() if is_now == status]


def main() -> None:
    """Search, which is allowed, and delete, which needs a person."""
    with GateClient(SERVERS, "example-operator", OPTIONS) as gate:

        @gate.guard(rows=len)
        def search_records(status: str) -> list[str]:
            return names_of(status)

        @gate.guard(rows_before=lambda status: len(names_of(status)), rows=len)
        def delete_records(status: str) -> list[str]:
            return [name for name in names_of(status) if ORDERS.pop(name)]

        with in_session(f"plain-{uuid.uuid4().hex}"):
            print("found:", search_records("closed"))
            try:
                print("deleted:", delete_records("closed"))
            except ActionRefused as refused:
                print("not deleted:", refused)
        print("orders:", sorted(ORDERS))


if __name__ == "__main__":
    main()
