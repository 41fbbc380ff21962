"""Tool calls that are requests: HTTP, GraphQL, calls of SDKs and of remote procedures, in one common form."""

from sluice.core.commands.calls.call import Call, CallReading, may_change, milder
from sluice.core.commands.calls.read_calls import read_calls

__all__ = ["Call", "CallReading", "may_change", "milder", "read_calls"]
