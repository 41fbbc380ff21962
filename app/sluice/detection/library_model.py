"""What each model of a pattern library is, and the fault of a library that cannot be used."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class LibraryError(ValueError):
    """A library does not compile; the message names the pattern, or starts with its path."""


class LibraryModel(BaseModel):
    """No unknown field, no conversion of types, no change after loading."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)
