"""What one revision of a quality bundle changes of another, and what of it is less strict.

A looser revision needs a second approver (seed 004, "Quality bundle change without policy review").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from app.core.retrieval.looser_classes import looser_classes
from app.core.retrieval.looser_settings import looser_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.core.retrieval.loosening import Loosening
    from app.core.retrieval.quality_bundle import QualityBundle


ABSENT = "(not there)"


class Change(NamedTuple):
    """A field of the file: its path, both values (ABSENT: it is not there), and whether that is looser."""

    path: str
    before: Any
    after: Any
    looser: bool


def looser(before: QualityBundle, after: QualityBundle) -> tuple[str, ...]:
    """A sentence for each thing that `after` takes less strictly; none: no item comes out milder."""
    return tuple(one.sentence for one in _loosenings(before, after))


def changes(before: QualityBundle, after: QualityBundle) -> tuple[Change, ...]:
    """Every field whose value differs, by its path."""
    old, new = dict(_fields(_written(before))), dict(_fields(_written(after)))
    loose = {path for one in _loosenings(before, after) for path in one.paths}
    pairs = ((path, old.get(path, ABSENT), new.get(path, ABSENT)) for path in sorted(old.keys() | new.keys()))
    return tuple(Change(path, one, other, _within(path, loose)) for path, one, other in pairs if one != other)


def _within(path: str, loose: set[str]) -> bool:
    """The path itself or one that it lies under."""
    return path in loose or any(path.startswith(f"{above}.") for above in loose)


def _loosenings(before: QualityBundle, after: QualityBundle) -> Iterator[Loosening]:
    yield from looser_classes(before, after)
    yield from looser_settings(before, after)


def _written(bundle: QualityBundle) -> dict[str, Any]:
    """The file's fields, its cases by their names: one that was put in between changes no other."""
    written = bundle.file.model_dump()
    written["cases"] = {case.pop("name"): case for case in written["cases"]}
    return written


def _fields(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value and not _is_case(path):
        for name, inner in value.items():
            yield from _fields(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, float) and value.is_integer():
        yield path, int(value)  # as people write it
    else:
        yield path, value


def _is_case(path: str) -> bool:
    return path.startswith("cases.")
