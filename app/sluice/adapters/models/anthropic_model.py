"""A model of the Anthropic API through its SDK, which answers the core's prompts.

Structured output comes by `output_config.format`, not by a forced tool call: current models (Claude Opus 5.5,
Claude Fable 5.1) refuse `tool_choice` of one tool, and API version 2026-10-21 refuses `temperature`, even 0.
The SDK's own error texts are never passed on: they quote the server, which knows the key.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import anthropic

from sluice.adapters.models.model_api import (
    BROKEN,
    OF_THE_ANSWER,
    ModelApiSettings,
    check_key,
    make_http_client,
    make_refusal,
    make_too_late,
    read_message,
)
from sluice.adapters.models.prompted_port import ModelDown, ModelUsage, read_reply
from sluice.core.foundation.prompts import user_turn
from sluice.ports import PortUnavailable

if TYPE_CHECKING:
    from anthropic.types import OutputConfigParam
    from pydantic import SecretStr

    from sluice.core.foundation.prompts import ModelAnswer, Prompt

_THOUGHT = ("thinking", "redacted_thinking")
_NO_VERDICT = {
    "refusal": "the model declined to judge the text",
    "max_tokens": "the model's answer was cut off at max_tokens",
    "model_context_window_exceeded": "the text does not fit the model's context window",
}


class AnthropicModel:
    """One client for all questions of a worker. Opens no connection before the first question."""

    def __init__(self, api_key: SecretStr, settings: ModelApiSettings) -> None:
        """Raises ValueError, without the key, when it cannot be one."""
        self.name = settings.model
        self.usage = ModelUsage()
        self._key = api_key
        self._settings = settings
        self._client = _make_client(check_key(api_key), settings)
        self._create = self._client.messages.with_raw_response.create

    async def judge(self, prompt: Prompt[Any], question: object) -> ModelAnswer:
        """The model's answer to a question of a prompt. Raises PortUnavailable.

        Only the shape that was asked for counts: one text block that holds the JSON object of the prompt's
        schema. Everything else (another block, another stop reason, a field more or less, a number out of
        range) is unreadable.
        """
        message = read_message(await self._fetch_body(prompt, question))
        self.usage.add(message.get("usage"))
        return read_reply(prompt, message.get("model"), _read_text(message), self._key.get_secret_value())

    async def close(self) -> None:
        """Close every connection."""
        await self._client.close()

    async def _fetch_body(self, prompt: Prompt[Any], question: object) -> bytes:
        reason: PortUnavailable
        try:
            async with asyncio.timeout(self._settings.timeout_ms / 1000):
                response = await self._create(**self._build_request(prompt, question))
                body: bytes = await response.read()
                return body
        except anthropic.APIStatusError as error:
            reason = make_refusal(error.status_code)
        except (anthropic.APITimeoutError, TimeoutError):
            reason = make_too_late(self._settings)
        except (anthropic.AnthropicError, *OF_THE_ANSWER):
            reason = ModelDown(BROKEN)
        # Out here, so that no traceback leads to the SDK's error and the request with its headers.
        raise reason

    def _build_request(self, prompt: Prompt[Any], question: object) -> dict[str, Any]:
        """The constant part is marked for the server's prompt cache."""
        output: OutputConfigParam = {"format": {"type": "json_schema", "schema": prompt.schema}}
        if self._settings.effort is not None:
            output["effort"] = self._settings.effort
        block = {"type": "text", "text": prompt.system, "cache_control": {"type": "ephemeral"}}
        return {
            "model": self._settings.model,
            "max_tokens": self._settings.max_tokens,
            "system": [block],
            "messages": [{"role": "user", "content": user_turn(question)}],
            "output_config": output,
        }


def _make_client(key: str, settings: ModelApiSettings) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(
        api_key=key,
        base_url=settings.base_url,
        timeout=settings.timeout_ms / 1000,
        max_retries=settings.max_retries,
        open_telemetry=False,
        http_client=make_http_client(settings),
    )


def _read_text(message: dict[str, Any]) -> str:
    stopped = message.get("stop_reason")
    if stopped != "end_turn":
        reason = _NO_VERDICT.get(stopped) if isinstance(stopped, str) else None
        raise PortUnavailable(reason or "the model stopped without an answer")
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    spoken = [block for block in blocks if not (isinstance(block, dict) and block.get("type") in _THOUGHT)]
    if len(spoken) == 1 and isinstance(spoken[0], dict) and spoken[0].get("type") == "text":
        text = spoken[0].get("text")
        if isinstance(text, str):
            return text
    raise PortUnavailable("the model did not answer with one text")
