"""Calls to Slack: what a later try may mend is told apart from what it does not.

Slack: "conversations.history", "Rate limits", as of 2026.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
import time
from functools import partial
from http.client import HTTPException, HTTPResponse
from typing import TYPE_CHECKING, Any
from urllib.request import HTTPErrorProcessor, HTTPHandler, HTTPSHandler, ProxyHandler, build_opener

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError

from sluice.notify.notifier import TryLaterError, parse_wait
from sluice.notify.slack_blocks import EVENT_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable
    from socket import socket
    from urllib.request import Request

log = logging.getLogger(__name__)
OF_THE_MESSAGE = frozenset({"message_not_found", "cant_update_message", "edit_window_closed"})
OF_THE_BLOCKS = frozenset({"invalid_blocks", "invalid_blocks_format", "msg_too_long", "msg_blocks_too_long"})
OF_THE_CHANNEL = frozenset(
    {"channel_not_found", "is_archived", "not_in_channel", "restricted_action", "no_permission"}
)
MISSING_SCOPE = "missing_scope"
HTTP_OK, TOO_MANY = 200, 429
LONGEST_WORD = 256
_OF_THE_ANSWER = (SlackClientError, OSError, HTTPException, ValueError, LookupError, RecursionError)
"""What bytes of Slack, or of what stands between, raise in urllib and in Slack's client."""
MOST_BYTES, MOST_OF_AN_ERROR = 8 * 1024 * 1024, 64 * 1024
"""Of an answer: a page of the history has 200 messages."""
HISTORY_PAGE, HISTORY_PAGES = 200, 10


class RefusedError(TryLaterError):
    """Slack has told that it did not do it; the message is its code."""


class SlackClient(WebClient):
    """Slack's client, which sends the bot's token to the API's host alone: urllib would send it along to
    wherever a redirect leads. No proxy of the environment is asked for what stays on this machine.

    An answer is not believed, whatever its status: it comes whole within `timeout`, is read up to
    MOST_BYTES, and is a JSON object or an HTTPException."""

    def _perform_urllib_http_request_internal(self, url: str, req: Request) -> dict[str, Any]:
        """Overrides the one place where the client opens a connection."""
        proxied = {} if self.proxy is None or url.startswith("http:") else {"https": self.proxy}
        opener = build_opener(ProxyHandler(proxied), _TimedHandler(context=self.ssl), _EveryStatus())
        with opener.open(req, timeout=self.timeout) as answer:
            most = MOST_BYTES if answer.status == HTTP_OK else MOST_OF_AN_ERROR
            body = answer.read(most).decode("utf-8", "replace")
            headers = {name.title(): value for name, value in answer.headers.items()}
        if answer.status != HTTP_OK:
            body = json.dumps({"ok": False, "error": _read_error(body)})
        elif _parse_object(body) is None:
            raise HTTPException("the answer is none of Slack's")
        return {"status": answer.status, "headers": headers, "body": body}


def _parse_object(body: str) -> dict[str, Any] | None:
    try:
        reply = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return reply if isinstance(reply, dict) else None


def _read_error(body: str) -> str:
    """Slack's word for what went wrong; "" where a page of something between says it."""
    return str((_parse_object(body) or {}).get("error", ""))[:LONGEST_WORD]


class _EveryStatus(HTTPErrorProcessor):
    """Each status is an answer as any other: no redirect is followed, and no error's body left to others."""

    def http_response(self, request: Request, response: HTTPResponse) -> HTTPResponse:
        """Return the response unchanged, whatever its status."""
        del request
        return response

    https_response = http_response


class _TimedHandler(HTTPSHandler, HTTPHandler):
    """Opens both kinds of connections, whose answers have to come within the time of one socket operation:
    urllib's timeout begins anew with every byte that drips."""

    def do_open(self, http_class: Any, req: Request, **how: Any) -> HTTPResponse:
        """Overrides the one place where a connection is made."""

        def connect(host: str, **more: Any) -> Any:
            made = http_class(host, **more)
            made.response_class = _TimedAnswer
            return made

        return super().do_open(connect, req, **how)


class _TimedAnswer(HTTPResponse):
    def __init__(self, sock: socket, *how: Any, **more: Any) -> None:
        super().__init__(sock, *how, **more)
        self.fp = io.BufferedReader(_TimedSocket(self.fp.detach(), sock))


class _TimedSocket(io.RawIOBase):
    """What a socket says until its timeout, counted from now, has passed. Raises TimeoutError."""

    def __init__(self, raw: io.RawIOBase, sock: socket) -> None:
        self._raw, self._sock = raw, sock
        self._until = time.monotonic() + (sock.gettimeout() or 0.0)

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, into: Any, /) -> int | None:
        """Some bytes, 0 at the end."""
        left_s = self._until - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the answer does not end")
        self._sock.settimeout(left_s)
        return self._raw.readinto(into)

    def close(self) -> None:
        """With the socket, if nobody else has it."""
        self._raw.close()
        super().close()


class SlackCalls:
    """Of one app."""

    def __init__(self, client: WebClient) -> None:
        self.client = client

    async def call(self, call: Callable[[], Any], channel: str) -> Any:
        """Slack's answer. Raises TryLaterError, and SlackApiError for what a later try does not mend."""
        try:
            return await asyncio.to_thread(call)
        except SlackApiError as error:
            code = read_code(error)
            if error.response.status_code == TOO_MANY or code == "ratelimited":
                raise RefusedError("asks to wait", channel, _read_retry_after(error)) from None
            if error.response.status_code != HTTP_OK:
                raise TryLaterError(f"answers {error.response.status_code}", "") from None
            if code in OF_THE_MESSAGE | OF_THE_BLOCKS:
                raise
            raise RefusedError(code, channel if code in OF_THE_CHANNEL else "") from None
        except _OF_THE_ANSWER as error:
            raise TryLaterError(f"does not answer: {type(error).__name__}: {error}", "") from None

    async def fetch_history(self, channel: str, since_s: float) -> dict[str, str]:
        """The ts of each of our messages in a channel from that time on, by subject."""
        history: dict[str, str] = {}
        asked: dict[str, Any] = {"channel": channel, "oldest": f"{since_s:.6f}", "limit": HISTORY_PAGE}
        asked["include_all_metadata"] = True
        for _ in range(HISTORY_PAGES):
            try:
                page = await self.call(partial(self.client.conversations_history, **asked), channel)
            except RefusedError as refused:
                if str(refused) != MISSING_SCOPE:
                    raise
                log.warning("slack: without the scope channels:history a message may be posted twice")
                return history
            for message in page.get("messages", ()):
                metadata = message.get("metadata") or {}
                if metadata.get("event_type") == EVENT_TYPE:
                    history[str(metadata.get("event_payload", {}).get("subject_id"))] = message["ts"]
            asked["cursor"] = (page.get("response_metadata") or {}).get("next_cursor")
            if not asked["cursor"]:
                return history
        return history


def read_code(error: SlackApiError) -> str:
    """Slack's word for it."""
    return str(error.response.get("error"))


def _read_retry_after(error: SlackApiError) -> float | None:
    return parse_wait(str(error.response.headers.get("Retry-After", "")))
