"""What all adapters of hosted models' HTTP APIs share: settings, a transport that bounds the server, and what
its refusals mean.

The transport does not believe the server: it bounds what the server says and drops its remarks. No redirect
is followed (the key would go along), and nothing is read out of the environment.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import httpx2

from sluice.adapters.models.prompted_port import ModelDown
from sluice.core.foundation.strict import json_object
from sluice.ports import PortUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pydantic import SecretStr

MAX_BODY = 256 * 1024
"""Bytes of any response; an answer of 2,048 tokens takes about 8 KiB."""
OF_THE_ANSWER = (
    httpx2.HTTPError,
    httpx2.InvalidURL,
    httpx2.StreamError,
    ValueError,
    LookupError,
    AssertionError,
)
"""What a client and the codecs below it raise at an answer that they cannot take."""
BROKEN = "the connection to the model's API failed"
_BODY_IS = ("content-type", "application/json")
_WAITS = ("retry-after", "retry-after-ms")
_WAIT = re.compile(r"[0-9]{1,6}")
"""RFC 9110, section 10.2.3, without its dates: a year of 8 digits has the reader of dates raise."""
_MEANING = {
    400: "it refused the request",
    401: "it refused the key",
    403: "the key may not do this",
    404: "it does not know the model or the path",
    413: "the text is too large for it",
    422: "it refused the request",
    429: "too many requests",
    503: "it is overloaded",
    529: "it is overloaded",
}
_OF_THE_QUESTION = (400, 413, 422)
"""Refusals that another question need not get."""


@dataclass(frozen=True, slots=True)
class ModelApiSettings:
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
        response.headers = httpx2.Headers([_BODY_IS, *_read_waits(response.headers)])
        response.stream = _CountedBody(body, self._max_bytes)
        return response

    async def aclose(self) -> None:
        """Close every connection."""
        await self._inner.aclose()


def _read_waits(headers: httpx2.Headers) -> list[tuple[str, str]]:
    """How long to wait before the next request, in s and ms, where the server says so readably."""
    waits = [(name, headers.get(name, "")) for name in _WAITS]
    return [(name, value) for name, value in waits if _WAIT.fullmatch(value)]


class _CountedBody(httpx2.AsyncByteStream):
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


def make_http_client(settings: ModelApiSettings) -> httpx2.AsyncClient:
    """A client with the bounds above, no redirects, and no proxy or trace settings out of the environment."""
    limits = httpx2.Limits(max_connections=settings.max_connections)
    transport = BoundedTransport(httpx2.AsyncHTTPTransport(limits=limits, trust_env=False), MAX_BODY)
    return httpx2.AsyncClient(
        transport=transport, timeout=settings.timeout_ms / 1000, follow_redirects=False, trust_env=False
    )


def check_key(api_key: SecretStr) -> str:
    """The key. Raises ValueError, without the key, when it cannot be one: it goes into a header as it is."""
    key = api_key.get_secret_value()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ValueError("the API key is empty or holds characters that no key has")
    return key


def read_message(body: bytes) -> dict[str, Any]:
    """The JSON object that a response is. Raises PortUnavailable with no word of it."""
    try:
        return json_object(body)
    except ValueError:
        reason = "the model's API did not answer with one JSON object"
    raise PortUnavailable(reason)


def make_refusal(status: int) -> PortUnavailable:
    """What a status other than success means: a ModelDown where it says nothing of the question."""
    kind = PortUnavailable if status in _OF_THE_QUESTION else ModelDown
    return kind(f"the model's API answered {status}: {_MEANING.get(status, 'it failed')}")


def make_too_late(settings: ModelApiSettings) -> ModelDown:
    """No answer within the settings' time."""
    return ModelDown(f"the model did not answer within {settings.timeout_ms} ms")
