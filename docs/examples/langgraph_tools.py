"""Two tools behind the gate, in a LangGraph tool node (`pip install langgraph`).

`python docs/examples/langgraph_tools.py`, while a worker of README's first steps runs. In place of a model a
function says which tools to call, so that the example needs no account anywhere.
"""

from __future__ import annotations

import json
import os
import uuid
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from sluice.client import ClientOptions, GateClient, in_session

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


def guarded_tools(gate: GateClient) -> list[Any]:
    """The guard goes inside: LangGraph calls a function that asks the gate first. If the gate refuses, the
    model reads why, and what it may do now, in place of a result."""

    @tool
    @gate.guard(rows=len, on_refusal="return")
    def search_records(status: str) -> list[str]:
        """Names of the orders in a status."""
        return names_of(status)

    @tool
    @gate.guard(rows_before=lambda status: len(names_of(status)), on_refusal="return")
    def delete_records(status: str) -> str:
        """Delete the orders in a status."""
        for name in names_of(status):
            del ORDERS[name]
        return "deleted"

    return [search_records, delete_records]


def plan(state: MessagesState) -> dict[str, Any]:
    """Where the model would be: two calls at first, then the end."""
    if isinstance(state["messages"][-1], ToolMessage):
        return {"messages": [AIMessage("done")]}
    names = ("search_records", "delete_records")
    calls = [{"name": name, "args": {"status": "closed"}, "id": name} for name in names]
    return {"messages": [AIMessage("", tool_calls=calls)]}


def next_step(state: MessagesState) -> str:
    """To the tools, as long as some are to be called."""
    last = state["messages"][-1]
    return "tools" if isinstance(last, AIMessage) and last.tool_calls else END


def main() -> None:
    """Run the graph once, in a session of its own, and print what the tools answered."""
    with GateClient(SERVERS, "example-operator", OPTIONS) as gate:
        graph = StateGraph(MessagesState)
        graph.add_node("plan", plan)
        graph.add_node("tools", ToolNode(guarded_tools(gate)))
        graph.add_edge(START, "plan")
        graph.add_conditional_edges("plan", next_step)
        graph.add_edge("tools", "plan")
        with in_session(f"langgraph-{uuid.uuid4().hex}"):
            ended = graph.compile().invoke({"messages": [HumanMessage("Tidy up the closed orders.")]})
    for message in ended["messages"]:
        if isinstance(message, ToolMessage):
            print(f"{message.name}: {message.content}")
    print("orders:", sorted(ORDERS))


if __name__ == "__main__":
    main()
