"""No jar runs that is not, byte for byte, the one of the manifest."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from sluice.broker import local
from sluice.broker.handle import JarsError

if TYPE_CHECKING:
    from pathlib import Path

CONTENT = b"a jar"
EXPECTED = {name: hashlib.sha256(CONTENT).hexdigest() for name in ("a.jar", "b.jar")}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in EXPECTED:
        (tmp_path / name).write_bytes(CONTENT)
    return tmp_path


def test_the_jars_of_the_manifest_pass(folder: Path) -> None:
    local.verify(folder, EXPECTED)


def test_a_missing_jar_is_refused_by_name(folder: Path) -> None:
    (folder / "a.jar").unlink()
    with pytest.raises(JarsError, match=r"missing: a\.jar"):
        local.verify(folder, EXPECTED)


def test_an_extra_jar_is_refused_by_name(folder: Path) -> None:
    (folder / "c.jar").write_bytes(CONTENT)
    with pytest.raises(JarsError, match=r"not in the manifest: c\.jar"):
        local.verify(folder, EXPECTED)


def test_an_altered_jar_is_refused_by_name(folder: Path) -> None:
    (folder / "b.jar").write_bytes(CONTENT + b"\0")
    with pytest.raises(JarsError, match=r"altered: b\.jar"):
        local.verify(folder, EXPECTED)


def test_a_folder_that_is_already_there_is_held_against_the_manifest_too(folder: Path) -> None:
    with pytest.raises(JarsError, match="kafka-clients"):
        local.resolve(folder)


def test_the_committed_manifest_names_the_pinned_kafka_and_whole_digests() -> None:
    manifest = local.read_manifest()
    assert "kafka_2.13-4.1.0.jar" in manifest
    assert {len(bytes.fromhex(digest)) for digest in manifest.values()} == {32}
