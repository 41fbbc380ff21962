"""Tool calls that are requests: HTTP, GraphQL, calls of SDKs and of remote procedures, in one common form."""

from sluice.detection.commands.calls.call import Call, CallReading, may_change, milder
from sluice.detection.commands.calls.read_calls import read_calls

__all__ = ["Call", "CallReading", "may_change", "milder", "read_calls"]
