"""Mend 11: every command of README.md and docs/*.md runs as written, in its order, on a real broker.

Mend 22.21: so does every program of an agent, with the test's broker and topics in place of the default ones.

A document's blocks run in bash, in a scratch folder with the tree's folders beside, under a home of its own.
README goes first, as a newcomer would, and the guides after it on what it has set up; docs/policy.md begins
from nothing again.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sluice.settings.kafka import KafkaSettings
from tests.conftest import KEPT
from tests.documents.blocks import PROGRAM, ROOT, Block, blocks, documents
from tests.documents.ready_process import write_client

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

FROM_NOTHING = ("README.md", "docs/policy.md")
"""Documents that begin with a machine on which nothing was done."""
SAYS_NO = {
    "sluice quality promote product_pricing": "the shipped bundle enforces every class already",
}
"""Commands whose answer is no (exit code 1) on what the documents have set up."""
BESIDE = ("app", "config", "docs", "load")
GOES_ON = ("sluice worker", "sluice gateway", "sluice watch gate.verdicts --verdict denied")
"""Commands that a person leaves running."""
ON_THIS_INSTALLATION = """
import functools, os, sluice.client
options = sluice.client.ClientOptions(os.environ["SLUICE_KAFKA__TOPIC_PREFIX"], deadline_s=60)
sluice.client.GateClient = functools.partial(sluice.client.GateClient, options=options)
"""
READY_S = 90.0
START_S = 60.0


@dataclass
class Machine:
    """A home and a folder; `left` are the processes that the documents leave running."""

    home: Path
    folder: Path
    environment: dict[str, str]
    left: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def run(self, block: Block) -> None:
        """The block's lines as one script, after all that earlier blocks exported; or a program."""
        if block.kind == PROGRAM:
            self._python(block)
            return
        for script, goes_on in _scripts(block.text):
            if goes_on:
                self._leave(script)
            else:
                self._bash(block, script)

    def _bash(self, block: Block, script: str) -> None:
        exported = self.folder / ".exported"
        lines = f"set -euo pipefail\n{script}\nexport -p > {shlex.quote(str(exported))}\n"
        done = subprocess.run(
            ["bash", "-c", lines],
            cwd=self.folder,
            env=self.environment,
            input=b"y\n" * 8,
            capture_output=True,
            check=False,
        )
        told = f"{block.name}\n{script}\n{done.stdout.decode()}\n{done.stderr.decode()}"
        assert done.returncode == 0, told
        assert b"Traceback" not in done.stderr, told
        self._take_exports(exported)

    def _python(self, block: Block) -> None:
        """What it prints has to begin as the comment behind `print` says, to the "…"."""
        here = self.environment["KAFKA_BOOTSTRAP_SERVERS"]
        program = ON_THIS_INSTALLATION + block.text.replace(KafkaSettings().bootstrap_servers, here)
        words = [sys.executable, "-c", program]
        done = subprocess.run(
            words, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{block.name}\n{done.stdout}\n{done.stderr}"
        said = re.findall(r"print\(.*\)  # (.*?)(?: …)?$", block.text, re.MULTILINE)
        lines = done.stdout.splitlines()
        assert len(lines) == len(said), done.stdout
        assert all(line.startswith(one) for line, one in zip(lines, said, strict=True)), done.stdout

    def _take_exports(self, exported: Path) -> None:
        show = f"set -a; . {shlex.quote(str(exported))}; env -0"
        told = subprocess.run(
            ["bash", "-c", show], env=self.environment, capture_output=True, check=True
        ).stdout
        self.environment = dict(one.split("=", 1) for one in told.decode().split("\0") if "=" in one)

    def _leave(self, command: str) -> None:
        log = (self.folder / f"left-{len(self.left)}.log").open("wb")
        ready = self.folder / f"left-{len(self.left)}.ready"
        environment = self.environment | {"SLUICE_WORKER__READY_FILE": str(ready)}
        words = ["bash", "-c", f"exec {command}"]
        started = subprocess.Popen(words, cwd=self.folder, env=environment, stdout=log, stderr=log)
        self.left.append(started)
        deadline = time.monotonic() + READY_S
        while "worker" in command and not ready.exists():
            assert started.poll() is None, Path(log.name).read_text()
            assert time.monotonic() < deadline, Path(log.name).read_text()
            time.sleep(0.05)

    def stop(self) -> None:
        """What was left running, each of which has to be running still."""
        ended = [(one.args, one.poll()) for one in self.left if one.poll() is not None]
        for one in self.left:
            with contextlib.suppress(ProcessLookupError):
                one.send_signal(signal.SIGTERM)
        for one in self.left:
            one.wait(30)
        assert ended == []


def _scripts(text: str) -> Iterator[tuple[str, bool]]:
    """The lines between commands that go on, and those commands."""
    together: list[str] = []
    for line in text.splitlines():
        command = line.partition("#")[0].strip()
        says_no = next((one for one in SAYS_NO if command.startswith(one)), None)
        if command.startswith(GOES_ON):
            yield "\n".join(together), False
            together = []
            yield command, True
        elif says_no is not None:
            together.append(f"{command} && exit 99 || test $? = 1")
        else:
            together.append(line)
    yield "\n".join(together), False


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for PATH whose `sluice` starts at once."""
    folder = tmp_path_factory.mktemp("bin")
    with tempfile.TemporaryDirectory() as short:  # a socket's path has at most 107 bytes
        address = Path(short) / "s"
        serving = [sys.executable, "-m", "tests.documents.ready_process", str(address)]
        server = subprocess.Popen(serving, cwd=ROOT)
        try:
            deadline = time.monotonic() + START_S
            while not address.exists():
                assert server.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.05)
            write_client(folder / "sluice", address)
            yield folder
        finally:
            server.kill()
            server.wait()


@pytest.fixture(scope="module")
def machines(
    kafka: str, module_prefix: str, commands: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Machine]]:
    """By document; those that go on where README ended share its machine."""
    found: dict[str, Machine] = {}
    for place, document in enumerate(FROM_NOTHING):
        home, folder = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("folder")
        for name in BESIDE:
            (folder / name).symlink_to(ROOT / name)
        prefix = f"{module_prefix}{place}."
        given = {
            "HOME": str(home),
            "PATH": f"{commands}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "KAFKA_BOOTSTRAP_SERVERS": kafka,
            "SLUICE_KAFKA__TOPIC_PREFIX": prefix,
            "SLUICE_KAFKA__PARTITIONS": "2",
            "SLUICE_WORKER__APP_ID": f"{prefix}worker",
            "SLUICE_CACHE__FOLDER": str(KEPT),
        }
        found[document] = Machine(home, folder, given)
    try:
        yield {document: found.get(document, found[FROM_NOTHING[0]]) for document in documents()}
    finally:
        for machine in found.values():
            machine.stop()


COMMANDS = [one for name in documents() for one in blocks(name) if one.is_run]


@pytest.mark.parametrize("block", COMMANDS, ids=lambda one: one.name)
def test_the_commands_run_as_written(machines: dict[str, Machine], block: Block) -> None:
    machines[block.document].run(block)
