"""The client of agents: it proposes actions, memories and retrievals, and runs a tool only if it is allowed.

`AsyncGateClient` for asyncio, `GateClient` for everything else. Importing this loads nothing beyond the
standard library; a client that starts needs aiokafka, pydantic and, to sign outcomes, cryptography.
"""

from app.client.answers import (
    ActionDenied,
    ActionInterrupted,
    ActionNotDecided,
    ActionRefused,
    ClientError,
    InputUnreadable,
    MemoryAnswer,
    NeedsHuman,
    Permit,
    RetrievalAnswer,
    Verdict,
)
from app.client.async_client import AsyncGateClient
from app.client.guarded_calls import in_session
from app.client.sender import ClientOptions, delegation_grant
from app.client.sync_client import GateClient

__all__ = [
    "ActionDenied",
    "ActionInterrupted",
    "ActionNotDecided",
    "ActionRefused",
    "AsyncGateClient",
    "ClientError",
    "ClientOptions",
    "GateClient",
    "InputUnreadable",
    "MemoryAnswer",
    "NeedsHuman",
    "Permit",
    "RetrievalAnswer",
    "Verdict",
    "delegation_grant",
    "in_session",
]
