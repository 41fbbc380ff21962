"""The figures that every fault run gives: what was lost, doubled, wrong, and whether the fault bit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.stream.process.failstop import EXIT_FAULT, EXIT_FENCED
from app.verifier.located import Located
from app.verifier.verify import verify
from load.recounts.answers import account
from load.recounts.recount import wrong_sessions
from load.results import figures
from load.results.memory_findings import memory_figures
from load.results.reruns import executed_again
from load.results.retrieval_findings import retrieval_figures

if TYPE_CHECKING:
    from collections.abc import Collection

    from load.recounts.answers import Account
    from load.results.figures import Figure
    from load.sites.fleet import Tally
    from load.sites.ledger_read import Evidence

SHOWN = 5


def integrity(
    evidence: Evidence,
    found: Account,
    *,
    denied_unread: int = 0,
    policy_refused: int = 0,
    broker_away: bool = False,
) -> list[Figure]:
    """Goals of zero for everything that must not happen.

    `denied_unread`: how many inputs must be; `policy_refused`: how many control records the ledger must say
    to be refused; `broker_away`: it was, for a while.
    """
    wrong = wrong_sessions(found, evidence.changelog)
    for session, problems in list(wrong.items())[:SHOWN]:
        print(f"  wrong session {session}: {problems[0]} ({len(problems)} in all)")
    report = verify(Located(r.topic, r.partition, r.offset, r.key, r.value) for r in evidence.ledger)
    for finding in report.findings[:SHOWN]:
        print(f"  chain: {finding}")
    return [
        figures.some("inputs", len(evidence.inputs), "records"),
        figures.some("outputs", len(evidence.ledger), "records"),
        figures.none("lost", found.count("lost"), "inputs"),
        figures.none("duplicated", found.count("doubled"), "inputs"),
        figures.none("conflicting", found.count("contradicted"), "inputs"),
        figures.none("answers_without_input", found.foreign, "records"),
        figures.none("wrong_sessions", len(wrong), "sessions"),
        figures.none("chain_errors", len(report.findings), "findings"),
        figures.none("internal_errors", found.count("faulted"), "inputs"),
        figures.exactly("denied_unread", found.count("unread"), denied_unread, "inputs"),
        figures.exactly("refused_by_ledger", len(found.refused), policy_refused, "records"),
        *memory_figures(evidence, found, broker_away=broker_away),
        *retrieval_figures(evidence, found),
    ]


def bites(tally: Tally, evidence: Evidence, required: Collection[str]) -> list[Figure]:
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
        figures.some(name, *value) if name in required else figures.reported(name, *value)
        for name, value in values.items()
    ] + [figures.none("slow_to_stop", tally.slow_to_stop, "workers")]


async def findings(
    tally: Tally, evidence: Evidence, required: Collection[str], *, broker_away: bool = False
) -> list[Figure]:
    """Both, and every decision executed again."""
    found = account(evidence)
    return [
        *integrity(evidence, found, broker_away=broker_away),
        *bites(tally, evidence, required),
        *await executed_again(evidence),
    ]
