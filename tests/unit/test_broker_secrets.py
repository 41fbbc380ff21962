"""Keys and passwords of a secured local broker: in files of their owner, and in no command line."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from sluice.broker import local
from sluice.broker.handle import BrokerError, find_free_ports
from sluice.broker.local import Layout, launch
from sluice.broker.secured import BrokerSecurity

if TYPE_CHECKING:
    from pathlib import Path

JAVA = """#!/bin/sh
printf '%s\\n' "$@" > {folder}/given
for one in "$@"; do case "$one" in @*) cp -p "${{one#@}}" {folder}/users;; esac; done
exit 1
"""
"""In place of the storage tool: keeps its arguments and the file that they name."""


@pytest.fixture
def _open_umask() -> object:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_open_umask")
def test_no_password_is_in_a_command_line_or_in_a_file_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(JAVA.format(folder=tmp_path))
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{java.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(local, "resolve", lambda folder: folder)
    security = BrokerSecurity(tmp_path / "tls", find_free_ports(1)[0], {"admin": "hidden-word"})
    layout = Layout(tmp_path / "work", tmp_path / "work" / "data", tmp_path / "jars")
    with pytest.raises(BrokerError, match="Could not format"):
        launch(layout, security=security)
    assert "StorageTool" in (tmp_path / "given").read_text()
    assert "hidden-word" not in (tmp_path / "given").read_text()
    assert (tmp_path / "users").read_text().splitlines() == [
        "--add-scram",
        "SCRAM-SHA-256=[name=admin,iterations=4096,password=hidden-word]",
        "--add-scram",
        "SCRAM-SHA-512=[name=admin,iterations=4096,password=hidden-word]",
    ]
    _, client_key = security.issue("client")
    assert read_mode(security.folder) == 0o700
    assert {read_mode(one) for one in (tmp_path / "users", layout.properties, client_key)} == {0o600}
    assert {read_mode(one) for one in security.folder.iterdir()} == {0o600}
    assert not any("users" in one.name for one in security.folder.iterdir())


def read_mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)
