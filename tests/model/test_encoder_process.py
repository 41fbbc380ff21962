"""The encoder's process beside its parent: not in it, and not longer than it."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.model
ROOT = Path(__file__).parents[2]
PATIENCE_MS = 60_000


def test_importing_the_adapter_imports_nothing_that_computes() -> None:
    heavy = {"onnxruntime", "tokenizers", "numpy"}
    program = f"import sys, sluice.adapters.sentence_encoder; sys.exit(len({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0


PARENT = """
import asyncio
from sluice.adapters.sentence_encoder import SentenceEncoder

async def main():
    print(await SentenceEncoder().start(), flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def test_the_encoder_ends_with_a_parent_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], cwd=ROOT, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
    ended = select.poll()
    ended.register(child, select.POLLIN)
    assert ended.poll(PATIENCE_MS)
    os.close(child)
