"""Mend 0: a wheel has every file that the modules read, and the shipped configuration."""

from __future__ import annotations

import subprocess
import sys
from email import message_from_bytes
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

from tests.unit.test_locks import RUN, read_pinned

ROOT = Path(__file__).resolve().parents[2]
SOURCES = {
    "app/sluice": "sluice",
    "topics/sluice_topics": "sluice_topics",
    "config": "sluice/config",
    "docs/examples/demo/sluice_demo": "sluice_demo",
}
LEFT_OUT = ("config/helm/", "config/site/")


def test_the_wheel_has_every_file_of_the_packages_and_of_config(wheel: Path) -> None:
    files = subprocess.run(
        ["git", "ls-files", *SOURCES], cwd=ROOT, check=True, capture_output=True, text=True
    )
    wanted = set()
    for name in files.stdout.splitlines():
        if name.startswith(LEFT_OUT):
            continue
        source = next(one for one in SOURCES if name.startswith(f"{one}/"))
        wanted.add(SOURCES[source] + name.removeprefix(source))
    packed = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert {"sluice/config/sluice.toml", "sluice/config/models/tokenizer.json"} <= wanted
    assert packed == wanted


def test_the_licence_is_in_the_wheel(wheel: Path) -> None:
    (licence,) = [one for one in ZipFile(wheel).namelist() if one.endswith("licenses/LICENSE")]
    assert b"Apache License" in ZipFile(wheel).read(licence)


def test_the_source_distribution_makes_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "--directory", str(tmp_path), "--target"]
    subprocess.run([*build, "sdist"], cwd=ROOT, check=True, capture_output=True)
    (source,) = tmp_path.glob("*.tar.gz")
    subprocess.run(["tar", "-xzf", source, "-C", tmp_path], check=True)
    unpacked = tmp_path / source.name.removesuffix(".tar.gz")
    subprocess.run([*build, "wheel"], cwd=unpacked, check=True, capture_output=True)
    (again,) = tmp_path.glob("*.whl")
    assert again.read_bytes() == wheel.read_bytes()


def _list_requirements(wheel: Path) -> list[Requirement]:
    with ZipFile(wheel) as packed:
        (name,) = [one for one in packed.namelist() if one.endswith(".dist-info/METADATA")]
        return [
            Requirement(one) for one in message_from_bytes(packed.read(name)).get_all("Requires-Dist", [])
        ]


def test_the_package_alone_needs_what_a_client_imports_and_no_more(wheel: Path) -> None:
    bare = {one.name for one in _list_requirements(wheel) if one.marker is None}
    assert bare == {"aiokafka", "cryptography", "pydantic"}


@pytest.mark.parametrize("extra", ["worker", "gateway", "traces"])
def test_the_lock_has_what_an_extra_of_the_image_names(wheel: Path, extra: str) -> None:
    """So that the wheel can be installed without dependencies beside `requirements.lock`."""
    pinned = {name.partition(" ;")[0]: text.split()[0] for name, text in read_pinned(RUN).items()}
    wanted = [
        one for one in _list_requirements(wheel) if one.marker and one.marker.evaluate({"extra": extra})
    ]
    assert wanted
    for one in wanted:
        assert one.name == "sluice" or one.specifier.contains(pinned[one.name]), one
