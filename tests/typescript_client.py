"""The client for TypeScript, compiled outside the tree by the compiler that its lock names."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.documents.blocks import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = ROOT / "docs" / "examples" / "typescript"
KEPT = ROOT / "build" / "typescript"
"""What the tests of all processes share: packages are named after their lock, a compiled client after its
sources."""
COMPILER = Path("node_modules") / "typescript" / "bin" / "tsc"
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


def fetch_compiler() -> Path:
    """The script of the compiler that the lock names."""
    with _wait_for_others():
        return _fetch_packages() / COMPILER


def compile_client() -> Path:
    """The folder of the JavaScript, with src, example and test, compiled from a copy. Nobody writes there."""
    files = sorted(path.relative_to(FOLDER) for path in FOLDER.rglob("*") if _is_source(path))
    digest = sha256(b"".join(str(name).encode() + (FOLDER / name).read_bytes() for name in files))
    with _wait_for_others():
        packages = _fetch_packages()
        compiled = packages / digest.hexdigest()[:16]
        if not compiled.exists():
            fresh = packages / "fresh"  # beneath the packages, where the compiler looks for them
            shutil.rmtree(fresh, ignore_errors=True)
            for name in files:
                (fresh / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(FOLDER / name, fresh / name)
            run_commands(["node", str(packages / COMPILER)], fresh)
            fresh.rename(compiled)
    return compiled / "dist"


def _is_source(path: Path) -> bool:
    return path.is_file() and not {"node_modules", "dist"} & {*path.relative_to(FOLDER).parts}


def _fetch_packages() -> Path:
    """The folder whose node_modules hold what the lock names."""
    lock = (FOLDER / "package-lock.json").read_bytes()
    packages = KEPT / sha256(lock).hexdigest()[:16]
    if not packages.exists():
        fresh = KEPT / "fresh"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        for name in ("package.json", "package-lock.json"):
            shutil.copy(FOLDER / name, fresh)
        run_commands(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], fresh)
        fresh.rename(packages)
    return packages


@contextmanager
def _wait_for_others() -> Iterator[None]:
    """One process at a time fetches and compiles; the others find what it made."""
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
