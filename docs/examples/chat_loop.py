"""Two tools behind the gate, in a tool loop over a chat-completions API, without a library.

`python docs/examples/chat_loop.py`, while a worker of README's first steps runs. OPENAI_BASE_URL (and
OPENAI_API_KEY, OPENAI_MODEL) name a service that speaks this API; without it the loop talks to the small
server of chat_server.py, which always wants the same two calls.
"""

from __future__ import annotations

import json
import os
import urllib.request
import uuid
from typing import Any

from chat_server import serving

from sluice.client import ClientOptions, GateClient

SERVERS = os.environ.get("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:29092")
OPTIONS = ClientOptions(
    topic_prefix=os.environ.get("SLUICE_KAFKA__TOPIC_PREFIX", ""),
    installation=os.environ.get("SLUICE_POLICY__INSTALLATION", ""),
    verdict_keys=json.loads(os.environ.get("SLUICE_VERDICTS__PUBLIC_KEYS", "[]")),
)
ORDERS = {"o-1": "open", "o-2": "closed", "o-3": "closed"}
MOST_ROUNDS = 8
STATUS = {"type": "object", "properties": {"status": {"type": "string"}}, "required": ["status"]}


def search_records(status: str) -> list[str]:
    """Names of the orders in a status."""
    return [name for name, is_now in ORDERS.items() if is_now == status]


def delete_records(status: str) -> str:
    """Delete the orders in a status."""
    for name in search_records(status):
        del ORDERS[name]
    return "deleted"


TOOLS = {one.__name__: one for one in (search_records, delete_records)}


def complete(base_url: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The model's next message."""
    tools = [
        {"type": "function", "function": {"name": name, "description": one.__doc__, "parameters": STATUS}}
        for name, one in TOOLS.items()
    ]
    body = {"model": os.environ.get("OPENAI_MODEL", "scripted"), "messages": messages, "tools": tools}
    headers = {
        "Content-Type": "application/json",
        "Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', 'none')}",
    }
    url = f"{base_url}/chat/completions"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)  # noqa: S310 - the user's own URL
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - as above
        message: dict[str, Any] = json.load(answer)["choices"][0]["message"]
    return message


def call(gate: GateClient, session: str, wanted: dict[str, Any]) -> str:
    """What the model reads of one call: its result, or why the gate refused it and what it may do now.

    The call's id is the action's: a loop that is started again runs no tool twice.
    """
    name, arguments = wanted["function"]["name"], json.loads(wanted["function"]["arguments"])
    if name not in TOOLS:
        return f"there is no tool {name}"
    guard = gate.guard(on_refusal="return", session_id=session, action_id=wanted["id"])
    return json.dumps(guard(TOOLS[name])(**arguments))


def run(gate: GateClient, base_url: str, task: str) -> list[dict[str, Any]]:
    """The whole conversation about a task."""
    session = f"chat-{uuid.uuid4().hex}"
    messages: list[dict[str, Any]] = [{"role": "user", "content": task}]
    for _ in range(MOST_ROUNDS):
        messages.append(complete(base_url, messages))
        wanted = messages[-1].get("tool_calls") or []
        if not wanted:
            break
        messages += [
            {"role": "tool", "tool_call_id": one["id"], "content": call(gate, session, one)} for one in wanted
        ]
    return messages


def main() -> None:
    """One task, and what was said about it."""
    with (
        serving(os.environ.get("OPENAI_BASE_URL")) as url,
        GateClient(SERVERS, "example-operator", OPTIONS) as gate,
    ):
        for message in run(gate, url, "Tidy up the closed orders."):
            print(f"{message['role']}: {message.get('content') or 'calls ' + _names(message)}")
    print("orders:", sorted(ORDERS))


def _names(message: dict[str, Any]) -> str:
    return ", ".join(one["function"]["name"] for one in message["tool_calls"])


if __name__ == "__main__":
    main()
