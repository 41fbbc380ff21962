"""A gate's part of a policy bundle: the value under the gate's own key.

The package `policy` is below the gates and names none of them. It gets the gates' parts as values of this
form (app/core/actions/stages.py lists the gates); app/core/policy/bundles.py joins them with the fields that
all gates share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from app.core.quality_bundle.loosenings import Loosening

Written = TypeVar("Written")


def as_written(part: Any) -> Any:
    """A part that needs no compiling."""
    return part


@dataclass(frozen=True, slots=True)
class BundlePart(Generic[Written]):
    """`key`: the field of the bundle, the gate's name. `written`: the field's type, a pydantic model or a
    list of them. `default`: its value where a bundle leaves it out; `...`: it must be there.

    `find_loosenings` yields where a newer part (second) is less strict than an older one (first): each time a
    sentence for people, and the paths below the key that may cause it ("" for the whole part). If two
    parts cannot be compared, the change counts as less strict. `compile` returns the form that the gate uses;
    it raises BundleError, with the path in the bundle.
    """

    key: str
    written: type[Written]
    find_loosenings: Callable[[Written, Written], Iterable[Loosening]]
    default: Any = ...
    compile: Callable[[Written], Any] = as_written
