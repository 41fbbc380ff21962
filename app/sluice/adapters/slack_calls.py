"""Calls to Slack: what a later try may mend is told apart from what it does not.

Slack: "conversations.history", "Rate limits", as of 2026.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from http.client import HTTPException
from typing import IO, TYPE_CHECKING, Any
from urllib.request import HTTPRedirectHandler, HTTPSHandler, ProxyHandler, build_opener

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError

from sluice.notify.notifier import TryLaterError, read_wait
from sluice.notify.slack_blocks import EVENT_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable
    from email.message import Message
    from urllib.request import Request

log = logging.getLogger(__name__)
OF_THE_MESSAGE = frozenset({"message_not_found", "cant_update_message", "edit_window_closed"})
OF_THE_BLOCKS = frozenset({"invalid_blocks", "invalid_blocks_format", "msg_too_long", "msg_blocks_too_long"})
OF_THE_CHANNEL = frozenset(
    {"channel_not_found", "is_archived", "not_in_channel", "restricted_action", "no_permission"}
)
MISSING_SCOPE = "missing_scope"
HTTP_OK, TOO_MANY = 200, 429
MOST_BYTES = 8 * 1024 * 1024
"""Of an answer: a page of the history has 200 messages."""
HISTORY_PAGE, HISTORY_PAGES = 200, 10


class RefusedError(TryLaterError):
    """Slack has told that it did not do it; the message is its code."""


class SlackClient(WebClient):
    """Slack's client, which sends the bot's token to the API's host alone: urllib would send it along to
    wherever a redirect leads. No proxy of the environment is asked for what stays on this machine."""

    def _perform_urllib_http_request_internal(self, url: str, req: Request) -> dict[str, Any]:
        """Overrides the one place where the client opens a connection."""
        proxied = {} if self.proxy is None or url.startswith("http:") else {"https": self.proxy}
        opener = build_opener(ProxyHandler(proxied), HTTPSHandler(context=self.ssl), _NoRedirects())
        with opener.open(req, timeout=self.timeout) as answer:
            body = answer.read(MOST_BYTES + 1)
            if len(body) > MOST_BYTES:
                raise HTTPException("the answer is longer than any of Slack's")
            return {"status": answer.code, "headers": answer.headers, "body": body.decode()}


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        """None: the redirect is the answer, a status as any other."""
        del req, fp, code, msg, headers, newurl


class SlackCalls:
    """Of one app."""

    def __init__(self, client: WebClient) -> None:
        self.client = client

    async def call(self, call: Callable[[], Any], channel: str) -> Any:
        """Slack's answer. Raises TryLaterError, and SlackApiError for what a later try does not mend."""
        try:
            return await asyncio.to_thread(call)
        except SlackApiError as error:
            code = code_of(error)
            if error.response.status_code == TOO_MANY or code == "ratelimited":
                raise RefusedError("asks to wait", channel, _retry_after(error)) from None
            if error.response.status_code != HTTP_OK:
                raise TryLaterError(f"answers {error.response.status_code}", "") from None
            if code in OF_THE_MESSAGE | OF_THE_BLOCKS:
                raise
            raise RefusedError(code, channel if code in OF_THE_CHANNEL else "") from None
        except (SlackClientError, OSError, HTTPException) as error:
            raise TryLaterError(f"does not answer: {type(error).__name__}: {error}", "") from None

    async def history(self, channel: str, since_s: float) -> dict[str, str]:
        """The ts of each of our messages in a channel from that time on, by subject."""
        found: dict[str, str] = {}
        asked: dict[str, Any] = {"channel": channel, "oldest": f"{since_s:.6f}", "limit": HISTORY_PAGE}
        asked["include_all_metadata"] = True
        for _ in range(HISTORY_PAGES):
            try:
                page = await self.call(partial(self.client.conversations_history, **asked), channel)
            except RefusedError as refused:
                if str(refused) != MISSING_SCOPE:
                    raise
                log.warning("slack: without the scope channels:history a message may be posted twice")
                return found
            for message in page.get("messages", ()):
                metadata = message.get("metadata") or {}
                if metadata.get("event_type") == EVENT_TYPE:
                    found[str(metadata.get("event_payload", {}).get("subject_id"))] = message["ts"]
            asked["cursor"] = (page.get("response_metadata") or {}).get("next_cursor")
            if not asked["cursor"]:
                return found
        return found


def code_of(error: SlackApiError) -> str:
    """Slack's word for it."""
    return str(error.response.get("error"))


def _retry_after(error: SlackApiError) -> float | None:
    said = error.response.headers.get("Retry-After", "")
    return read_wait(str(said[0] if isinstance(said, list) else said))
