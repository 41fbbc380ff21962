"""Reading a bundle or a registry: JSON bytes to a strict model, with the path of the first error."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
)

from sluice.core.foundation.clock import read_milliseconds
from sluice_topics.json_text import Unreadable, parse
from sluice_topics.records.base import (
    Moment,
)


def _exists(moment: str) -> str:
    read_milliseconds(moment)
    return moment


Instant = Annotated[Moment, AfterValidator(_exists)]
"""A moment that the calendar has."""


class StrictModel(BaseModel):
    """No unknown field, no conversion of types, no change after loading."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


def json_object(raw: bytes) -> dict[str, Any]:
    """The JSON object in `raw`. Raises ValueError with a path and a reason."""
    document = parse(raw)
    if isinstance(document, Unreadable):
        raise ValueError(f"{document.path}: {document.message}")  # noqa: TRY004 - of the file, not of an argument
    if not isinstance(document, dict):
        raise ValueError("$: not a JSON object")  # noqa: TRY004 - likewise
    return document


def first_error(error: ValidationError, above: str = "$") -> str:
    """Path and reason of a validation's first error."""
    part = error.errors()[0]
    path = above + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in part["loc"])
    return f"{path}: {part['msg']}"


Name = Annotated[str, Field(min_length=1, max_length=256)]
Installations = Annotated[list[Name], Field(min_length=1, max_length=64)]
"""The installations that a bundle or an entry is for, by the setting policy.installation."""


LONGEST_WAIT_MS = 10 * 365 * 24 * 3600 * 1000
"""Ten years: the end of a longer wait might not be a valid date."""


MAX_CASES = 256
"""Every worker runs the cases before a bundle is in force, and no other change takes effect meanwhile: about
1 s."""
