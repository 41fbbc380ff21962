"""Bundles as their authors keep them: a file that may build on others. What is signed is the whole document.

`"extends": "default.json"` takes another bundle's fields where this one has none of its own.
`"include": ["patterns/sql.json", "content/override.json"]` adds the fields of those files: pattern sets to
this bundle's `patterns`, what content is judged with to its `memory`. Lists are appended, objects merged.

Both name files beside the bundle's or below it, and no other: what is signed and published is what its author
has in one folder, and a bundle from elsewhere takes no file of the machine that checks it. `"extends":
"shipped:default.json"` is the one that ships, wherever the bundle lies.
"""

from __future__ import annotations

from pathlib import PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any

import orjson

from app.core.content.sets import ContentSets
from app.core.foundation.errors import BundleError
from app.core.foundation.strict import json_object
from app.settings import ROOT

if TYPE_CHECKING:
    from pathlib import Path

SHIPPED = ROOT / "config" / "bundles"
SHIPPED_MARK = "shipped:"
MAX_EXTENSIONS = 8
PATTERNS = ("patterns",)
MEMORY = ("memory",)
_PLACES = {
    **dict.fromkeys(ContentSets.model_fields, (*MEMORY, "content")),
    "similarity": MEMORY,
    "analysis": MEMORY,
}
"""Where the fields of an included file belong; those of pattern sets are named nowhere else."""


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
        own = {**_resolved(_base(path, base), left - 1), **own}
    included = own.pop("include", [])
    if not isinstance(included, list) or not all(isinstance(name, str) for name in included):
        raise BundleError(f"{path.name}: $.include: not a list of file names")
    for name in included:
        _append(own, _document(_file_near(path.parent, name, f"{path.name}: $.include")), name)
    return own


def _base(path: Path, base: str) -> Path:
    where = f"{path.name}: $.extends"
    if base.startswith(SHIPPED_MARK):
        return _file_near(SHIPPED, base.removeprefix(SHIPPED_MARK), where)
    return _file_near(path.parent, base, where)


def _file_near(folder: Path, name: str, where: str) -> Path:
    """The file of this name in the folder or below it. Raises BundleError for any other, also one that a link
    leads to."""
    leads_out = PurePosixPath(name).is_absolute() or PureWindowsPath(name).drive or "\\" in name
    if leads_out or ".." in PurePosixPath(name).parts or "\0" in name:
        raise BundleError(f"{where}: {name!r} is not beside or below the bundle's file")
    found = folder / name
    if not found.resolve().is_relative_to(folder.resolve()):
        raise BundleError(f"{where}: {name!r} is a link out of the bundle's folder")
    return found


def _document(path: Path) -> dict[str, Any]:
    try:
        return json_object(path.read_bytes())
    except ValueError as error:
        raise BundleError(f"{path.name}: {error}") from None


def _append(bundle: dict[str, Any], more: dict[str, Any], name: str) -> None:
    for key, value in more.items():
        place = _PLACES.get(key, PATTERNS)
        holder = bundle
        for step in place:
            holder = holder.setdefault(step, {})
            if not isinstance(holder, dict):
                raise BundleError(f"$.{'.'.join(place)}: not an object")
        holder[key] = _together(holder[key], value, f"{name}: $.{key}") if key in holder else value


def _together(known: Any, more: Any, where: str) -> Any:
    """Lists one after the other, objects field by field. Raises BundleError for what is neither."""
    if isinstance(known, list) and isinstance(more, list):
        return [*known, *more]
    if isinstance(known, dict) and isinstance(more, dict):
        both = {
            name: _together(known[name], more[name], f"{where}.{name}") for name in known.keys() & more.keys()
        }
        return {**known, **more, **both}
    raise BundleError(f"{where}: said twice, and neither two lists nor two objects")
