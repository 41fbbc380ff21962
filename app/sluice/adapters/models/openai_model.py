"""A model behind the OpenAI-compatible chat completions API (vLLM, Ollama, llama.cpp, and others), which
answers the core's prompts.

It speaks HTTP itself, not through the `openai` package: that reads headers, keys and the account out of the
environment, and needs a key even where the server has none. A local server wants no key: then none is sent.
Structured output comes by `response_format`, which those servers hold the model to.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import httpx2

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
    from pydantic import SecretStr

    from sluice.core.foundation.prompts import ModelAnswer, Prompt

FIRST_WAIT_S = 0.5
"""Before the second try, twice as long before each further one, unless the server says how long."""
_OK = 200
_AGAIN = frozenset({408, 409, 429, *range(500, 600)})
_NO_VERDICT = {
    "length": "the model's answer was cut off at max_tokens",
    "content_filter": "the model declined to judge the text",
}


class OpenAiModel:
    """One client for all questions of a worker. Opens no connection before the first question."""

    def __init__(self, api_key: SecretStr, settings: ModelApiSettings) -> None:
        """An empty key: none is sent. Raises ValueError, without the key, when it cannot be one."""
        self.name = settings.model
        self.usage = ModelUsage()
        self._key = api_key
        self._settings = settings
        self._url = settings.base_url.rstrip("/") + "/chat/completions"
        self._headers = {"content-type": "application/json", "accept": "application/json"}
        if api_key.get_secret_value():
            self._headers["authorization"] = f"Bearer {check_key(api_key)}"
        self._client = make_http_client(settings)

    async def judge(self, prompt: Prompt[Any], question: object) -> ModelAnswer:
        """The model's answer to a question of a prompt. Raises PortUnavailable.

        Only the shape that was asked for counts: one choice, which stopped by itself, whose text is the JSON
        object of the prompt's schema.
        """
        message = read_message(await self._fetch_body(self._build_request(prompt, question)))
        self.usage.add(message.get("usage"))
        return read_reply(prompt, message.get("model"), _read_text(message), self._key.get_secret_value())

    async def close(self) -> None:
        """Close every connection."""
        await self._client.aclose()

    async def _fetch_body(self, request: dict[str, Any]) -> bytes:
        content = json.dumps(request).encode()
        reason: PortUnavailable
        try:
            async with asyncio.timeout(self._settings.timeout_ms / 1000):
                status, body = await self._try(content)
            if status == _OK:
                return body
            reason = make_refusal(status)
        except (httpx2.TimeoutException, TimeoutError):
            reason = make_too_late(self._settings)
        except OF_THE_ANSWER:
            reason = ModelDown(BROKEN)
        # Out here, so that no traceback leads to the client's error and the request with its headers.
        raise reason

    async def _try(self, content: bytes) -> tuple[int, bytes]:
        """Status and body of the first answer that asks for no further try, or of the last try."""
        tries_left = self._settings.max_retries
        wait_s = FIRST_WAIT_S
        while True:
            said_s = None
            try:
                response = await self._client.post(self._url, content=content, headers=self._headers)
            except httpx2.TransportError:
                if not tries_left:
                    raise
            else:
                if not tries_left or response.status_code not in _AGAIN:
                    return response.status_code, response.content
                said_s = _read_wait(response.headers)
            tries_left -= 1
            await asyncio.sleep(wait_s if said_s is None else said_s)
            wait_s *= 2

    def _build_request(self, prompt: Prompt[Any], question: object) -> dict[str, Any]:
        """A model with `effort` reasons: such models refuse a temperature, and count their thoughts too."""
        settings = self._settings
        bound: dict[str, Any] = {"max_tokens": settings.max_tokens, "temperature": 0}
        if settings.effort is not None:
            bound = {"max_completion_tokens": settings.max_tokens, "reasoning_effort": settings.effort}
        named = {"name": prompt.name, "strict": True, "schema": prompt.schema}
        return {
            "model": settings.model,
            "messages": [
                {"role": "system", "content": prompt.system},
                {"role": "user", "content": user_turn(question)},
            ],
            "response_format": {"type": "json_schema", "json_schema": named},
            "stream": False,
            **bound,
        }


def _read_wait(headers: httpx2.Headers) -> float | None:
    """The wait that the server asks for; the transport lets through digits alone."""
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        if name in headers:
            return int(headers[name]) * unit_s
    return None


def _read_text(message: dict[str, Any]) -> str:
    choices = message.get("choices")
    choice = choices[0] if isinstance(choices, list) and len(choices) == 1 else None
    reply = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(reply, dict):
        raise PortUnavailable("the model did not answer with one text")
    stopped = choice.get("finish_reason")
    if reply.get("refusal"):
        raise PortUnavailable(_NO_VERDICT["content_filter"])
    if stopped != "stop":
        reason = _NO_VERDICT.get(stopped) if isinstance(stopped, str) else None
        raise PortUnavailable(reason or "the model stopped without an answer")
    text = reply.get("content")
    if not isinstance(text, str) or reply.get("tool_calls"):
        raise PortUnavailable("the model did not answer with one text")
    return text
