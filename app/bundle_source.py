"""Bundles as their authors keep them: one file that may include pattern sets of others.

`"include": ["../patterns/sql.json"]` at the top of a bundle file names JSON objects with the lists of its
`patterns`; they are appended in order. What is signed, hashed and published is the whole document.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from app.core.errors import BundleError
from app.core.strict import json_object

if TYPE_CHECKING:
    from pathlib import Path


def whole_bundle(path: Path) -> bytes:
    """The bundle document in a file, with everything that it includes. Raises BundleError and OSError."""
    bundle = _document(path)
    included = bundle.pop("include", [])
    if not isinstance(included, list) or not all(isinstance(name, str) for name in included):
        raise BundleError(f"{path.name}: $.include: not a list of file names")
    patterns = bundle.setdefault("patterns", {})
    for name in included:
        _append(patterns, _document(path.parent / name), name)
    return orjson.dumps(bundle)


def _document(path: Path) -> dict[str, Any]:
    try:
        return json_object(path.read_bytes())
    except ValueError as error:
        raise BundleError(f"{path.name}: {error}") from None


def _append(patterns: dict[str, Any], more: dict[str, Any], name: str) -> None:
    for kind, listed in more.items():
        known = patterns.setdefault(kind, [])
        if not isinstance(known, list) or not isinstance(listed, list):
            raise BundleError(f"{name}: $.{kind}: not a list")
        known.extend(listed)
