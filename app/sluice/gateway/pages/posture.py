"""The posture of a tenant's actions and memory: what the newest decisions came to, in counts. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Record = Mapping[str, Any]
MOST_ROWS = 12
VERDICTS = ("allowed", "needs_human", "denied")
MEMORY_ACTIONS = ("allow", "quarantine", "reject")


def compute_action_posture(verdicts: Sequence[Record], waiting: Sequence[Record]) -> dict[str, Any]:
    """Count verdicts, and the escalations that wait, the oldest first."""
    words = Counter(str(verdict["verdict"]) for verdict in verdicts)
    times = [sum(float(gate["durationMs"]) for gate in verdict["gateResults"]) for verdict in verdicts]
    stopped = Counter(
        (str(gate["gate"]), str(verdict["verdict"]))
        for verdict in verdicts
        for gate in verdict["gateResults"]
        if gate["passed"] is False
    )
    return {
        "count": len(verdicts),
        "words": _compute_shares(words, VERDICTS),
        "median_ms": round(median(times), 1) if times else None,
        "shadow": sum(verdict.get("shadowOutcome") is not None for verdict in verdicts),
        "waiting": len(waiting),
        "oldest": waiting[0]["opened_at"] if waiting else None,
        "gates": _build_table(stopped, ("denied", "needs_human")),
        "tiers": _build_table(
            Counter((str(verdict.get("tier") or "none"), str(verdict["verdict"])) for verdict in verdicts),
            VERDICTS,
        ),
        "agents": _build_table(
            Counter((str(verdict["agent_id"]), str(verdict["verdict"])) for verdict in verdicts), VERDICTS
        ),
        "reasons": _count_reasons(verdict.get("blockReason") for verdict in verdicts),
    }


def compute_memory_posture(decisions: Sequence[Record], quarantined: Sequence[Record]) -> dict[str, Any]:
    """Count decisions on memory writes, and the memories in quarantine, the oldest first."""
    words = Counter(str(decision["action"]) for decision in decisions)
    return {
        "count": len(decisions),
        "words": _compute_shares(words, MEMORY_ACTIONS),
        "held": len(quarantined),
        "oldest": quarantined[0]["entered_at"] if quarantined else None,
        "agents": _build_table(
            Counter((str(decision["agent_id"]), str(decision["action"])) for decision in decisions),
            MEMORY_ACTIONS,
        ),
        "reasons": _count_reasons(
            decision.get("reason") for decision in decisions if decision["action"] != "allow"
        ),
    }


def list_sessions(verdicts: Iterable[Record]) -> list[dict[str, Any]]:
    """The sessions of some verdicts, the newest first, each with its newest totals and its counts."""
    sessions: dict[str, dict[str, Any]] = {}
    for verdict in verdicts:
        session = sessions.setdefault(
            str(verdict["session_id"]),
            {"id": verdict["session_id"], "agents": set(), "last": verdict["decided_at"], "words": Counter()},
        )
        session["agents"].add(str(verdict["agent_id"]))
        session["words"][str(verdict["verdict"])] += 1
        session.setdefault("totals", verdict["session"]["after"])
    return list(sessions.values())


def _compute_shares(words: Mapping[str, int], names: Sequence[str]) -> list[tuple[str, int, str]]:
    whole = sum(words.values())
    return [
        (name, words.get(name, 0), f"{words.get(name, 0) / whole:.1%}" if whole else "-") for name in names
    ]


def _build_table(counted: Mapping[tuple[str, str], int], names: Sequence[str]) -> dict[str, Any]:
    """A row for each first word, those with the most first."""
    rows: dict[str, Counter[str]] = {}
    for (first, word), count in counted.items():
        rows.setdefault(first, Counter())[word] += count
    ordered = sorted(rows.items(), key=lambda pair: (-pair[1].total(), pair[0]))[:MOST_ROWS]
    return {"names": names, "rows": [(first, [row[name] for name in names]) for first, row in ordered]}


def _count_reasons(texts: Iterable[object]) -> list[tuple[str, int]]:
    """The codes that reasons begin with, and how often."""
    counts = Counter(str(text).partition(":")[0] for text in texts if text)
    return counts.most_common(MOST_ROWS)
