"""Mend 13: each file that the lines of `sluice demo --keep` name is there, or a line before makes it."""

from __future__ import annotations

import io
import re
from pathlib import Path
from subprocess import Popen

from rich.console import Console
from typer.testing import CliRunner

from sluice.broker.process_identity import ProcessIdentity
from sluice.cli.main import cli
from sluice_demo.run_gateway import RunGateway
from sluice_demo.run_location import RunLocation
from sluice_demo.throwaway_trust import ThrowawayTrust
from sluice_demo.verb import say_how_to_use


def test_every_file_that_is_signed_or_signed_with_exists_by_then(tmp_path: Path) -> None:
    trust = ThrowawayTrust()
    trust.write(tmp_path)
    told = io.StringIO()
    place = RunLocation("demo-1", tmp_path, "127.0.0.1:1", trust.root_key, tmp_path, trust.installation)
    gateway = RunGateway(ProcessIdentity(0, ""), Popen(["true"]), "http://127.0.0.1:1/review", "made-for-it")
    gateway.child.wait()
    say_how_to_use(Console(file=told, width=200), place, gateway, "legal_text")
    assert "log in as demo with the password made-for-it" in told.getvalue()
    there: set[str] = set()
    signed = 0
    for line in told.getvalue().splitlines():
        words = line.partition("#")[0].split()
        if words[1:3] == ["bundle", "new"]:
            there.add(words[4])
        elif words[1:3] == ["bundle", "sign"]:
            signed += 1
            key, out = (re.findall(rf"{name} (\S+)", line)[0] for name in ("--key", "--out"))
            assert words[3] in there
            assert Path(key).is_file()
            there.add(out)
        elif words[1:3] == ["bundle", "publish"]:
            assert words[3] in there
    assert signed == 1


def test_a_secured_broker_is_not_kept() -> None:
    """Its users' passwords end with the run."""
    done = CliRunner().invoke(cli, ["demo", "--secured", "--keep"])
    assert done.exit_code == 2
    assert "leave --keep out" in done.stderr
