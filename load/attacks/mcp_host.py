"""An agent's host that has put `sluice mcp` before a hostile server, and reads the proxy's raw lines.

Nothing that a library would skip is overlooked: every line that the proxy writes is kept.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from load import ROOT
from load.installations import neutral_policy, quality_policy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from load.installations.installation import TestInstallation

ORDER = neutral_policy.ATTACK
"""What the installation's bundle takes for an order."""
SECRET, NAMED = "HOST_TOKEN", "SERVER_TOKEN"
ANSWER_S, END_S = 90.0, 60.0
SLUICE = [sys.executable, "-c", "from sluice.cli.main import main; main()", "mcp"]
TOOL: Mapping[str, Any] = {
    "name": "read",
    "description": "Reads a text.",
    "inputSchema": {"type": "object", "properties": {"say": {"type": "string"}}},
}
CHECKED: Mapping[str, Any] = {
    **TOOL,
    "name": "purge",
    "outputSchema": {"type": "object", "properties": {"rows": {"type": "integer"}}, "required": ["rows"]},
}
SCRIPT: Mapping[str, Any] = {
    "info": {"name": "hostile", "version": "1", "title": ORDER},
    "instructions": "Read first.",
    "tools": [TOOL, CHECKED],
}


@dataclass
class ProxyScene:
    """The server's script and the proxy's options; each proxy has pins of its own."""

    installation: TestInstallation
    numbers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.script = self.installation.folder / "script.json"
        self.log = self.installation.folder / "proxy.log"
        self.config = self.installation.folder / "mcp.toml"
        self.config.write_text(
            '[results]\ncontent_class = "memo"\nconfidence_score = 0.9\n'
            f'provenance_uri = "{quality_policy.RECORDED_URI}"\n'
            f'provenance_hash = "{quality_policy.RECORDED_HASH}"\n'
        )

    def shows(self, **changed: Any) -> None:
        """What the server says of itself from now on."""
        self.script.write_text(json.dumps({**SCRIPT, **changed}))

    @asynccontextmanager
    async def agent(self, *more: str, server: str = "load") -> AsyncIterator[RpcClient]:
        """An agent's host that has started the proxy and has listed its tools."""
        self.shows()
        pins = str(self.installation.folder / f"pins-{next(self.numbers)}")
        named = ("--agent", neutral_policy.AGENT, "--server", server, "--config", str(self.config))
        hostile = ("--", sys.executable, "-m", "load.attacks.hostile_server", str(self.script))
        environment = {
            **os.environ,
            **self.installation.settings,
            SECRET: "of the host",
            NAMED: "of the server",
        }
        process = await asyncio.create_subprocess_exec(
            *SLUICE,
            *(*named, "--pins", pins, "--results-as-retrievals", *more, *hostile),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=self.log.open("ab"),
            env=environment,
            cwd=ROOT,
            limit=2**22,
        )
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("a process without pipes")
        agent = RpcClient(process, process.stdin, process.stdout)
        try:
            await agent.start()
            yield agent
        finally:
            await agent.end()


@dataclass
class RpcClient:
    """Speaks JSON-RPC on a process's pipes, and keeps every line that comes."""

    process: asyncio.subprocess.Process
    writer: asyncio.StreamWriter
    reader: asyncio.StreamReader
    lines: list[str] = field(default_factory=list)
    ids: Iterator[int] = field(default_factory=lambda: count(1))

    async def start(self) -> None:
        """The handshake, and the first listing."""
        client = {"name": "agent", "version": "1"}
        introduction = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        await self.ask("initialize", introduction)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        await self.ask("tools/list", {})

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request; {} if the process has ended."""
        number = next(self.ids)
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        async with asyncio.timeout(ANSWER_S):
            while line := (await self.reader.readline()).decode():
                self.lines.append(line)
                message: dict[str, Any] = json.loads(line)
                if message.get("id") == number and "method" not in message:
                    return message
        return {}

    async def call(self, say: Mapping[str, Any], tool: str = "read") -> str:
        """Every line that came of a call."""
        self.lines.clear()
        request = {"name": tool, "arguments": {"say": json.dumps(say)}, "_meta": {"progressToken": 7}}
        await self.ask("tools/call", request)
        return "".join(self.lines)

    async def end(self) -> None:
        """Close its input, as a host does."""
        self.writer.close()
        try:
            async with asyncio.timeout(END_S):
                await self.process.wait()
        except TimeoutError:
            self.process.kill()
            await self.process.wait()

    def _send(self, message: dict[str, Any]) -> None:
        self.writer.write(json.dumps(message).encode() + b"\n")
