"""The figures that every fault run gives: what was lost, doubled, wrong, and what the fault did."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from load.installations.quality_policy import BUNDLE
from load.recomputation import figures
from load.recomputation.approval_recount import approval_figures
from load.recomputation.input_answers import account
from load.recomputation.memory_state import wrong_held, wrong_releases, wrong_statistics
from load.recomputation.quarantine_recount import APPROVED, ENTERED, EVICTED, EXPIRED, REJECTED
from load.recomputation.reruns import execute_again
from load.recomputation.retrieval_recount import retrievals
from load.recomputation.session_recount import wrong_sessions
from load.recomputation.source_recount import fold, wrong_feedback, wrong_histories, wrong_sights
from load.recomputation.store_recount import coverage, wrong_served, wrong_wanted
from load.recomputation.task_recount import task_figures
from load.recomputation.write_recount import UNAVAILABLE, memories
from sluice.stream.process import EXIT_FAULT, EXIT_FENCED
from sluice.verifier.export import Located
from sluice.verifier.verify import verify
from sluice_topics.catalog import MEMORY_WRITES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from load.installations.fleet import Tally
    from load.installations.installation import Evidence
    from load.recomputation.figures import RunFigure
    from load.recomputation.input_answers import AnswerAccount
    from load.recomputation.retrieval_recount import Retrievals
    from load.recomputation.store_recount import CoverageRecount
    from load.recomputation.write_recount import Memories

MEMORY_TALLY = {
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


def memory_figures(
    evidence: Evidence, answers: AnswerAccount, *, broker_away: bool = False
) -> list[RunFigure]:
    """What happened to memories, and goals of zero for all that must not. `broker_away`: for a while."""
    most = int(evidence.installation.settings["SLUICE_MEMORY__MAX_QUARANTINE_SIZE"])
    recounted = memories(answers, most)
    refused = sum(count for name, count in recounted.tally.items() if name.startswith("refused "))
    while_away = figures.report if broker_away else figures.none
    for name in [] if broker_away else recounted.overtaken[: figures.SHOWN]:
        print(f"  memories: time overtook the review of {name}")
    quarantined = sum(len(quarantine.quarantined) for quarantine in recounted.quarantines.values())
    return [
        *(figures.some(name, recounted.tally[counter], "memories") for name, counter in MEMORY_TALLY.items()),
        figures.some("reviews_refused", refused, "reviews"),
        figures.report("parents_of_other_sessions", len(recounted.foreign_parents), "memories"),
        figures.report("lineage_unanswered", recounted.tally["lineage_unanswered"], "questions"),
        while_away("reviews_overtaken", len(recounted.overtaken), "reviews"),
        while_away("content_unavailable", recounted.tally[f"refused {UNAVAILABLE}"], "reviews"),
        figures.report("held_in_the_end", quarantined, "memories"),
        figures.some("sources_learnt_of", len(evidence.feedback), "records"),
        *(
            figures.no_problems(name, problems)
            for name, problems in _memory_problems(evidence, answers, recounted)
        ),
    ]


def _memory_problems(
    evidence: Evidence, answers: AnswerAccount, recounted: Memories
) -> Iterator[tuple[str, list[str]]]:
    histories = fold(evidence.feedback)
    sources = {
        f"memory:{':'.join(map(str, coordinates))}": answered.message["source"]["id"]
        for coordinates, answered in answers.inputs.items()
        if coordinates[0] == MEMORY_WRITES and answered.readable
    }
    quarantines = [
        problem for quarantine in recounted.quarantines.values() for problem in quarantine.problems
    ]
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
    yield "wrong_sights", wrong_sights(histories, answers.ledger, sources)


ALARM = "sluice/alarm/v1"
ITEM_TALLY = {
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


def retrieval_figures(evidence: Evidence, answers: AnswerAccount) -> list[RunFigure]:
    """What happened to retrieved items, and goals of zero for all that must not."""
    recounted, covering = retrievals(answers), coverage(answers)
    alarmed = Counter(body["alarm_id"] for body in answers.ledger if body["schema"] == ALARM)
    return [
        *(figures.some(name, recounted.tally[key], "items") for name, key in ITEM_TALLY.items()),
        figures.some("retrieval_reports", covering.reports, "reports"),
        figures.some("items_covered", covering.covered, "items"),
        figures.some("items_uncovered", covering.uncovered, "items"),
        figures.some("references_wanted", recounted.wanted.total(), "records"),
        figures.exactly("alarms", alarmed.total(), 1, "alarms"),
        *(
            figures.no_problems(name, problems)
            for name, problems in _item_problems(evidence, answers, recounted, covering)
        ),
    ]


def _item_problems(
    evidence: Evidence, answers: AnswerAccount, recounted: Retrievals, covering: CoverageRecount
) -> Iterator[tuple[str, list[str]]]:
    yield "wrong_item_decisions", recounted.problems["wrong_item_decisions"]
    yield "wrong_retrieval_escalations", recounted.problems["wrong_escalations"]
    yield "wrong_served", [*wrong_served(answers, recounted, evidence.served)]
    yield "wrong_wanted", wrong_wanted(recounted, evidence.wanted)
    yield "wrong_coverage", covering.problems
    yield "wrong_remembered", covering.wrong_states(evidence.changelog)
    yield "wrong_alarms", [*_wrong_alarms(answers.ledger)]


def _wrong_alarms(ledger: Iterable[dict[str, Any]]) -> Iterator[str]:
    for body in ledger:
        if body["schema"] == ALARM:
            named = (body["partition"], body["quality_bundle_id"], body["subject"], body["input"])
            if named != (0, BUNDLE, "trial", None):
                yield f"{body['alarm_id']}: {named}"


SHOWN = 5


def integrity(
    evidence: Evidence,
    answers: AnswerAccount,
    *,
    denied_unread: int = 0,
    policy_refused: int = 0,
    broker_away: bool = False,
) -> list[RunFigure]:
    """Goals of zero for everything that must not happen.

    `denied_unread`: how many inputs must be; `policy_refused`: how many control records the ledger must say
    to be refused; `broker_away`: it was, for a while.
    """
    wrong = wrong_sessions(answers, evidence.changelog)
    for session, problems in list(wrong.items())[:SHOWN]:
        print(f"  wrong session {session}: {problems[0]} ({len(problems)} in all)")
    return [
        figures.some("inputs", len(evidence.inputs), "records"),
        figures.some("outputs", len(evidence.ledger), "records"),
        figures.some("policies_recorded", answers.policies, "records"),
        figures.none("lost", answers.count("lost"), "inputs"),
        figures.none("duplicated", answers.count("doubled"), "inputs"),
        figures.none("conflicting", answers.count("contradicted"), "inputs"),
        figures.none("answers_without_input", answers.foreign, "records"),
        figures.none("wrong_sessions", len(wrong), "sessions"),
        chain_errors(evidence),
        figures.none("internal_errors", answers.count("faulted"), "inputs"),
        figures.exactly("denied_unread", answers.count("unread"), denied_unread, "inputs"),
        figures.exactly("refused_by_ledger", len(answers.refused), policy_refused, "records"),
        *memory_figures(evidence, answers, broker_away=broker_away),
        *retrieval_figures(evidence, answers),
        *approval_figures(evidence, broker_away=broker_away),
        *task_figures(evidence),
    ]


def chain_errors(evidence: Evidence) -> RunFigure:
    """The whole ledger, by the verifier."""
    report = verify(Located(r.topic, r.partition, r.offset, r.key, r.value) for r in evidence.ledger)
    for finding in report.findings[:SHOWN]:
        print(f"  chain: {finding}")
    return figures.none("chain_errors", len(report.findings), "findings")


def bites(tally: Tally, evidence: Evidence, required: Collection[str]) -> list[RunFigure]:
    """How hard the fault bit; the `required` ones must be above zero."""
    values = {
        "kills_in_flight": (tally.in_flight, "workers"),
        "rolled_back": (evidence.rolled_back, "records"),
        "fenced": (tally.exits[EXIT_FENCED], "workers"),
        "moved": (tally.moved, "partitions"),
        "killed": (tally.killed, "workers"),
        "fault_stops": (tally.exits[EXIT_FAULT], "workers"),
    }
    return [
        figures.some(name, *value) if name in required else figures.report(name, *value)
        for name, value in values.items()
    ] + [figures.none("slow_to_stop", tally.slow_to_stop, "workers")]


async def findings(
    tally: Tally, evidence: Evidence, required: Collection[str], *, broker_away: bool = False
) -> list[RunFigure]:
    """Both, and every decision executed again."""
    answers = account(evidence)
    return [
        *integrity(evidence, answers, broker_away=broker_away),
        *bites(tally, evidence, required),
        *await execute_again(evidence),
    ]
