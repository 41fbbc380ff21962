"""One thing that a newer revision of a quality bundle takes less strictly."""

from __future__ import annotations

from typing import NamedTuple


class Loosening(NamedTuple):
    """A sentence for people, and the fields of the bundle's file whose change it may come of."""

    sentence: str
    paths: tuple[str, ...]
