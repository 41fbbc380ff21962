"""The jars of a local JVM broker: copied by Maven as pom.xml says, each held against jars.sha256."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from app.broker.handle import BrokerError, JarsError

HERE = Path(__file__).resolve().parent
POM = HERE / "pom.xml"
MANIFEST = HERE / "jars.sha256"
FETCH_S = 300.0


def manifest(path: Path = MANIFEST) -> dict[str, str]:
    """File name → SHA-256 in hex, from the lines `sha256sum` writes."""
    lines = path.read_text(encoding="utf-8").splitlines()
    pairs = (line.split(maxsplit=1) for line in lines if line)
    return {name: digest for digest, name in pairs}


def verify(folder: Path, expected: dict[str, str]) -> None:
    """Raises JarsError naming each jar that is missing, extra or altered; `folder` may hold nothing else."""
    found = {path.name: path for path in folder.iterdir()}
    faults = [f"missing: {name}" for name in sorted(expected.keys() - found.keys())]
    faults += [f"not in the manifest: {name}" for name in sorted(found.keys() - expected.keys())]
    both = sorted(expected.keys() & found.keys())
    faults += [f"altered: {name}" for name in both if _digest(found[name]) != expected[name]]
    if faults:
        raise JarsError(
            f"The jars in {folder} are not those of {MANIFEST.name}:\n  "
            + "\n  ".join(faults)
            + "\nRemove that folder to have them resolved again; if it persists, do not run them."
        )


def resolve(folder: Path) -> Path:
    """`folder`, holding exactly the jars of the manifest; fetched with Maven if it is not there yet.

    Raises JarsError when they differ from the manifest, BrokerError when Maven is missing or fails.
    """
    expected = manifest()
    if not folder.is_dir():
        _fetch_into(folder, expected)
    verify(folder, expected)
    return folder


def _fetch_into(folder: Path, expected: dict[str, str]) -> None:
    # Beside the target and renamed at the end: an interrupted or concurrent fetch never leaves half a folder.
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix="jars-", dir=folder.parent))
    try:
        _copy_dependencies(fresh)
        verify(fresh, expected)
        _put_in_place(fresh, folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _put_in_place(fresh: Path, folder: Path) -> None:
    try:
        os.rename(fresh, folder)  # noqa: PTH104 - Path.rename would say the same; the error below is os.rename's
    except OSError:
        if not folder.is_dir():
            raise  # otherwise another process was first; its copy is verified like ours


def _copy_dependencies(target: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise BrokerError("Maven (mvn) is not on the PATH")
    goal = [maven, "-B", "-q", "-C", "-f", str(POM), "dependency:copy-dependencies"]
    goal.append(f"-DoutputDirectory={target}")
    try:
        done = subprocess.run(goal, capture_output=True, text=True, check=False, timeout=FETCH_S)  # noqa: S603
    except subprocess.TimeoutExpired:
        raise BrokerError(f"Maven did not resolve the broker's jars within {FETCH_S:.0f} s") from None
    if done.returncode != 0:
        raise BrokerError(
            f"Maven could not resolve the broker's jars:\n{(done.stdout + done.stderr)[-2000:]}"
        )


def _digest(path: Path) -> str:
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
