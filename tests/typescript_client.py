"""The client for TypeScript, compiled outside the tree by the compiler that its lock names."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.documents.blocks import ROOT

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = ROOT / "docs" / "examples" / "typescript"
PATIENCE_S = 240.0


def run_commands(words: list[str], folder: Path) -> None:
    """Run what fetches and builds. Outside CI the test is skipped where that does not succeed."""
    if shutil.which(words[0]) is None:
        pytest.skip(f"there is no {words[0]} on this machine")
    done = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENCE_S, env=os.environ
    )
    if done.returncode and not os.environ.get("CI"):
        pytest.skip(f"{' '.join(words)}: {done.stderr}")
    assert done.returncode == 0, done.stdout + done.stderr


def compile_client(folder: Path) -> Path:
    """Compile a copy in a new folder. Returns the folder of the JavaScript, with src, example and test."""
    shutil.copytree(FOLDER, folder, ignore=lambda *_: ["node_modules", "dist"])
    run_commands(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder)
    run_commands(["node", "node_modules/typescript/bin/tsc"], folder)
    return folder / "dist"
