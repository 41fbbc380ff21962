"""A demo's result as JSON."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from app.cli.ledger.ledger_report import report_fields
from app.demo.tally import by_session, counted, settled
from topics.catalog import DEAD_LETTERS, MEMORY_DECISIONS

if TYPE_CHECKING:
    from app.demo.result import Result


def summary_fields(result: Result, seconds: float) -> dict[str, Any]:
    """{well, run, generated, inputs, answered, unanswered, verdicts, sessions, escalations, settled,
    dead_letters, memory, retrievals, ledger, reruns, not_identical, seconds}; `generated` names what is not
    the panel's.
    """
    answers = result.answers
    return {
        "well": result.well,
        "run": result.place.run,
        "generated": [
            "row estimates",
            "sessions",
            "registry",
            "outcomes",
            "unreadable records",
            "memory metadata",
            "reviews",
            "retrievals",
            "reports of stores",
            "overrides",
        ],
        "inputs": answers.published,
        "answered": answers.answered,
        "unanswered": [one.fields for one in answers.unanswered],
        "verdicts": [
            {"verdict": cause.verdict, "gate": cause.gate, "reason": cause.kind, "count": count}
            for cause, count in counted(answers)
        ],
        "sessions": {
            one.session_id: {"aggregateRowsAffected": one.rows, "aggregateActionCount": one.actions}
            for one in by_session(answers)
        },
        "escalations": len(answers.escalations),
        "settled": len(settled(answers)),
        "dead_letters": [
            {"code": one.body["code"], "path": one.body["path"]} for one in answers.of(DEAD_LETTERS)
        ],
        "memory": {
            "decisions": dict(Counter(one.body["action"] for one in answers.of(MEMORY_DECISIONS))),
            "admitted": len(answers.admitted),
            "statistics": result.examined.statistics.live.fields(),
            "recount_equal": result.examined.statistics.equal,
        },
        "retrievals": _retrievals(result),
        "ledger": report_fields(result.examined.report),
        "reruns": result.examined.reruns.by_kind,
        "not_identical": result.examined.reruns.kept_fields(),
        "seconds": round(seconds, 1),
    }


def _retrievals(result: Result) -> dict[str, Any]:
    """`unfounded`: items that were shown without a decision; `quality`: the quality report."""
    return {
        "readings": sum(1 for _ in result.answers.retrievals()),
        "unfounded": result.answers.unfounded,
        "escalations": len(result.answers.item_escalations),
        "quality": result.examined.quality.fields(),
    }
