"""Slack's Web API on a loopback server, as far as Sluice uses it, with the faults that a real one has.

It keeps messages as Slack does, refuses what Slack refuses (a wrong token, a foreign message, blocks beyond
the documented bounds), and signs what people press.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.parse
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from slack_sdk.signature import SignatureVerifier

from load.installations.loopback_http import HttpAnswer, HttpCall, LoopbackServer

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN, SECRET = "xoxb-of-the-tests", "8f742231b10e8888abcd99yyyzzz85a5"
_BOUNDS = {"header": 150, "section": 3000, "button": 75}
Fault = tuple[str, float]
"""What the server does instead of answering: a status with its Retry-After, or "lost", which does what was
asked, and then says nothing for so many seconds and closes the connection."""


@dataclass
class SlackApi:
    """`calls`: each request, as its method and its arguments. `messages`: by channel and ts, as last updated.
    `replies`: messages in threads. `views`: what was opened."""

    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    messages: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    replies: list[dict[str, Any]] = field(default_factory=list)
    ephemeral: list[dict[str, Any]] = field(default_factory=list)
    views: list[dict[str, Any]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    port: int = 0
    _server: LoopbackServer | None = None
    _lock: Any = field(default_factory=threading.Lock)
    _last_ts: int = 0

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"http://127.0.0.1:{self.port}/api/"

    def start(self) -> None:
        """Listen, on the same port as before."""
        self._server = LoopbackServer(self._serve, self.port)
        self.port = self._server.port

    def stop(self) -> None:
        """Refuse connections."""
        if self._server is not None:
            self._server.stop()
            self._server = None

    def list_messages(self, subject_id: str) -> list[dict[str, Any]]:
        """The messages of an escalation or a held memory, as they stand."""
        return [
            message
            for message in self.messages.values()
            if message["metadata"]["event_payload"]["subject_id"] == subject_id
        ]

    def answer(self, method: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """What Slack answers to a call."""
        with self._lock:
            self.calls.append((method, arguments))
            methods = {
                "chat.postMessage": self._post,
                "chat.update": self._update,
                "chat.postEphemeral": self._whisper,
                "conversations.history": self._history,
                "views.open": self._open,
            }
            return {"ok": True} | methods[method](arguments)

    def _post(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if wrong := _wrong(arguments):
            return wrong
        self._last_ts = max(self._last_ts + 1, time.time_ns() // 1000)
        ts = f"{self._last_ts // 1_000_000}.{self._last_ts % 1_000_000:06d}"
        if "thread_ts" in arguments:
            self.replies.append(arguments)
        else:
            self.messages[arguments["channel"], ts] = {**arguments, "ts": ts}
        return {"channel": arguments["channel"], "ts": ts}

    def _update(self, arguments: dict[str, Any]) -> dict[str, Any]:
        key = arguments["channel"], arguments["ts"]
        if key not in self.messages:
            return {"ok": False, "error": "message_not_found"}
        if wrong := _wrong(arguments):
            return wrong
        self.messages[key] |= arguments
        return {"channel": key[0], "ts": key[1]}

    def _whisper(self, arguments: dict[str, Any]) -> dict[str, Any]:
        self.ephemeral.append(arguments)
        return {"message_ts": "1.0"}

    def _history(self, arguments: dict[str, Any]) -> dict[str, Any]:
        oldest = float(arguments["oldest"])
        messages = [
            message
            for (channel, ts), message in self.messages.items()
            if channel == arguments["channel"] and float(ts) > oldest
        ]
        shown = (
            messages
            if arguments.get("include_all_metadata")
            else [dict(message, metadata=None) for message in messages]
        )
        return {"messages": shown[::-1], "has_more": False}

    def _open(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if arguments["trigger_id"] != "trigger":
            return {"ok": False, "error": "expired_trigger_id"}
        view = arguments["view"] if isinstance(arguments["view"], dict) else json.loads(arguments["view"])
        if wrong := _wrong(view):
            return wrong
        self.views.append(view)
        return {"view": {"id": f"V{len(self.views)}"}}

    def _serve(self, call: HttpCall) -> HttpAnswer | None:
        """One call."""
        arguments = _read(call.body, call.headers["Content-Type"])
        fault = self.faults.pop(0) if self.faults else ("", 0.0)
        if fault[0] and fault[0] != "lost":
            return _say(int(fault[0]), {"ok": False, "error": "ratelimited"}, str(int(fault[1])))
        answer = {"ok": False, "error": "invalid_auth"}
        if call.headers["Authorization"] == f"Bearer {TOKEN}":
            answer = self.answer(call.path.rpartition("/")[2], arguments)
        if fault[0] == "lost":
            time.sleep(fault[1])
            return None
        return _say(200, answer)


def _say(status: int, answer: dict[str, Any], retry_after: str | None = None) -> HttpAnswer:
    headers = {"Content-Type": "application/json; charset=utf-8"}
    if retry_after is not None:
        headers["Retry-After"] = retry_after
    return HttpAnswer(status, json.dumps(answer).encode(), headers)


def _read(body: bytes, kind: str) -> dict[str, Any]:
    if kind.startswith("application/json"):
        return dict(json.loads(body))
    return dict(urllib.parse.parse_qsl(body.decode()))


def _wrong(arguments: dict[str, Any]) -> dict[str, Any] | None:
    """What Slack says of blocks that it does not take."""
    for block in arguments.get("blocks", ()):
        text = block.get("text", {}).get("text", "x")
        fields = block.get("fields", [])
        most = _BOUNDS.get(block["type"], 3000)
        if not 0 < len(text) <= most or len(fields) > 10 or any(len(item["text"]) > 2000 for item in fields):
            return {"ok": False, "error": "invalid_blocks"}
    return None


@contextmanager
def slack_api() -> Iterator[SlackApi]:
    """A running server."""
    api = SlackApi()
    api.start()
    try:
        yield api
    finally:
        api.stop()


def sign_request(
    payload: dict[str, Any], secret: str = SECRET, late_s: float = 0.0
) -> tuple[bytes, dict[str, str]]:
    """The body and the headers of an interaction, as Slack sends them."""
    body = urllib.parse.urlencode({"payload": json.dumps(payload)}).encode()
    timestamp = str(int(time.time() - late_s))
    signature = SignatureVerifier(secret).generate_signature(timestamp=timestamp, body=body) or ""
    headers = {
        "Content-Type": "application/x-www-form-urlencoded",
        "X-Slack-Request-Timestamp": timestamp,
        "X-Slack-Signature": signature,
    }
    return body, headers


def slack_settings(api: SlackApi, channels: list[dict[str, str]], **more: Any) -> dict[str, str]:
    """Settings of the group slack, as environment variables, and a notifier's patience on a loopback."""
    options = {"channels": channels, "base_url": api.url, **more}
    variables = {
        f"SLUICE_SLACK__{name.upper()}": value if isinstance(value, str) else json.dumps(value)
        for name, value in options.items()
    }
    quick = {"SLUICE_NOTIFY__FIRST_RETRY_S": "0.1", "SLUICE_NOTIFY__LONGEST_RETRY_S": "0.4"}
    return {**variables, **quick, "SLACK_BOT_TOKEN": TOKEN, "SLACK_SIGNING_SECRET": SECRET}
