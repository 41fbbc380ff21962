"""A model's API (Messages API) on this machine: a process of its own that can be stopped and started again.

`python -m load.installations.model_server --port N --takes-ms 300` answers every prompt of the core with what
it asks for. What it says follows from the question's bytes alone, so the same question has the same answer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Self

from load import ROOT
from load.installations.command_process import free_port
from sluice.core.actions.causal import EXTRACT, JUDGE, JUDGE_IN_CONTEXT
from sluice.core.actions.grading import GRADE, GRADE_IN_CONTEXT
from sluice.core.actions.inbound import JUDGE_IN_CONTEXT as CONTENT_IN_CONTEXT
from sluice.core.foundation import content_judge as judge

if TYPE_CHECKING:
    from collections.abc import Mapping

KEY = "sk-a-key-of-nobody"
MODEL = "stand-in-1"
END_S = 10.0
DOUBTED = 0.7
CONSTRAINTS = ["Change nothing that was not asked for."]


def choose_answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a request's prompt: a few say no, a few cannot tell, most say yes."""
    system, question = request["system"][0]["text"], request["messages"][0]["content"]
    share = sha256(question.encode()).digest()[0] / 255
    reasoning = f"It is as it is shown ({share:.3f})."
    if system == EXTRACT.system:
        return {"constraints": CONSTRAINTS}
    if system in (JUDGE.system, JUDGE_IN_CONTEXT.system):
        return {"violation_confidence": round(share**3, 3), "constraint": 1, "reasoning": reasoning}
    if system in (GRADE.system, GRADE_IN_CONTEXT.system):
        return {"compliance": round(1 - share**4, 3), "reasoning": reasoning}
    trust = round(1 - share**4, 3)
    worst = (
        {"text": int(trust < DOUBTED)} if system in (judge.PROMPT.system, CONTENT_IN_CONTEXT.system) else {}
    )
    return {"trust": trust, "categories": [], "explanation": reasoning, **worst}


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, takes_s: float) -> None:
    with suppress(ConnectionError, asyncio.IncompleteReadError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                int(line.partition(b":")[2])
                for line in head.split(b"\r\n")
                if line.lower().startswith(b"content-length:")
            )
            request = json.loads(await reader.readexactly(length))
            if takes_s:
                await asyncio.sleep(takes_s)
            text = json.dumps(choose_answer(request))
            used = {"input_tokens": len(request["messages"][0]["content"]) // 4, "output_tokens": 40}
            body = json.dumps(
                {
                    "id": "msg_1",
                    "type": "message",
                    "role": "assistant",
                    "model": MODEL,
                    "content": [{"type": "text", "text": text}],
                    "stop_reason": "end_turn",
                    "stop_sequence": None,
                    "usage": used,
                }
            ).encode()
            head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
            writer.write(head % len(body) + body)
            await writer.drain()
    writer.close()


async def _run(port: int, takes_s: float) -> None:
    server = await asyncio.start_server(
        lambda reader, writer: _serve(reader, writer, takes_s), "127.0.0.1", port, backlog=1024
    )
    async with server:
        await server.serve_forever()


class ModelServer:
    """A context manager: started inside, killed behind it."""

    def __init__(self, takes_ms: int = 0) -> None:
        """`takes_ms`: how long each answer takes."""
        self._port = free_port()
        self._takes_ms = takes_ms
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """The settings of a worker that asks it, about actions and about content."""
        settings = {"BASE_URL": f"http://127.0.0.1:{self._port}", "MODEL": MODEL, "API_KEY": KEY}
        return {
            f"SLUICE_{of}__{name}": value for of in ("GRADER", "ANALYSIS") for name, value in settings.items()
        }

    @property
    def base_url(self) -> str:
        """Where it listens, the same after each start."""
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Return when it listens."""
        words = ["--port", str(self._port), "--takes-ms", str(self._takes_ms)]
        self._process = subprocess.Popen([sys.executable, "-m", __name__, *words], cwd=ROOT)
        while True:
            if self._process.poll() is not None:
                raise RuntimeError("the model server has ended")
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
                return
            time.sleep(0.02)

    def send(self, number: int) -> None:
        """A signal: SIGSTOP makes it hang with its port open."""
        if self._process is not None:
            self._process.send_signal(number)

    def stop(self) -> None:
        """Kill it, whatever state it is in."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(END_S)
            self._process = None

    def __enter__(self) -> Self:
        """Started."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Killed."""
        self.stop()


def main() -> None:
    """Serve until a signal ends it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--takes-ms", type=int, default=0)
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: whoever started it ends it
    asyncio.run(_run(options.port, options.takes_ms / 1000))


if __name__ == "__main__":
    main()
