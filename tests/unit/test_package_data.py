"""Mend 0: a wheel has every file that the modules read, and the shipped configuration."""

from __future__ import annotations

import subprocess
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parents[2]
SOURCES = {"app/sluice": "sluice", "topics/sluice_topics": "sluice_topics", "config": "sluice/config"}


def test_the_wheel_has_every_file_of_the_packages_and_of_config(wheel: Path) -> None:
    files = subprocess.run(
        ["git", "ls-files", *SOURCES], cwd=ROOT, check=True, capture_output=True, text=True
    )
    wanted = set()
    for name in files.stdout.splitlines():
        source = next(one for one in SOURCES if name.startswith(f"{one}/"))
        wanted.add(SOURCES[source] + name.removeprefix(source))
    packed = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert {"sluice/config/sluice.toml", "sluice/config/models/tokenizer.json"} <= wanted
    assert packed == wanted


def test_the_licence_is_in_the_wheel(wheel: Path) -> None:
    (licence,) = [one for one in ZipFile(wheel).namelist() if one.endswith("licenses/LICENSE")]
    assert b"Apache License" in ZipFile(wheel).read(licence)
