"""Where the panels lie: the whole ones if they are at hand, else the demo's share of them."""

from __future__ import annotations

from pathlib import Path

PLACES = (
    Path(__file__).resolve().parents[4] / "shared" / "data" / "panel",
    Path(__file__).resolve().parents[3] / "config" / "demo",
)


def found(name: str) -> Path:
    """The file of this name in the first place that has it."""
    return next(place / name for place in PLACES if (place / name).is_file())
