"""An MCP server behind the proxy, for one test: the server's file, the proxy's pins and its options."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from mcp import Client, StdioServerParameters

from load.installations import neutral_policy
from sluice.core.policy.bundle_frame import ORDER_OF_OLD
from sluice.core.registry.keys import SigningKey
from sluice.core.trust.dsse import sign
from sluice.core.trust.signed_entries import PAYLOAD_TYPES
from sluice.core.trust.signing import sign_review
from sluice_demo.throwaway_trust import publish_policy
from sluice_topics.catalog import REGISTRY
from tests.documents.blocks import ROOT
from tests.kafka.installation import make_small_installation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator
    from pathlib import Path

    from load.installations.installation import TestInstallation

SERVER = [sys.executable, "-m", "tests.kafka.mcp_server"]
SLUICE = [sys.executable, "-c", "from sluice.cli.main import main; main()"]
TOOLS = {"read": "Reads a text.", "refund": "Pays money back.", "unknown": "Nobody registered it."}


APPROVER = SigningKey(Ed25519PrivateKey.generate())


def make_installation(kafka: str, folder: Path, prefix: str) -> TestInstallation:
    """An installation in which `load.refund` needs a person, and the server `load` may ask the user."""
    installation = make_small_installation(kafka, folder, prefix.rstrip("."), ORDER_OF_OLD)
    refund = {"tier": "T3", "action_type": "PAYMENT", "reversible": False}
    entry = {"kind": "tool", "id": "load.refund", "revision": 1, "spec": refund}
    asks = {"tier": "T1", "action_type": "DATABASE_READ", "reversible": True}
    asking = {"kind": "tool", "id": "load.elicitation/create", "revision": 1, "spec": asks}
    spec = {"public_key": APPROVER.public.text, "roles": ["approver"]}
    approver = {"kind": "approver", "id": "ann", "revision": 1, "spec": spec}
    signed = sign(PAYLOAD_TYPES[REGISTRY], json.dumps(approver).encode(), [installation.trust.root]).encode()
    policy = [(REGISTRY, b"approver/ann@1", signed), *installation.trust.sign_entries([entry, asking])]
    asyncio.run(publish_policy(kafka, installation.prefix, policy))
    return installation


def answer(
    installation: TestInstallation,
    asked: dict[str, Any],
    decision: str,
    narrowed: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """What an approver answers, signed."""
    fields = {
        "subject_id": asked["escalation_id"],
        "session_id": asked["session_id"],
        "decision": decision,
        "approver_id": "ann",
        "digest": asked["action_digest"],
        "justification": "looked at it",
    }
    if narrowed is not None:
        fields["parameters"] = narrowed
    return sign_review(fields, APPROVER, installation.audience).model_dump(mode="json", exclude_unset=True)


class Place:
    """A server's file, the proxy's pins and its options, for one test."""

    def __init__(self, installation: TestInstallation, folder: Path, session: str) -> None:
        self.installation, self.folder, self.session = installation, folder, session
        self.file = folder / "server.json"
        self.show(TOOLS)
        self.options: list[Any] = ["--agent", neutral_policy.AGENT, "--server", "load", "--session", session]
        self.environment = {**installation.settings, "HOME": str(folder), "PATH": "/usr/bin:/bin"}

    def show(self, tools: dict[str, str], instructions: str = "Read first.") -> None:
        self.file.write_text(json.dumps({"instructions": instructions, "tools": tools}))

    @property
    def calls(self) -> list[Any]:
        file = self.file.with_suffix(".calls")
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    @asynccontextmanager
    async def agent(
        self, *more: Any, command: list[Any] | None = None, mode: str = "auto", **client: Any
    ) -> AsyncIterator[Client]:
        """An MCP client behind the proxy, as an agent's host has it. `mode`: "legacy" speaks the version
        before 2026-07-28."""
        words = self._list_words(more, command)
        upstream = StdioServerParameters(command=SLUICE[0], args=words, env=self.environment, cwd=ROOT)
        async with Client(upstream, cache=None, mode=mode, **client) as agent:
            yield agent

    @contextmanager
    def listening(self, *more: Any) -> Iterator[tuple[subprocess.Popen[str], str]]:
        """The proxy behind a port, as a process, and its address."""
        words = [SLUICE[0], *self._list_words(("--listen", "127.0.0.1:0", *more), None)]
        process = subprocess.Popen(
            words, env=self.environment, cwd=ROOT, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
        )
        try:
            assert process.stderr is not None
            line = next(one for one in process.stderr if "listening on" in one)
            yield process, f"http://{line.rpartition(' ')[2].strip()}"
        finally:
            process.kill()
            process.communicate()

    def _list_words(self, more: Iterable[Any], command: list[Any] | None) -> list[str]:
        server = ["--", *SERVER, self.file] if command is None else command
        return [str(one) for one in (*SLUICE[1:], "mcp", *self.options, *more, *server)]

    def sluice(self, *words: Any) -> subprocess.CompletedProcess[str]:
        return self.run("mcp", *words)

    def run(self, *words: Any) -> subprocess.CompletedProcess[str]:
        """The command, as a person types it."""
        return subprocess.run(
            [*SLUICE, *map(str, words)],
            env=self.environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
