"""The client of agents: it proposes actions, memories and retrievals, and runs a tool only if it is allowed.

Use `AsyncGateClient` with asyncio and `GateClient` everywhere else. The import loads only the standard
library. A client that starts needs aiokafka and pydantic, and cryptography if it signs.
"""

from sluice.client.answers import (
    ActionAnswer,
    ActionDenied,
    ActionInterrupted,
    ActionNotDecided,
    ActionRefused,
    ActionStopped,
    BrokerUnreachable,
    ClientError,
    InputUnreadable,
    LoginRefused,
    MemoryAnswer,
    NeedsHuman,
    Permit,
    RetrievalAnswer,
)
from sluice.client.async_client import AsyncGateClient
from sluice.client.guarded_calls import in_session
from sluice.client.kafka_connection import KafkaConnection
from sluice.client.mandates import MandateIssuer, MandateTerms, compute_mandate_digest, issue_mandate
from sluice.client.sender import ClientOptions, InputSigner, delegation_grant
from sluice.client.sync_client import GateClient
from sluice.client.token_sources import TokenCommand, TokenEndpoint
from sluice_topics.audience import Audience

__all__ = [
    "ActionAnswer",
    "ActionDenied",
    "ActionInterrupted",
    "ActionNotDecided",
    "ActionRefused",
    "ActionStopped",
    "AsyncGateClient",
    "Audience",
    "BrokerUnreachable",
    "ClientError",
    "ClientOptions",
    "GateClient",
    "InputSigner",
    "InputUnreadable",
    "KafkaConnection",
    "LoginRefused",
    "MandateIssuer",
    "MandateTerms",
    "MemoryAnswer",
    "NeedsHuman",
    "Permit",
    "RetrievalAnswer",
    "TokenCommand",
    "TokenEndpoint",
    "compute_mandate_digest",
    "delegation_grant",
    "in_session",
    "issue_mandate",
]
