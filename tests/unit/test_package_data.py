"""A wheel has every file that the modules read beside themselves."""

from __future__ import annotations

import tomllib
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_data_file_of_the_packages_is_packaged() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["*"]
    files = [one for package in ("app", "topics") for one in (ROOT / package).rglob("*") if one.is_file()]
    data = [one for one in files if one.suffix not in {".py", ".pyc"}]
    assert {"page.html", "page.css", "log4j2.xml"} <= {one.name for one in data}
    unpackaged = [str(one) for one in data if not any(fnmatch(one.name, pattern) for pattern in patterns)]
    assert unpackaged == []
    assert [str(one) for one in data if not (one.parent / "__init__.py").exists()] == []
