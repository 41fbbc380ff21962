"""The analysis port on the real SDK, before a server that answers by a script."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import SecretStr

from sluice.adapters.models.anthropic_model import AnthropicModel
from sluice.adapters.models.model_api import ModelApiSettings
from sluice.adapters.models.prompted_port import PromptedPort
from sluice.core.memory.analysis import PROMPT, build_question
from sluice.core.policy.memory_policy import AnalysisPolicy
from sluice.ports import PortUnavailable
from tests.messages_api import MODEL, MessagesApi, messages_api

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.messages_api import Reply

KEY = "sk-ant-a-key-that-nobody-else-may-see"
POLICY = AnalysisPolicy()
ORDINARY = build_question("The user prefers metric units.", "user", POLICY)


def model_at(base_url: str, **changed: Any) -> AnthropicModel:
    """The real SDK before a server."""
    values = {"timeout_ms": 10_000, "max_tokens": 2048, "max_retries": 0, "max_connections": 4}
    named = {"model": MODEL, "base_url": base_url, "effort": "low", **values, **changed}
    return AnthropicModel(SecretStr(KEY), ModelApiSettings(**named))


@asynccontextmanager
async def ask(*script: Reply, **changed: Any) -> AsyncIterator[tuple[PromptedPort, MessagesApi]]:
    """A port and the server behind it, which answers by the script."""
    async with messages_api(*script) as api:
        port = PromptedPort(PROMPT, model_at(**{"base_url": api.base_url, **changed}))
        try:
            yield port, api
        finally:
            await port.close()


async def collect_refusals(*script: Reply, **changed: Any) -> str:
    """Why the port was unavailable, having asked once."""
    async with ask(*script, **changed) as (port, _):
        with pytest.raises(PortUnavailable) as why:
            await port.ask(ORDINARY.payload)
    return str(why.value)
