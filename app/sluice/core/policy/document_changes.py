"""The differences of two JSON documents, field by field: for people who review a bundle's next revision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAMES = ("id", "name")
"""Fields that identify the objects of a list, so that an inserted object changes no other one."""


class DocumentChange(NamedTuple):
    """One changed field: its path and both values; None if the field is not there."""

    path: str
    before: Any
    after: Any

    @property
    def is_removal(self) -> bool:
        """Whether a named element of a list, or a whole object or list, is no longer there."""
        return self.after is None and (self.path.endswith("]") or isinstance(self.before, dict | list))


def find_document_changes(before: Any, after: Any) -> tuple[DocumentChange, ...]:
    """The differences, in the order of the paths; a value that only one document has is one change."""
    return tuple(sorted(_find_changes("$", before, after), key=lambda change: change.path))


def _find_changes(path: str, before: Any, after: Any) -> Iterator[DocumentChange]:
    old, new = _list_inner(before, path), _list_inner(after, path)
    if old is None or new is None or type(before) is not type(after):
        if not _is_same(before, after):
            yield DocumentChange(path, before, after)
        return
    for inner in old.keys() & new.keys():
        yield from _find_changes(inner, old[inner], new[inner])
    for inner in old.keys() ^ new.keys():
        yield DocumentChange(inner, old.get(inner), new.get(inner))


def _is_same(before: Any, after: Any) -> bool:
    """Whether value and type are equal: 1, 1.0 and true are equal in Python, but not in a document."""
    return type(before) is type(after) and before == after


def _list_inner(value: Any, path: str) -> dict[str, Any] | None:
    """The values in an object or a list, by path; None for a value that contains none."""
    if isinstance(value, dict):
        return {f"{path}.{name}": member for name, member in value.items()}
    if isinstance(value, list):
        names = list_names(value)
        told_apart = names if names is not None and len(set(names)) == len(names) else range(len(value))
        return {f"{path}[{name}]": member for name, member in zip(told_apart, value, strict=True)}
    return None


def list_names(value: Any) -> list[str] | None:
    """What identifies each element of a list; None for what is no list, or has an element without a name."""
    if not isinstance(value, list):
        return None
    names = [name for member in value if (name := _get_name(member)) is not None]
    return names if len(names) == len(value) else None


def _get_name(value: Any) -> str | None:
    if not isinstance(value, dict):
        return None
    return next((value[name] for name in _NAMES if isinstance(value.get(name), str)), None)
