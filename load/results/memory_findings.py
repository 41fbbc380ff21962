"""The figures about memories that every fault run gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from load.recounts.memory_recount import UNAVAILABLE, memories
from load.recounts.memory_state import wrong_held, wrong_releases, wrong_statistics
from load.recounts.quarantine_recount import APPROVED, ENTERED, EVICTED, EXPIRED, REJECTED
from load.recounts.source_recount import folded, wrong_feedback, wrong_histories, wrong_sights
from load.results import figures
from topics.catalog import MEMORY_WRITES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from load.recounts.answers import Account
    from load.recounts.memory_recount import Memories
    from load.results.figures import Figure
    from load.sites.ledger_read import Evidence

SHOWN = 3
TALLY = {
    "memories_allowed": "allow",
    "memories_rejected": "reject",
    "memories_repeated": "repeat",
    "quarantine_entered": ENTERED,
    "quarantine_approved": APPROVED,
    "quarantine_rejected": REJECTED,
    "quarantine_expired": EXPIRED,
    "quarantine_evicted": EVICTED,
}
"""What must have happened in a run, by its name in the recount."""


def memory_figures(evidence: Evidence, found: Account, *, broker_away: bool = False) -> list[Figure]:
    """What happened to memories, and goals of zero for all that must not. `broker_away`: for a while."""
    most = int(evidence.site.settings["SLUICE_MEMORY__MAX_QUARANTINE_SIZE"])
    recounted = memories(found, most)
    refused = sum(count for name, count in recounted.tally.items() if name.startswith("refused "))
    unavailable = figures.reported if broker_away else figures.none
    held = sum(len(one.held) for one in recounted.quarantines.values())
    return [
        *(figures.some(name, recounted.tally[one], "memories") for name, one in TALLY.items()),
        figures.some("reviews_refused", refused, "reviews"),
        figures.reported("parents_of_other_sessions", len(recounted.told), "memories"),
        figures.reported("lineage_unanswered", recounted.tally["lineage_unanswered"], "questions"),
        figures.reported("reviews_overtaken", len(recounted.overtaken), "reviews"),
        unavailable("content_unavailable", recounted.tally[f"refused {UNAVAILABLE}"], "reviews"),
        figures.reported("held_in_the_end", held, "memories"),
        figures.some("sources_learnt_of", len(evidence.feedback), "records"),
        *(_none(name, problems) for name, problems in _problems(evidence, found, recounted)),
    ]


def _problems(evidence: Evidence, found: Account, recounted: Memories) -> Iterator[tuple[str, list[str]]]:
    histories = folded(evidence.feedback)
    sources = {
        f"memory:{':'.join(map(str, place))}": one.message["source"]["id"]
        for place, one in found.inputs.items()
        if place[0] == MEMORY_WRITES and one.readable
    }
    quarantines = [problem for one in recounted.quarantines.values() for problem in one.problems]
    yield (
        "wrong_memory_decisions",
        [
            *recounted.decisions,
            *recounted.never_entered(),
            *recounted.never_so(),
        ],
    )
    yield "wrong_quarantine_events", quarantines
    yield "wrong_reviews", recounted.reviews
    yield "wrong_releases", wrong_releases(recounted, evidence.admitted)
    yield "wrong_held", wrong_held(recounted, evidence.changelog)
    yield "wrong_statistics", wrong_statistics(recounted, evidence.changelog)
    yield "wrong_feedback", wrong_feedback(recounted.feedback, evidence.feedback)
    yield "wrong_histories", wrong_histories(histories, evidence.histories, evidence.changelog)
    yield "wrong_sights", wrong_sights(histories, found.ledger, sources)


def _none(name: str, problems: list[str]) -> Figure:
    for problem in problems[:SHOWN]:
        print(f"  {name}: {problem}")
    return figures.none(name, len(problems), "findings")
