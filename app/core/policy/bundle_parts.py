"""A gate's part of a policy bundle: what stands under the gate's own key.

Policy lies below the gates and names none of them. The gates' parts are handed to it, as values of this form
(app/core/actions/stages.py lists the gates); app/core/policy/bundles.py puts them together with what all
gates share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from app.core.quality_bundle.looser import Loosening

Written = TypeVar("Written")


def as_written(part: Any) -> Any:
    """A part that needs no compiling."""
    return part


@dataclass(frozen=True, slots=True)
class BundlePart(Generic[Written]):
    """`key`: the field of the bundle, the gate's name. `written`: the field's type, a pydantic model or a
    list of them. `default`: its value where a bundle leaves it out; `...`: it must be there.

    `find_loosenings` yields what a newer part (second) takes less strictly than an older one (first): each a
    sentence for people, and the paths below the key that it may come of ("" for the whole part). Where two
    parts cannot be compared, the change counts as a loosening. `compile` gives what the gate decides with; it
    raises BundleError, with the path in the bundle.
    """

    key: str
    written: type[Written]
    find_loosenings: Callable[[Written, Written], Iterable[Loosening]]
    default: Any = ...
    compile: Callable[[Written], Any] = as_written
