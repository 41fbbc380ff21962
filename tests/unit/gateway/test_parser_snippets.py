"""Seed 002's parser snippets in Go and TypeScript read what we send. The Python one is in the header tests.

The compiler of TypeScript comes from the machine's registry. Without go, or node and npm, or the compiler, a
test is skipped; in CI a compiler that cannot be had is a failure.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from sluice.gateway.http.response_headers import ResponseFacts, build_response_headers
from tests.typescript_client import fetch_compiler
from tests.unit.gateway.test_response_headers import CHECKPOINTS, STATES, parse_mnemom_verdict

SNIPPETS = Path(__file__).parent / "snippets"
TEXTS = ("plain", "two\r\nlines: x", "été \U0001f600", '"quoted" \\ \t', "\u2028\u202e\x7f\x00")


def list_sent() -> list[dict[str, str]]:
    """The headers of decisions: every combination of states, each with one of the texts."""
    found = []
    for number, states in enumerate(itertools.product(STATES, repeat=4)):
        advisory = {"source": "gate.test", "text": TEXTS[number % len(TEXTS)], "severity": "warn"}
        facts = ResponseFacts(
            "r",
            checkpoints=dict(zip(CHECKPOINTS, states, strict=True)),
            advisories=[advisory] * (number % 7),
        )
        found.append({name.decode(): value.decode("ascii") for name, value in build_response_headers(facts)})
    return found


def needs(program: str) -> str:
    """Where a program is."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"there is no {program} on this machine")
    return found


def test_go_reads_what_we_send(tmp_path: Path) -> None:
    lines = [one["x-mnemom-verdict"] for one in list_sent()]
    shutil.copy(SNIPPETS / "parse.go", tmp_path / "main.go")
    done = subprocess.run(
        [needs("go"), "run", "main.go"],
        cwd=tmp_path,
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "GOFLAGS": "-mod=mod", "GO111MODULE": "off"},
    )
    assert done.returncode == 0, done.stderr
    assert [json.loads(one) for one in done.stdout.splitlines()] == [
        parse_mnemom_verdict(one) for one in lines
    ]


def test_typescript_reads_what_we_send(tmp_path: Path) -> None:
    node = needs("node")
    compiler = [node, str(fetch_compiler()), "--strict", "--target", "es2020", "--outDir", "."]
    compiled = subprocess.run(
        [*compiler, SNIPPETS / "parse.ts"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert compiled.returncode == 0, compiled.stdout
    headers = list_sent()
    lines = [f"{one['x-mnemom-verdict']}\t{one.get('x-mnemom-advisory', '')}" for one in headers]
    done = subprocess.run(
        [node, "parse.js"], cwd=tmp_path, input="\n".join(lines), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [json.loads(one) for one in done.stdout.rstrip("\n").split("\n")] == [
        {
            "verdict": parse_mnemom_verdict(one["x-mnemom-verdict"]),
            "advisories": json.loads(one.get("x-mnemom-advisory", "[]")),
        }
        for one in headers
    ]
