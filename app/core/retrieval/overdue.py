"""Which classes have outlived their window in flag-only (seed 004, "Flag-only mode left permanent")."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from app.core.retrieval.quality_bundle import QualityBundle

DAY_MS = 86_400_000


class Overdue(NamedTuple):
    """A class in flag-only since `since_ms` whose window ended at `overdue_since_ms`; `ordinal`: how many
    whole windows have passed since, each of which is an alarm of its own; the last of them ended at
    `ended_ms`. Times in ms since 1970.
    """

    content_class: str
    since_ms: int
    overdue_since_ms: int
    ordinal: int
    ended_ms: int


def overdue(bundle: QualityBundle, now_ms: int) -> tuple[Overdue, ...]:
    """Every class that is overdue at `now_ms`, by name."""
    window_ms = bundle.file.rollout_window_days * DAY_MS
    found = []
    for name, since_ms in sorted(bundle.rollout_since_ms.items()):
        passed = (now_ms - since_ms) // window_ms
        if bundle.rollout_of(name) == "flag_only" and passed > 0:
            ended_ms = since_ms + passed * window_ms
            found.append(Overdue(name, since_ms, since_ms + window_ms, passed, ended_ms))
    return tuple(found)
