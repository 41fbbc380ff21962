"""Mend 10: what a bundle extends and includes lies beside it or below it, or is the bundle that ships."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from app.core.foundation.errors import BundleError
from app.offline.policy_files import whole_bundle
from app.settings import ROOT

if TYPE_CHECKING:
    from pathlib import Path

MORE = {"more": [{"id": "m"}]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a pattern set below it, and one outside it."""
    own = tmp_path / "own"
    (own / "below").mkdir(parents=True)
    for place in (tmp_path / "outside.json", own / "beside.json", own / "below" / "more.json"):
        place.write_text(json.dumps(MORE))
    (tmp_path / "other").mkdir()
    return own


def whole(folder: Path, **fields: object) -> dict[str, object]:
    (folder / "b.json").write_text(json.dumps({"id": "b", **fields}))
    found: dict[str, object] = json.loads(whole_bundle(folder / "b.json"))
    return found


@pytest.mark.parametrize("name", ["beside.json", "below/more.json", "./beside.json"])
def test_a_file_beside_or_below_is_read(folder: Path, name: str) -> None:
    assert whole(folder, include=[name]) == {"id": "b", "patterns": MORE}
    assert whole(folder, extends=name) == {"id": "b", **MORE}


@pytest.mark.parametrize(
    "name",
    [
        "../outside.json",
        "below/../../outside.json",
        "below/../beside.json",
        "/etc/hostname",
        "..\\outside.json",
        "C:/outside.json",
        "shipped:../quality/default.json",
        "beside.json\0",
    ],
)
def test_any_other_is_refused_by_its_name(folder: Path, name: str) -> None:
    with pytest.raises(BundleError, match=r"b\.json: \$\.extends: .* is not beside or below"):
        whole(folder, extends=name)
    with pytest.raises((BundleError, OSError)):
        whole(folder, include=[name])


def test_an_absolute_name_is_refused_also_where_it_leads_into_the_folder(folder: Path) -> None:
    with pytest.raises(BundleError, match="not beside or below"):
        whole(folder, include=[str(folder / "beside.json")])


def test_a_link_out_of_the_folder_is_refused_and_one_within_is_read(folder: Path) -> None:
    (folder / "out.json").symlink_to(folder.parent / "outside.json")
    (folder / "elsewhere").symlink_to(folder.parent)
    (folder / "within.json").symlink_to(folder / "below" / "more.json")
    for name in ("out.json", "elsewhere/outside.json"):
        with pytest.raises(BundleError, match="link out"):
            whole(folder, include=[name])
    assert whole(folder, include=["within.json"]) == {"id": "b", "patterns": MORE}


def test_what_a_base_includes_lies_beside_the_base(folder: Path) -> None:
    (folder / "below" / "base.json").write_text(json.dumps({"include": ["../beside.json"]}))
    with pytest.raises(BundleError, match=r"base\.json: \$\.include"):
        whole(folder, extends="below/base.json")


def test_the_shipped_bundle_is_extended_from_anywhere(folder: Path) -> None:
    shipped = json.loads(whole_bundle(ROOT / "config" / "bundles" / "default.json"))
    assert whole(folder, extends="shipped:default.json") == {**shipped, "id": "b"}
