"""A model of the Anthropic API through its SDK, which answers the core's prompts.

Structured output comes by `output_config.format`, not by a forced tool call: current models (Claude Opus 5.5,
Claude Fable 5.1) refuse `tool_choice` of one tool, and API version 2026-10-21 refuses `temperature`, even 0.
The SDK's own error texts are never passed on: they quote the server, which knows the key.

The HTTP transport does not believe the server: it bounds what the server says and drops its remarks.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import anthropic
import httpx2

from app.adapters.models.prompted_port import ModelUsage, read_reply
from app.core.foundation.prompts import user_turn
from app.core.foundation.strict import json_object
from app.ports import PortUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anthropic.types import OutputConfigParam
    from pydantic import SecretStr

    from app.core.foundation.prompts import ModelAnswer, Prompt


_BODY_IS = ("content-type", "application/json")
_WAITS = ("retry-after", "retry-after-ms")
_WAIT = re.compile(r"[0-9]{1,6}")
"""RFC 9110, section 10.2.3, without its dates: a year of 8 digits has the reader of dates raise."""


class BoundedTransport(httpx2.AsyncBaseTransport):
    """Breaks off a response, of any status, beyond `max_bytes`, and one that is compressed.

    Both raise httpx2.RemoteProtocolError: to the client above, a broken connection. Compressed bytes could
    unfold to any size behind the bound. Of the headers only a wait in plain digits is passed on, and every
    body is JSON in UTF-8: the charset that a server names is that of a codec which may raise anything.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport, max_bytes: int) -> None:
        self._inner = inner
        self._max_bytes = max_bytes

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The inner transport's response, with its body counted as it is read."""
        request.headers["accept-encoding"] = "identity"
        response = await self._inner.handle_async_request(request)
        body = response.stream
        if not isinstance(body, httpx2.AsyncByteStream):
            raise httpx2.RemoteProtocolError("no asynchronous body", request=request)
        if response.headers.get("content-encoding", "identity") != "identity":
            await body.aclose()
            raise httpx2.RemoteProtocolError("compressed though identity was asked for", request=request)
        response.extensions.pop("reason_phrase", None)  # the server's own words, which httpx2 would log
        response.headers = httpx2.Headers([_BODY_IS, *_waits(response.headers)])
        response.stream = _Counted(body, self._max_bytes)
        return response

    async def aclose(self) -> None:
        """Close every connection."""
        await self._inner.aclose()


def _waits(headers: httpx2.Headers) -> list[tuple[str, str]]:
    """How long to wait before the next request, in s and ms, where the server says so readably."""
    said = [(name, headers.get(name, "")) for name in _WAITS]
    return [(name, value) for name, value in said if _WAIT.fullmatch(value)]


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, max_bytes: int) -> None:
        self._inner = inner
        self._left = max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            self._left -= len(chunk)
            if self._left < 0:
                raise httpx2.RemoteProtocolError("the response is longer than any answer")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


_THOUGHT = ("thinking", "redacted_thinking")
_NO_VERDICT = {
    "refusal": "the model declined to judge the text",
    "max_tokens": "the model's answer was cut off at max_tokens",
    "model_context_window_exceeded": "the text does not fit the model's context window",
}


def answer_in(body: bytes, prompt: Prompt[Any], secret: str) -> ModelAnswer:
    """The answer in a response, never with `secret` in it. Raises PortUnavailable with no word of the body.

    Only the shape that was asked for counts: one text block that holds the JSON object of the prompt's
    schema. Everything else (another block, another stop reason, a field more or less, a number out of range)
    is unreadable.
    """
    message = _message(body)
    return read_reply(prompt, message.get("model"), _text(message), secret)


def _message(body: bytes) -> dict[str, Any]:
    try:
        return json_object(body)
    except ValueError:
        reason = "the model's API did not answer with one JSON object"
    raise PortUnavailable(reason)


def _text(message: dict[str, Any]) -> str:
    stopped = message.get("stop_reason")
    if stopped != "end_turn":
        raise PortUnavailable(_no_verdict(stopped))
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    said = [block for block in blocks if not (isinstance(block, dict) and block.get("type") in _THOUGHT)]
    if len(said) == 1 and isinstance(said[0], dict) and said[0].get("type") == "text":
        text = said[0].get("text")
        if isinstance(text, str):
            return text
    raise PortUnavailable("the model did not answer with one text")


def _no_verdict(stopped: object) -> str:
    known = _NO_VERDICT.get(stopped) if isinstance(stopped, str) else None
    return known or "the model stopped without an answer"


MAX_BODY = 256 * 1024
"""Bytes of any response; an answer of 2,048 tokens takes about 8 KiB."""
_OF_THE_ANSWER = (
    httpx2.HTTPError,
    httpx2.InvalidURL,
    httpx2.StreamError,
    ValueError,
    LookupError,
    AssertionError,
)
"""What the SDK and the codecs below it raise, beside the SDK's own, at an answer that they cannot take."""
_MEANING = {
    400: "it refused the request",
    401: "it refused the key",
    403: "the key may not do this",
    404: "it does not know the model or the path",
    413: "the text is too large for it",
    429: "too many requests",
    529: "it is overloaded",
}


@dataclass(frozen=True, slots=True)
class AnthropicSettings:
    """Where the model is and how it is asked.

    `timeout_ms` bounds an answer with all retries, beside the budget of whoever asks. `max_tokens` holds the
    model's thinking too. `effort` None leaves the model's default, for models that have no such setting.
    """

    model: str
    base_url: str
    timeout_ms: int
    max_tokens: int
    max_retries: int
    max_connections: int
    effort: Literal["low", "medium", "high"] | None


class AnthropicModel:
    """One client for all questions of a worker. Opens no connection before the first question."""

    def __init__(self, api_key: SecretStr, settings: AnthropicSettings) -> None:
        """Raises ValueError, without the key, when it cannot be one: it goes into a header as it is."""
        key = api_key.get_secret_value()
        if not key or not key.isascii() or not key.isprintable() or " " in key:
            raise ValueError("the API key is empty or holds characters that no key has")
        self.name = settings.model
        self.usage = ModelUsage()
        self._key = api_key
        self._settings = settings
        self._client = _client(key, settings)
        self._create = self._client.messages.with_raw_response.create

    async def judge(self, prompt: Prompt[Any], question: object) -> ModelAnswer:
        """The model's answer to a question of a prompt. Raises PortUnavailable."""
        body = await self._body(prompt, question)
        self.usage.add(_message(body).get("usage"))
        return answer_in(body, prompt, self._key.get_secret_value())

    async def close(self) -> None:
        """Close every connection."""
        await self._client.close()

    async def _body(self, prompt: Prompt[Any], question: object) -> bytes:
        try:
            async with asyncio.timeout(self._settings.timeout_ms / 1000):
                response = await self._create(**self._request(prompt, question))
                body: bytes = await response.read()
                return body
        except anthropic.APIStatusError as error:
            reason = _refusal(error.status_code)
        except (anthropic.APITimeoutError, TimeoutError):
            reason = f"the model did not answer within {self._settings.timeout_ms} ms"
        except (anthropic.AnthropicError, *_OF_THE_ANSWER):
            reason = "the connection to the model's API failed"
        # Out here, so that no traceback leads to the SDK's error and the request with its headers.
        raise PortUnavailable(reason)

    def _request(self, prompt: Prompt[Any], question: object) -> dict[str, Any]:
        """The constant part is marked for the server's prompt cache."""
        output: OutputConfigParam = {"format": {"type": "json_schema", "schema": prompt.schema}}
        if self._settings.effort is not None:
            output["effort"] = self._settings.effort
        told = {"type": "text", "text": prompt.system, "cache_control": {"type": "ephemeral"}}
        return {
            "model": self._settings.model,
            "max_tokens": self._settings.max_tokens,
            "system": [told],
            "messages": [{"role": "user", "content": user_turn(question)}],
            "output_config": output,
        }


def _client(key: str, settings: AnthropicSettings) -> anthropic.AsyncAnthropic:
    """No redirects (the key would go along), no proxy or trace settings out of the environment."""
    limits = httpx2.Limits(max_connections=settings.max_connections)
    transport = BoundedTransport(httpx2.AsyncHTTPTransport(limits=limits, trust_env=False), MAX_BODY)
    timeout = settings.timeout_ms / 1000
    return anthropic.AsyncAnthropic(
        api_key=key,
        base_url=settings.base_url,
        timeout=timeout,
        max_retries=settings.max_retries,
        open_telemetry=False,
        http_client=httpx2.AsyncClient(
            transport=transport, timeout=timeout, follow_redirects=False, trust_env=False
        ),
    )


def _refusal(status: int) -> str:
    meaning = _MEANING.get(status, "it failed")
    return f"the model's API answered {status}: {meaning}"
