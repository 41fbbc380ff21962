"""A server that speaks the chat-completions API without a model: it wants each tool called once."""

from __future__ import annotations

import json
import threading
import uuid
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    """The next message of a conversation: a call of each tool, and after their results the last word."""
    results = [one["content"] for one in asked["messages"] if one["role"] == "tool"]
    if results:
        refused = sum("did not run" in one for one in results)
        return {"role": "assistant", "content": f"{len(results) - refused} done, {refused} refused"}
    names = [one["function"]["name"] for one in asked["tools"]]
    arguments = json.dumps({"status": "closed"})
    calls = [
        {
            "id": f"call-{uuid.uuid4().hex}",
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        for name in names
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


class ChatHandler(BaseHTTPRequestHandler):
    """POST /v1/chat/completions."""

    def do_POST(self) -> None:
        """Answer a conversation."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        reason = "stop" if any(one["role"] == "tool" for one in asked["messages"]) else "tool_calls"
        choice = {"index": 0, "message": answer(asked), "finish_reason": reason}
        body = json.dumps(
            {"object": "chat.completion", "model": asked["model"], "choices": [choice]}
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving(base_url: str | None) -> Iterator[str]:
    """The base URL that is given; where none is, that of this server, which runs meanwhile."""
    if base_url is not None:
        yield base_url
        return
    with ThreadingHTTPServer(("127.0.0.1", 0), ChatHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()
