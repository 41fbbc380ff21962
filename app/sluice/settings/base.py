"""What all groups of settings share."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Part = TypeVar("Part", bound=DataclassInstance)

Positive = Annotated[int, Field(gt=0)]
Seconds = Annotated[float, Field(gt=0)]
ListenAddress = Annotated[
    str, Field(pattern=r"^$|^(\[[0-9a-fA-F:.]{2,45}\]|[A-Za-z0-9._-]{1,253}):[0-9]{1,5}$")
]
"""host:port, or "": do not listen."""


class SettingGroup(BaseModel):
    """A table of the settings file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def fill(self, form: type[Part], **others: Any) -> Part:
        """The settings as the part takes them that they are for, a dataclass: each field that both have by
        its name, and `others`, which come before."""
        shared = {field.name for field in fields(form)} & type(self).model_fields.keys()
        return form(**{name: getattr(self, name) for name in shared} | others)
