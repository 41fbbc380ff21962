"""Which way a field of a bundle is stricter, as its metadata, and the one comparison of two documents by it.

A relaxation is a point in which a newer document may let through what the older one did not. Every field of a
bundle's models carries a Direction, unless its value is one model, whose own fields do; a test holds that
(tests/unit/core/test_relaxations.py), so a new field cannot be forgotten. What cannot be ordered counts as
relaxed wherever it differs, and a person has to look.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import BaseModel

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

BY_DEFAULT = "{path} is {new}, not {old}"


class Relaxation(NamedTuple):
    """`sentence` is for people. `path`: the field, by its name in the file, with elements of lists by their
    ids; `before` and `after`: its values."""

    sentence: str
    path: str
    before: Any = None
    after: Any = None


@dataclass(frozen=True)
class Direction:
    """Which way a field is stricter: the base of those below, where `says` is the sentence of a relaxation.

    In it `{old}` and `{new}` are the values, `{name}` is the field's name and `{path}` the way to it, `{id}`
    that of the innermost element with an id or key, `{holder}` that of the object that holds the field, and
    `{before}` and `{after}` are the models that hold it. `{members}` are the members of a list that are gone
    or new; with `{member}` each has a sentence of its own.
    """


@dataclass(frozen=True)
class Neutral(Direction):
    """No value of the field is stricter than another."""

    why: str


@dataclass(frozen=True)
class PartOf(Direction):
    """Compared with the field of this name, which holds it or another of its model."""

    field: str


@dataclass(frozen=True)
class ComparedBy(Direction):
    """`by` compares the two models that hold the field, once for all fields that name it. It yields
    relaxations with paths from these models on."""

    by: Callable[[Any, Any], Iterable[Relaxation]]


def compare_cases(is_stricter: Callable[[Any, Any], bool]) -> ComparedBy:
    """How the `cases` of two bundles are compared, which guard them: a case that is gone relaxes, and so does
    one that changed, unless only what it expects did and `is_stricter` than before."""

    def holds(old: Any, new: Any) -> bool:
        same_input = old.model_copy(update={"expect": new.expect}) == new
        return same_input and (old.expect == new.expect or is_stricter(new.expect, old.expect))

    def find(before: Any, after: Any) -> Iterator[Relaxation]:
        by_name: dict[str, list[Any]] = {}
        for case in after.cases:
            by_name.setdefault(case.name, []).append(case)
        for case in before.cases:
            same = by_name.get(case.name, [])
            if not any(holds(case, new) for new in same):
                how = "no longer asks for what it did" if same else "is gone"
                yield Relaxation(f"the case {case.name!r} {how}", f"cases[{case.name}]", case, same or None)

    return ComparedBy(find)


class Ordered(Direction, ABC):
    """What two values alone can say."""

    says: str

    @abstractmethod
    def relaxes(self, old: Any, new: Any) -> bool:
        """Whether `new`, which is not `old`, is less strict."""


@dataclass(frozen=True)
class Unordered(Ordered):
    """Another value may hold less. `null_allows_all`: where null stood, no value holds less."""

    says: str
    null_allows_all: bool = False

    def relaxes(self, old: Any, new: Any) -> bool:
        """Whether it differs."""
        del new
        return not (self.null_allows_all and old is None)


@dataclass(frozen=True)
class Scale(Ordered):
    """An ordered scale."""

    mildest_first: tuple[Any, ...]
    says: str = BY_DEFAULT

    def relaxes(self, old: Any, new: Any) -> bool:
        """Whether it is a milder value."""
        return self.mildest_first.index(new) < self.mildest_first.index(old)


@dataclass(frozen=True)
class StricterWhen(Ordered):
    """A number or a truth value, or "present": an object. Null is the mildest. `shows`: a value in words."""

    how: Literal["lower", "higher", "true", "false", "present"]
    says: str = BY_DEFAULT
    shows: Callable[[Any], str] = str

    def relaxes(self, old: Any, new: Any) -> bool:
        """Whether it is higher, lower, or gone."""
        if old is None or new is None:
            return new is None
        if self.how == "present":
            return False
        return bool(new > old) if self.how in {"lower", "false"} else bool(new < old)


@dataclass(frozen=True)
class Members(Direction):
    """A list of values or of objects with ids, or an object by keys: stricter with more members, or fewer.
    Members that both have are compared by their own fields. Null, of fewer: `every` one. `fold` makes members
    comparable."""

    stricter: Literal["more", "fewer"]
    says: str
    every: str = "any"
    fold: Callable[[Any], Hashable] = lambda member: member

    def find(self, old: Any, new: Any) -> list[str]:
        """The members that are gone, or new, as people read them."""
        more, less = (old, new) if self.stricter == "more" else (new, old)
        if less is None:
            return []
        if more is None:
            return [self.every]
        there = {self.fold(member) for member in list_members(less)}
        return [str(member) for member in list_members(more) if self.fold(member) not in there]


class Location(NamedTuple):
    """Where a comparison is: the path, and what sentences may name."""

    path: str = ""
    id: str = ""
    about: str = ""
    start: int = 0

    def step_into(self, step: str, *, id_: str | None = None) -> Location:
        """Of a field or an element."""
        joint = "" if step.startswith("[") or not self.path else "."
        return self._replace(path=f"{self.path}{joint}{step}", id=self.id if id_ is None else id_)


def find_relaxations(before: BaseModel, after: BaseModel) -> Iterator[Relaxation]:
    """Where `after` is less strict than `before`, in the order of the fields."""
    return _compare_models(before, after, Location(id=str(_get_id(before) or "")))


def list_sentences(relaxations: Iterable[Relaxation]) -> tuple[str, ...]:
    """Their sentences, each once."""
    return tuple(dict.fromkeys(relaxation.sentence for relaxation in relaxations))


@cache
def find_directions(model: type[BaseModel], name: str) -> tuple[Direction, ...]:
    """What a field declares, or its model for fields that declare nothing (`unmarked`)."""
    own = tuple(
        direction for direction in model.model_fields[name].metadata if isinstance(direction, Direction)
    )
    unmarked: Direction | None = getattr(model, "unmarked", None)
    return own if own or unmarked is None else (unmarked,)


def list_members(value: Any) -> list[Any]:
    """The keys of an object, the ids of a list's objects, the values of another list."""
    if isinstance(value, dict):
        return list(value)
    return [_get_id(member) if isinstance(member, BaseModel) else member for member in value or ()]


def _get_id(model: Any) -> Any:
    return model.id if hasattr(model, "id") else getattr(model, "name", None)


def _compare_models(before: BaseModel, after: BaseModel, location: Location) -> Iterator[Relaxation]:
    model: Any = type(before)
    about = getattr(model, "about", None)
    if about is not None:
        location = location._replace(about=about, start=len(location.path))
    idle = before.idle_fields() if hasattr(before, "idle_fields") else ()
    compared: set[ComparedBy] = set()
    for name, field in model.model_fields.items():
        directions = () if name in idle else find_directions(model, name)
        for direction in directions:
            if isinstance(direction, ComparedBy) and direction not in compared:
                compared.add(direction)
                for relaxation in direction.by(before, after):
                    yield relaxation._replace(path=location.step_into(relaxation.path).path)
        if name not in idle and getattr(before, name) != getattr(after, name):
            yield from _compare_fields(before, after, name, location.step_into(field.alias or name))


def _compare_fields(
    before: BaseModel, after: BaseModel, name: str, location: Location
) -> Iterator[Relaxation]:
    old, new = getattr(before, name), getattr(after, name)
    directions = find_directions(type(before), name)
    words = {
        "name": name,
        "path": location.path[location.start :].lstrip("."),
        "id": location.id,
        "holder": location.path.split(".")[-2] if "." in location.path else "",
        "before": before,
        "after": after,
        "old": old,
        "new": new,
    }
    for direction in directions:
        if isinstance(direction, Ordered) and direction.relaxes(old, new):
            in_words = (
                {"old": direction.shows(old), "new": direction.shows(new)}
                if isinstance(direction, StricterWhen)
                else {}
            )
            yield Relaxation(
                location.about + direction.says.format(**(words | in_words)), location.path, old, new
            )
        elif isinstance(direction, Members):
            yield from _compare_members(direction, location, words)
    if all(isinstance(marker, Members | StricterWhen | ComparedBy) for marker in directions):
        yield from _compare_inside(old, new, location)


def _compare_members(direction: Members, location: Location, words: dict[str, Any]) -> Iterator[Relaxation]:
    members = direction.find(words["old"], words["new"])
    of_objects = _list_models(words["old"]) or _list_models(words["new"])
    for member in members if "{member}" in direction.says or not members else [", ".join(members)]:
        sentence = location.about + direction.says.format(member=member, members=member, **words)
        path = location.step_into(f"[{member}]").path if of_objects else location.path
        yield Relaxation(sentence, path, words["old"], words["new"])


def _compare_inside(old: Any, new: Any, location: Location) -> Iterator[Relaxation]:
    if isinstance(old, BaseModel) and isinstance(new, BaseModel):
        yield from _compare_models(old, new, location)
        return
    newer = _list_models(new)
    for key, model in _list_models(old).items():
        if key in newer:
            step = key if isinstance(old, dict) else f"[{key}]"
            yield from _compare_models(model, newer[key], location.step_into(step, id_=str(key)))


def _list_models(value: Any) -> dict[str, BaseModel]:
    """The objects in a list or an object, by id or key; none for what holds other values."""
    if not isinstance(value, dict | list):
        return {}
    values = value.values() if isinstance(value, dict) else value
    return {
        key: model
        for key, model in zip(list_members(value), values, strict=True)
        if isinstance(model, BaseModel)
    }
