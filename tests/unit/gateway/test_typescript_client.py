"""The client for TypeScript: its types are the OpenAPI document's, and no fault of the gate lets a tool run.

Its compiler comes from the machine's registry. Without node and npm, or the compiler, what needs them is
skipped; in CI a compiler that cannot be had is a failure.
"""

from __future__ import annotations

import json
import os
import subprocess

from sluice.gateway.typescript_types import FILE, write_types
from tests.documents.blocks import ROOT
from tests.typescript_client import FOLDER, compile_client

VECTORS = ROOT / "tests" / "unit" / "core" / "data" / "rfc8785.jsonl"


def test_the_types_are_those_of_the_openapi_document() -> None:
    assert (ROOT / FILE).read_text(encoding="utf-8") == write_types(), (
        "run python -m sluice.gateway.typescript_types"
    )


def test_it_needs_no_package_to_run_and_its_lock_names_no_registry() -> None:
    package = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))
    lock = (FOLDER / "package-lock.json").read_text(encoding="utf-8")
    assert "dependencies" not in package
    assert json.loads(lock)["packages"][""]["devDependencies"] == package["devDependencies"]
    assert "://" not in lock


def test_no_fault_of_the_gate_lets_a_tool_run() -> None:
    built = compile_client()
    done = subprocess.run(
        ["node", "--test", str(built / "test" / "client.test.js")],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "RFC8785_VECTORS": str(VECTORS)},
    )
    assert done.returncode == 0, done.stdout
