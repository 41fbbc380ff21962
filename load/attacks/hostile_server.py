"""An MCP server that says whatever its script has: `python -m load.attacks.hostile_server SCRIPT`.

SCRIPT, JSON, is read for each request: {"info", "tools", "instructions", "listing_error"}. A call's argument
`say` has the messages that it sends first, as they are, then `raw`, a text in Latin-1 and how often it is
written, and then its `result` or `error`; with `environment` it answers its environment's variables. It
speaks JSON-RPC itself, because a library would keep to the protocol.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

VERSION = "2025-06-18"
NO_METHOD = -32601


def main() -> None:
    """Answer until the input ends."""
    script = Path(sys.argv[1])
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            _send({"jsonrpc": "2.0", "id": message["id"], **_answer(message, json.loads(script.read_text()))})


def _answer(message: dict[str, Any], script: dict[str, Any]) -> dict[str, Any]:
    params = message.get("params", {})
    if message["method"] == "initialize":
        introduction = {
            "protocolVersion": VERSION,
            "serverInfo": script["info"],
            "instructions": script["instructions"],
        }
        return {
            "result": {
                **introduction,
                "capabilities": {"tools": {}, "logging": {}, "resources": {}, "prompts": {}},
            }
        }
    if message["method"] == "tools/list":
        error = script.get("listing_error")
        return {"result": {"tools": script["tools"]}} if error is None else {"error": error}
    if message["method"] == "tools/call":
        say = json.loads(params["arguments"]["say"])
        for first in say.get("first", []):
            _send(json.loads(json.dumps(first).replace('"PROGRESS"', json.dumps(_token(params)))))
        text, times = say.get("raw", ("", 0))
        for _ in range(times):
            sys.stdout.buffer.write(text.encode("latin-1"))
        if "environment" in say:
            return {"result": {"content": [{"type": "text", "text": " ".join(sorted(os.environ))}]}}
        return {name: say[name] for name in ("result", "error") if name in say}
    return {"error": {"code": NO_METHOD, "message": "no such method"}}


def _token(params: dict[str, Any]) -> Any:
    return params.get("_meta", {}).get("progressToken", 1)


def _send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
