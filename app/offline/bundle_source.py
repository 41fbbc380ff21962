"""Bundles as their authors keep them: a file that may build on others. What is signed is the whole document.

`"extends": "default.json"` takes another bundle's fields where this one has none of its own.
`"include": ["../patterns/sql.json"]` appends the lists of pattern sets to this bundle's `patterns`.
Both name files relative to the bundle's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from app.core.errors import BundleError
from app.core.strict import json_object

if TYPE_CHECKING:
    from pathlib import Path

MAX_EXTENSIONS = 8


def whole_bundle(path: Path) -> bytes:
    """The bundle document in a file, with all that it builds on. Raises BundleError and OSError."""
    return orjson.dumps(_resolved(path, MAX_EXTENSIONS))


def _resolved(path: Path, left: int) -> dict[str, Any]:
    own = _document(path)
    base = own.pop("extends", None)
    if base is not None:
        if not isinstance(base, str):
            raise BundleError(f"{path.name}: $.extends: not a file name")
        if not left:
            raise BundleError(
                f"{path.name}: $.extends: bundles extend one another more than {MAX_EXTENSIONS} deep"
            )
        own = {**_resolved(path.parent / base, left - 1), **own}
    included = own.pop("include", [])
    if not isinstance(included, list) or not all(isinstance(name, str) for name in included):
        raise BundleError(f"{path.name}: $.include: not a list of file names")
    for name in included:
        _append(own, _document(path.parent / name), name)
    return own


def _document(path: Path) -> dict[str, Any]:
    try:
        return json_object(path.read_bytes())
    except ValueError as error:
        raise BundleError(f"{path.name}: {error}") from None


def _append(bundle: dict[str, Any], more: dict[str, Any], name: str) -> None:
    patterns = bundle.get("patterns", {})
    if not isinstance(patterns, dict):
        raise BundleError("$.patterns: not an object")
    for kind, listed in more.items():
        known = patterns.get(kind, [])
        if not isinstance(known, list) or not isinstance(listed, list):
            raise BundleError(f"{name}: $.{kind}: not a list")
        patterns = {**patterns, kind: [*known, *listed]}
    bundle["patterns"] = patterns
