"""A bundle's source: a file that may build on others. What is signed is the whole document.

`"extends": "default.json"` takes another bundle and changes it by what this one says: objects are merged
field by field; in a list whose elements have ids (or names) an element with the same one replaces, and others
are added; any other value replaces. Nothing that protects gets lost by silence: what is to go is named,
`"remove": {"rules": ["outside_after_untrusted"], "memory.content.findings": ["x"]}`, by the path of a list or
an object and the ids or keys in it; one that is not there is an error.

`"include": ["patterns/sql.json", "content/override.json"]` adds the fields of those files: pattern sets to
this bundle's `patterns`, what content is judged with to its `memory`, policies to those of the gate. Lists
are appended, objects merged. `budgets` in such a file has fields for the parts of gates: they count where the
bundle, with what it extends, says nothing else.

Both name files beside the bundle's or below it, and no other: what is signed and published is what its author
has in one folder, and a bundle from elsewhere takes no file of the machine that checks it. `"extends":
"shipped:default.json"` is the one that ships, wherever the bundle lies; so may `include` name what ships.
"""

from __future__ import annotations

from pathlib import PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any

import orjson

from sluice.core.foundation.errors import BundleError
from sluice.core.foundation.strict import json_object
from sluice.core.policy.document_changes import list_names
from sluice.detection.text_inspection import ContentSets
from sluice.shipped import SHIPPED_FILES

if TYPE_CHECKING:
    from pathlib import Path


SHIPPED = SHIPPED_FILES / "bundles"
SHIPPED_MARK = "shipped:"
MAX_EXTENSIONS = 8
PATTERNS = ("patterns",)
MEMORY = ("memory",)
_PLACES = {
    **dict.fromkeys(ContentSets.model_fields, (*MEMORY, "content")),
    "similarity": MEMORY,
    "analysis": MEMORY,
    "policies": ("policies",),
}
"""Where the fields of an included file belong; those of pattern sets are named nowhere else."""
BUDGETS = "budgets"


def read_whole_bundle(path: Path) -> bytes:
    """The bundle document in a file, with all that it builds on. Raises BundleError and OSError."""
    return orjson.dumps(_resolve(path, MAX_EXTENSIONS))


def read_extended_bundle(path: Path) -> bytes | None:
    """The whole document of the bundle that the one in a file extends; None if it extends none. Raises
    BundleError and OSError."""
    base = _read_document(path).get("extends")
    if not isinstance(base, str):
        return None
    return orjson.dumps(_resolve(_find_named_file(path, base, "extends"), MAX_EXTENSIONS - 1))


def _resolve(path: Path, left: int) -> dict[str, Any]:
    own = _read_document(path)
    base = own.pop("extends", None)
    if base is not None:
        if not isinstance(base, str):
            raise BundleError(f"{path.name}: $.extends: not a file name")
        if not left:
            raise BundleError(
                f"{path.name}: $.extends: bundles extend one another more than {MAX_EXTENSIONS} deep"
            )
        removed = own.pop("remove", {})
        own = _apply_change(_resolve(_find_named_file(path, base, "extends"), left - 1), own, path.name)
        _remove(own, removed, f"{path.name}: $.remove")
    elif "remove" in own:
        raise BundleError(f"{path.name}: $.remove: there is nothing to remove from: it extends no bundle")
    included = own.pop("include", [])
    if not isinstance(included, list) or not all(isinstance(name, str) for name in included):
        raise BundleError(f"{path.name}: $.include: not a list of file names")
    for name in included:
        _append(own, _read_document(_find_named_file(path, name, "include")), name)
    return own


def _apply_change(base: Any, own: Any, where: str) -> Any:
    """Apply to a base what a bundle says of it. Raises BundleError for a list that says an id twice."""
    if isinstance(base, dict) and isinstance(own, dict):
        both = {name: _apply_change(base[name], own[name], where) for name in base.keys() & own.keys()}
        return {**base, **own, **both}
    if not (isinstance(base, list) and isinstance(own, list)):
        return own
    base_names, own_names = list_names(base), list_names(own)
    if base_names is None or own_names is None:
        return own
    if len(set(own_names)) != len(own_names):
        raise BundleError(
            f"{where}: {next(name for name in own_names if own_names.count(name) > 1)} is said twice"
        )
    new = dict(zip(own_names, own, strict=True))
    merged = [new.pop(name, member) for name, member in zip(base_names, base, strict=True)]
    return [*merged, *new.values()]


def _remove(bundle: dict[str, Any], removed: Any, where: str) -> None:
    """Take out what is named, by path and name. Raises BundleError for a name that is not there."""
    if not isinstance(removed, dict):
        raise BundleError(f"{where}: not an object of paths and names")
    for path, names in removed.items():
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise BundleError(f"{where}.{path}: not a list of names")
        holder: Any = bundle
        *above, last = path.split(".")
        for step in above:
            holder = holder.get(step) if isinstance(holder, dict) else None
        items: Any = holder.get(last, []) if isinstance(holder, dict) else []
        names_there = list(items) if isinstance(items, dict) else list_names(items) or []
        if absent := [name for name in names if name not in names_there]:
            raise BundleError(f"{where}.{path}: there is no {', '.join(absent)}")
        if isinstance(items, dict):
            holder[last] = {name: value for name, value in items.items() if name not in names}
        else:
            pairs = zip(names_there, items, strict=True)
            holder[last] = [member for name, member in pairs if name not in names]


def _find_named_file(path: Path, name: str, field: str) -> Path:
    where = f"{path.name}: $.{field}"
    if name.startswith(SHIPPED_MARK):
        return _find_file_near(SHIPPED, name.removeprefix(SHIPPED_MARK), where)
    return _find_file_near(path.parent, name, where)


def _find_file_near(folder: Path, name: str, where: str) -> Path:
    """The file of this name in the folder or below it. Raises BundleError for any other, also one that a link
    leads to."""
    leads_out = PurePosixPath(name).is_absolute() or PureWindowsPath(name).drive or "\\" in name
    if leads_out or ".." in PurePosixPath(name).parts or "\0" in name:
        raise BundleError(f"{where}: {name!r} is not beside or below the bundle's file")
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise BundleError(f"{where}: {name!r} is a link out of the bundle's folder")
    return path


def _read_document(path: Path) -> dict[str, Any]:
    try:
        return json_object(path.read_bytes())
    except ValueError as error:
        raise BundleError(f"{path.name}: {error}") from None


def _append(bundle: dict[str, Any], more: dict[str, Any], name: str) -> None:
    for key, value in more.items():
        if key == BUDGETS:
            bundle.update(_fill(bundle, value, f"{name}: $.{BUDGETS}"))
            continue
        location = _PLACES.get(key, PATTERNS)
        holder = bundle
        for step in location:
            holder = holder.setdefault(step, {})
            if not isinstance(holder, dict):
                raise BundleError(f"$.{'.'.join(location)}: not an object")
        holder[key] = _merge(holder[key], value, f"{name}: $.{key}") if key in holder else value


def _fill(own: dict[str, Any], profile: Any, where: str) -> dict[str, Any]:
    """Add the profile's fields to what was said, where nothing was said, at any depth. Raises BundleError if
    the profile has anything but an object where an object was said."""
    if not isinstance(profile, dict):
        raise BundleError(f"{where}: not an object")
    objects = {name: value for name, value in own.items() if name in profile and isinstance(value, dict)}
    filled = {name: _fill(value, profile[name], f"{where}.{name}") for name, value in objects.items()}
    return {**profile, **own, **filled}


def _merge(base: Any, more: Any, where: str) -> Any:
    """Lists one after the other, objects field by field. Raises BundleError for what is neither."""
    if isinstance(base, list) and isinstance(more, list):
        return [*base, *more]
    if isinstance(base, dict) and isinstance(more, dict):
        both = {name: _merge(base[name], more[name], f"{where}.{name}") for name in base.keys() & more.keys()}
        return {**base, **more, **both}
    raise BundleError(f"{where}: said twice, and neither two lists nor two objects")
