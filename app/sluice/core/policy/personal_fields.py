"""A bundle's `personal` section: which fields of inputs are about a person, and about whom.

Whoever sends an input seals these fields before it is produced (docs/decisions/0029-erasure.md).
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import Field, field_validator, model_validator

from sluice.core.foundation.strict import Name, StrictModel
from sluice_topics.relaxations import Neutral
from sluice_topics.sealing import EACH, InputKind, PersonalField, split_pointer

Pointer = Annotated[str, Field(min_length=2, max_length=1024, pattern=r"^/")]
MAX_PERSONAL = 256
_SEALABLE: dict[InputKind, tuple[tuple[str, ...], ...]] = {
    "action": (
        ("parameters", EACH),
        ("proposed_action", "value", EACH),
        ("reasoning",),
        ("tool_description",),
    ),
    "outcome": (("error",),),
    "write": (("content",),),
    "retrieval": (("items", EACH, "body"),),
}
"""Where a sealed value, which is a text, may stand: ids and what partitions, keys and counts follow from are
never sealed. What lies deeper may be sealed too."""


class PersonalMark(StrictModel):
    """One field. `kind`: of the input; `tool`: a glob, for actions of these tools alone. `path` and
    `subject`: JSON pointers in the input, `*` for each element or member. `subject`: where the person's id
    stands; where it leads to nothing, or is not given, the session stands for the person."""

    unmarked: ClassVar = Neutral("a mark that differs is another mark")

    kind: InputKind
    tool: Name = EACH
    path: Pointer
    subject: Pointer | None = None

    @field_validator("path", "subject")
    @classmethod
    def _check_pointer(cls, pointer: str | None) -> str | None:
        if pointer is not None:
            split_pointer(pointer)
        return pointer

    @model_validator(mode="after")
    def _check_place(self) -> Self:
        steps = split_pointer(self.path)
        if not any(_leads_into(steps, sealable) for sealable in _SEALABLE[self.kind]):
            places = ", ".join("/" + "/".join(sealable) for sealable in _SEALABLE[self.kind])
            raise ValueError(f"{self.path}: of {self.kind} inputs only {places} can be sealed")
        return self

    @property
    def id(self) -> str:
        """All of it, as comparisons of bundles name it."""
        about = "" if self.subject is None else f" of {self.subject}"
        return f"{self.kind} {self.tool} {self.path}{about}"

    def make_field(self) -> PersonalField:
        """The form in which inputs are sealed by it."""
        subject = None if self.subject is None else split_pointer(self.subject)
        return PersonalField(self.kind, split_pointer(self.path), subject, self.tool)


def _leads_into(steps: tuple[str, ...], sealable: tuple[str, ...]) -> bool:
    """Whether the steps lead to this place, or below it."""
    return len(steps) >= len(sealable) and all(
        expected in (EACH, step) for step, expected in zip(steps, sealable, strict=False)
    )
