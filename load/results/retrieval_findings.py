"""The figures about retrievals that every fault run gives."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from load.recounts.coverage_recount import coverage
from load.recounts.retrieval_recount import retrievals
from load.recounts.served_recount import wrong_served, wrong_wanted
from load.results import figures
from load.sites.quality_policy import BUNDLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from load.recounts.answers import Account
    from load.recounts.coverage_recount import Coverage
    from load.recounts.retrieval_recount import Retrievals
    from load.results.figures import Figure
    from load.sites.ledger_read import Evidence

SHOWN = 3
ALARM = "sluice/alarm/v1"
TALLY = {
    "items_passed": "pass",
    "items_flagged": "flag",
    "items_downgraded": "downgrade",
    "items_denied": "deny",
    "items_denied_access": "access",
    "items_denied_poisoned": "poisoning",
    "items_denied_quality": "quality",
    "items_denied_content": "content",
    "items_overridden": "overridden",
    "items_spared_by_flag_only": "flag_only",
    "retrieval_escalations": "escalations",
}
"""What must have happened in a run, by its name in the recount."""


def retrieval_figures(evidence: Evidence, found: Account) -> list[Figure]:
    """What happened to retrieved items, and goals of zero for all that must not."""
    recounted, covering = retrievals(found, evidence.site.began_ms), coverage(found)
    alarmed = Counter(body["alarm_id"] for body in found.ledger if body["schema"] == ALARM)
    return [
        *(figures.some(name, recounted.tally[one], "items") for name, one in TALLY.items()),
        figures.some("retrieval_reports", covering.reports, "reports"),
        figures.some("items_covered", covering.covered, "items"),
        figures.some("items_uncovered", covering.uncovered, "items"),
        figures.some("references_wanted", recounted.wanted.total(), "records"),
        figures.exactly("alarms", alarmed.total(), 1, "alarms"),
        *(_none(name, problems) for name, problems in _problems(evidence, found, recounted, covering)),
    ]


def _problems(
    evidence: Evidence, found: Account, recounted: Retrievals, covering: Coverage
) -> Iterator[tuple[str, list[str]]]:
    yield "wrong_item_decisions", recounted.problems["wrong_item_decisions"]
    yield "wrong_retrieval_escalations", recounted.problems["wrong_escalations"]
    yield "wrong_served", [*wrong_served(found, recounted, evidence.served)]
    yield "wrong_wanted", wrong_wanted(recounted, evidence.wanted)
    yield "wrong_coverage", covering.problems
    yield "wrong_remembered", covering.wrong_states(evidence.changelog)
    yield "wrong_alarms", [*_wrong_alarms(found.ledger)]


def _wrong_alarms(ledger: Iterable[dict[str, Any]]) -> Iterator[str]:
    for body in ledger:
        if body["schema"] == ALARM:
            said = (body["partition"], body["quality_bundle_id"], body["subject"], body["input"])
            if said != (0, BUNDLE, "trial", None):
                yield f"{body['alarm_id']}: {said}"


def _none(name: str, problems: list[str]) -> Figure:
    for problem in problems[:SHOWN]:
        print(f"  {name}: {problem}")
    return figures.none(name, len(problems), "findings")
